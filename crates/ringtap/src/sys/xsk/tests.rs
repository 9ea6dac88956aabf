//! The socket against rings whose kernel is the test: what each test is about, step by step. See `generated` for any order of steps.

use std::os::unix::net::UnixDatagram;

use super::*;
use crate::testing::rings::{XdpKernel, xdp_socket};

const FRAMES: u32 = 8;
const FRAME_SIZE: u32 = 2048;
/// Where the kernel puts a packet in its frame.
const DATA: u64 = XDP_PACKET_HEADROOM as u64;

fn socket(start: u32) -> (XskSocket, XskTransmit, XdpKernel) {
    xdp_socket(FRAMES, FRAME_SIZE, FRAMES, start)
}

fn packed(count: u32, start: u32) -> (XskSocket, XdpKernel) {
    let (socket, _, kernel) = xdp_socket(count, PACKED_FRAME, 2, start);
    (socket, kernel)
}

fn show(kernel: &mut XdpKernel, descriptors: &[libc::xdp_desc]) {
    assert!(descriptors.iter().all(|&descriptor| kernel.describe(descriptor)));
    kernel.show();
}

/// Polls of the device since the last call (the first one tells nothing): each took one of eight waiting datagrams.
fn polls(socket: &XskSocket, kernel: &XdpKernel) -> usize {
    let ours = UnixDatagram::from(socket.fd.try_clone().unwrap());
    let left = std::iter::from_fn(|| ours.recv(&mut []).ok()).count();
    assert!((0..8).all(|_| kernel.calls.queue(&[])));
    8usize.saturating_sub(left)
}

fn descriptor(addr: u64, len: u32) -> libc::xdp_desc {
    libc::xdp_desc { addr, len, options: 0 }
}

#[test]
fn descriptors_outside_the_receive_frames_are_counted_and_their_slots_returned() {
    let (mut socket, _, mut kernel) = socket(u32::MAX - 3);
    let mut slots = Vec::with_capacity(64);
    let frame = u64::from(FRAME_SIZE);
    let bad = [
        descriptor(u64::from(FRAMES) * frame + DATA, 60),
        descriptor(u64::MAX, 60),
        descriptor(u64::MAX - 100, u32::MAX),
        descriptor(DATA, u32::MAX),
        descriptor(DATA, FRAME_SIZE - DATA as u32 + 1),
        descriptor(frame - 1, 2),
        libc::xdp_desc { addr: DATA, len: 60, options: XDP_PKT_CONTD },
    ];
    // More rounds than the ring has slots: a slot kept back would stop the kernel.
    for round in 0..5u64 {
        show(&mut kernel, &bad);
        socket.receive(&mut slots, 64);
        assert!(slots.is_empty());
        assert_eq!(socket.invalid_descriptors, (round + 1) * bad.len() as u64);
    }
    show(&mut kernel, &[bad[1], descriptor(frame * 7 + DATA, 60)]);
    socket.receive(&mut slots, 64);
    assert_eq!((slots.len(), slots[0].token), (1, 7 << 32 | 1));
}

#[test]
fn pieces_that_do_not_follow_each_other_make_no_packet() {
    let (mut socket, mut kernel) = packed(64, 0);
    let mut slots = Vec::with_capacity(64);
    let lead = u64::from(PACKED_CHUNK - PACKED_FRAME);
    let piece = |frame: u32, len: u32, options| {
        let addr = u64::from(frame * PACKED_FRAME) | lead << UNALIGNED_SHIFT;
        libc::xdp_desc { addr, len, options }
    };
    let full = |frame| piece(frame, PACKED_FRAME, XDP_PKT_CONTD);
    let at = |addr| libc::xdp_desc { addr, len: 60, options: 0 };
    let bad: [&[libc::xdp_desc]; 8] = [
        &[full(3), piece(5, 60, 0)],
        &[full(3), full(3), piece(5, 60, 0)],
        &[piece(3, 200, XDP_PKT_CONTD), piece(4, 60, 0)],
        &[full(3), piece(64, 60, 0)],
        &[piece(3, PACKED_FRAME + 1, 0)],
        &[at(u64::from(PACKED_FRAME) | (lead - 1) << UNALIGNED_SHIFT)],
        &[at(u64::from(PACKED_FRAME + 1) | lead << UNALIGNED_SHIFT)],
        // The kernel's last word is that more comes, and nothing does.
        &[full(3)],
    ];
    for (count, descriptors) in bad.iter().enumerate() {
        show(&mut kernel, descriptors);
        socket.receive(&mut slots, 64);
        assert_eq!((slots.len(), socket.invalid_descriptors), (0, count as u64 + 1));
    }
    // 64 KiB in the last place of all fit, and more than the memory goes on behind its end does not.
    let longest = (1u32 << 16).div_ceil(PACKED_FRAME);
    let (mut socket, mut kernel) = packed(256, 0);
    for (first, pieces, fits) in [(255, 4, 1), (255, longest, 1), (255, longest + 8, 0)] {
        for i in 0..pieces {
            let descriptor = full((first + i) % 256);
            let options = if i + 1 < pieces { XDP_PKT_CONTD } else { 0 };
            show(&mut kernel, &[libc::xdp_desc { options, ..descriptor }]);
        }
        slots.clear();
        socket.receive(&mut slots, 64);
        assert_eq!(slots.len(), fits, "{pieces} pieces");
    }
    show(&mut kernel, &[piece(0, 60, 0)]);
    socket.receive(&mut slots, 64);
    assert_eq!(slots.len(), 1, "the ring goes on");
}

#[test]
fn a_refused_packet_costs_no_frames_and_a_hole_one_packet_a_lap() {
    const COUNT: u32 = 256;
    const LAPS: u64 = 200;
    let (mut socket, mut kernel) = packed(COUNT, u32::MAX - 5);
    // A hole: one frame never comes back.
    let before: Vec<u64> = std::iter::from_fn(|| kernel.frame()).take(100).collect();
    assert_eq!(kernel.frame(), Some(u64::from(100 * PACKED_FRAME)));
    before.into_iter().rev().for_each(|frame| kernel.put_back(frame));
    let mut slots = Vec::with_capacity(64);
    let (mut sent, mut taken) = (0u64, 0u64);
    while sent < LAPS * u64::from(COUNT - 1) / 4 {
        // Three times two packets of four frames, each lot given back while the next is taken already.
        let mut earlier: Vec<Slot> = Vec::new();
        for _ in 0..3 {
            for _ in 0..2 {
                assert!(kernel.deliver(&[7; 1514], 1));
                sent += 1;
            }
            socket.receive(&mut slots, 64);
            socket.give_back(&earlier);
            taken += slots.len() as u64;
            earlier = std::mem::take(&mut slots);
            slots.reserve(64);
        }
        socket.give_back(&earlier);
    }
    let lap: Vec<u64> = kernel.frames().iter().map(|chunk| chunk / u64::from(PACKED_FRAME)).collect();
    assert_eq!(lap.len(), COUNT as usize - 1, "all frames come back");
    let jumps = lap.windows(2).filter(|pair| pair[1] != (pair[0] + 1) % u64::from(COUNT)).count();
    assert!(jumps <= 1, "in order but for the hole: {lap:?}");
    assert_eq!(taken + socket.invalid_descriptors, sent);
    assert!((1..=LAPS + 1).contains(&socket.invalid_descriptors), "{}", socket.invalid_descriptors);
}

#[test]
fn a_poll_that_used_its_budget_up_is_run_again_and_one_that_did_not_is_not() {
    let (mut socket, _, mut kernel) = socket(0);
    let mut slots = Vec::with_capacity(64);
    let mut receive = |socket: &mut XskSocket, kernel: &mut XdpKernel, packets: i32| {
        for _ in 0..packets {
            show(kernel, &[descriptor(DATA, 60)]);
            socket.receive(&mut slots, 64);
            assert_eq!(slots.len(), 1);
            slots.clear();
        }
        socket.receive(&mut slots, 64);
        assert!(slots.is_empty());
    };
    polls(&socket, &kernel);
    receive(&mut socket, &mut kernel, BUSY_POLL_BUDGET);
    assert_eq!(polls(&socket, &kernel), 0, "the kernel polls");
    socket.run_poll();
    receive(&mut socket, &mut kernel, BUSY_POLL_BUDGET - 1);
    assert_eq!(polls(&socket, &kernel), 1, "the card was empty");
    socket.run_poll();
    receive(&mut socket, &mut kernel, BUSY_POLL_BUDGET);
    assert_eq!(polls(&socket, &kernel), 2, "the card may hold more");
    receive(&mut socket, &mut kernel, 0);
    assert_eq!(polls(&socket, &kernel), 0, "it did not");
    receive(&mut socket, &mut kernel, BUSY_POLL_BUDGET);
    assert_eq!(polls(&socket, &kernel), 1);
    socket.leave_to_kernel();
    receive(&mut socket, &mut kernel, BUSY_POLL_BUDGET);
    assert_eq!(polls(&socket, &kernel), 0);
}

#[test]
fn a_controller_that_counts_buffers_in_kib_gets_less_room() {
    let room = |size, driver| XskConfig::longest_frame(size, 1, driver);
    assert_eq!((room(2048, None), room(2048, Some("veth")), room(2048, Some("igb"))), (1776, 1776, 1024));
    assert_eq!((room(4096, None), room(4096, Some("igb"))), (3824, 3072));
    let packed = |frames| XskConfig::longest_frame(PACKED_FRAME, frames, Some("igb"));
    assert_eq!((packed(64), packed(1 << 20)), (64 * 448 - 16, 65_520), "what a ring of packed frames holds");
}

#[test]
fn a_wish_for_a_wakeup_is_seen() {
    let (socket, _, kernel) = socket(0);
    assert!(!socket.fill_needs_wakeup());
    kernel.fill.want_wakeup(true);
    assert!(socket.fill_needs_wakeup());
    kernel.fill.want_wakeup(false);
    assert!(!socket.fill_needs_wakeup());
}

#[test]
fn transmit_frames_are_refused_when_all_are_out_and_kicked_once() {
    let (_, mut transmit, mut kernel) = socket(u32::MAX - 2);
    for round in 0..3 {
        for i in 0..FRAMES {
            let build = |frame: &mut [u8]| {
                frame[..60].fill(i as u8);
                60
            };
            assert_eq!(transmit.send(build), Some(60), "round {round}");
        }
        assert_eq!(transmit.send(|_| panic!("there is no frame to lend")), None);
        assert_eq!((transmit.pending(), kernel.send(FRAMES).len()), (FRAMES, 0), "unseen before the kick");
        kernel.tx.want_wakeup(round > 0);
        transmit.kick();
        assert_eq!(kernel.calls.sends(), usize::from(round > 0), "only a kernel that asks is called");
        let sent = kernel.send(FRAMES);
        assert!(sent.iter().zip(0..).all(|(packet, i)| *packet == [i; 60]), "in order: {sent:?}");
        assert_eq!((sent.len(), transmit.pending()), (FRAMES as usize, 0));
    }
    assert_eq!(transmit.send(|_| 0), Some(0), "nothing to send after all");
}
