//! The socket against rings whose kernel is the test.

use super::super::ring::fake;
use super::*;

const FRAMES: u32 = 8;
const FRAME_SIZE: u32 = 2048;
const COOKIE: u64 = 0x1234_5678_9abc_def0;
/// Where the kernel puts a packet in its frame.
const DATA: u64 = (XDP_PACKET_HEADROOM + HEADROOM) as u64;

/// A socket whose kernel is the test: the last frames belong to transmission. The other end of the pair sees kicks.
fn socket(start: u32) -> (XskSocket, XskTransmit, OwnedFd) {
    let mut pair = [0; 2];
    // SAFETY: two writable descriptors, each owned once below.
    let (ours, other) = unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0, pair.as_mut_ptr()), 0);
        (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1]))
    };
    let fd = Arc::new(ours);
    let umem = Arc::new(Region::anonymous((FRAMES * FRAME_SIZE * 2) as usize, false, "test UMEM").unwrap());
    let receive = XskSocket {
        fd: Arc::clone(&fd),
        umem: Arc::clone(&umem),
        rx: Consumer::new(fake::region(start), fake::LAYOUT, FRAMES).unwrap(),
        fill: Producer::new(fake::region(start), fake::LAYOUT, FRAMES).unwrap(),
        frame_size: FRAME_SIZE,
        rx_frames: FRAMES,
        cookie: COOKIE,
        last_stamp_ns: 0,
        zero_copy: false,
        ring_bytes: 0,
        polled: None,
        invalid_descriptors: 0,
    };
    let first = u64::from(FRAMES * FRAME_SIZE);
    let tx = Producer::new(fake::region(start), fake::LAYOUT, FRAMES).unwrap();
    let completion = Consumer::new(fake::region(start), fake::LAYOUT, FRAMES).unwrap();
    let transmit = XskTransmit::new(fd, umem, tx, completion, FRAME_SIZE, first, FRAMES);
    (receive, transmit, other)
}

fn kicks(other: &OwnedFd) -> usize {
    // SAFETY: no buffer is passed.
    let take = || unsafe { libc::recv(other.as_raw_fd(), std::ptr::null_mut(), 0, 0) };
    std::iter::repeat_with(take).take_while(|&got| got >= 0).count()
}

/// Polls of the device since the last call (the first one tells nothing): each took one of eight waiting datagrams.
fn polls(socket: &XskSocket, other: &OwnedFd) -> usize {
    let left = kicks(&socket.fd);
    for _ in 0..8 {
        // SAFETY: no buffer is passed.
        unsafe { libc::send(other.as_raw_fd(), std::ptr::null(), 0, 0) };
    }
    8usize.saturating_sub(left)
}

fn descriptor(addr: u64, len: u32) -> libc::xdp_desc {
    libc::xdp_desc { addr, len, options: 0 }
}

#[test]
fn descriptors_outside_the_receive_frames_are_counted_and_their_slots_returned() {
    let (mut socket, _, _other) = socket(u32::MAX - 3);
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
        for descriptor in bad {
            assert!(socket.rx.kernel_puts(descriptor), "round {round}");
        }
        socket.receive(&mut slots, 64);
        assert!(slots.is_empty());
        assert_eq!(socket.invalid_descriptors, (round + 1) * bad.len() as u64);
    }
    assert!(socket.rx.kernel_puts(bad[1]) && socket.rx.kernel_puts(descriptor(frame * 7 + DATA, 60)));
    socket.receive(&mut slots, 64);
    assert_eq!((slots.len(), slots[0].token), (1, frame * 7));
}

#[test]
fn frames_go_round_across_the_wrap_with_their_stamps() {
    let (mut socket, _, _other) = socket(u32::MAX - 5);
    let mut slots = Vec::with_capacity(64);
    for frame in 0..FRAMES {
        socket.fill.push(u64::from(frame * FRAME_SIZE));
    }
    socket.fill.publish();
    for round in 0..10u64 {
        let frames = socket.fill.kernel_takes();
        assert_eq!(frames.len(), FRAMES as usize, "all frames come back");
        for (i, frame) in frames.iter().enumerate() {
            let at = (frame + DATA) as usize;
            // SAFETY: inside the test's UMEM, which nobody refers to now.
            unsafe {
                let data = socket.umem.base().as_ptr().add(at);
                data.write(i as u8);
                data.sub(16).cast::<u64>().write_unaligned(1000 + round);
                // Every second frame bears another run's cookie.
                data.sub(8).cast::<u64>().write_unaligned(if i % 2 == 0 { COOKIE } else { !COOKIE });
            }
            assert!(socket.rx.kernel_puts(descriptor(at as u64, 60)));
        }
        socket.receive(&mut slots, 64);
        for (i, slot) in slots.iter().enumerate() {
            assert_eq!(socket.umem.bytes(slot)[0], i as u8);
            assert_eq!(slot.arrival_ns, if i % 2 == 0 { 1000 + round } else { 0 });
        }
        socket.give_back(&slots);
        slots.clear();
    }
    // What an earlier packet left in front of a frame is no stamp of a later one.
    let frames = socket.fill.kernel_takes();
    let addresses = [frames[2] + DATA, frames[4] + DATA];
    // SAFETY: as above.
    unsafe { socket.umem.base().as_ptr().add(addresses[0] as usize - 16).cast::<u64>().write_unaligned(2000) };
    for addr in addresses {
        assert!(socket.rx.kernel_puts(descriptor(addr, 60)));
    }
    socket.receive(&mut slots, 64);
    assert_eq!((slots[0].arrival_ns, slots[1].arrival_ns), (2000, 0));
}

#[test]
fn a_poll_that_used_its_budget_up_is_run_again_and_one_that_did_not_is_not() {
    let (mut socket, _, other) = socket(0);
    let mut slots = Vec::with_capacity(64);
    let mut receive = |socket: &mut XskSocket, packets: i32| {
        for _ in 0..packets {
            assert!(socket.rx.kernel_puts(descriptor(DATA, 60)));
            socket.receive(&mut slots, 64);
            assert_eq!(slots.len(), 1);
            slots.clear();
        }
        socket.receive(&mut slots, 64);
        assert!(slots.is_empty());
    };
    polls(&socket, &other);
    receive(&mut socket, BUSY_POLL_BUDGET);
    assert_eq!(polls(&socket, &other), 0, "the kernel polls");
    socket.run_poll();
    receive(&mut socket, BUSY_POLL_BUDGET - 1);
    assert_eq!(polls(&socket, &other), 1, "the card was empty");
    socket.run_poll();
    receive(&mut socket, BUSY_POLL_BUDGET);
    assert_eq!(polls(&socket, &other), 2, "the card may hold more");
    receive(&mut socket, 0);
    assert_eq!(polls(&socket, &other), 0, "it did not");
    receive(&mut socket, BUSY_POLL_BUDGET);
    assert_eq!(polls(&socket, &other), 1);
    socket.leave_to_kernel();
    receive(&mut socket, BUSY_POLL_BUDGET);
    assert_eq!(polls(&socket, &other), 0);
}

#[test]
fn a_controller_that_counts_buffers_in_kib_gets_less_room() {
    let room = XskConfig::longest_frame;
    assert_eq!((room(2048, None), room(2048, Some("veth")), room(2048, Some("igb"))), (1776, 1776, 1024));
    assert_eq!((room(4096, None), room(4096, Some("igb"))), (3824, 3072));
}

#[test]
fn a_wish_for_a_wakeup_is_seen() {
    let (mut socket, _, _other) = socket(0);
    assert!(!socket.fill_needs_wakeup());
    socket.fill.kernel_wants_wakeup(true);
    assert!(socket.fill_needs_wakeup());
    socket.fill.kernel_wants_wakeup(false);
    assert!(!socket.fill_needs_wakeup());
}

#[test]
fn transmit_frames_are_refused_when_all_are_out_and_kicked_once() {
    let (_, mut transmit, other) = socket(u32::MAX - 2);
    for round in 0..3 {
        for i in 0..FRAMES {
            assert_eq!(
                transmit.send(|frame| {
                    frame[0] = i as u8;
                    60
                }),
                Some(60),
                "round {round}"
            );
        }
        assert_eq!(transmit.send(|_| panic!("there is no frame to lend")), None);
        assert_eq!((transmit.pending(), transmit.tx.kernel_takes().len()), (FRAMES, 0), "unseen before the kick");
        transmit.tx.kernel_wants_wakeup(round > 0);
        transmit.kick();
        assert_eq!(kicks(&other), usize::from(round > 0), "only a kernel that asks is called");
        let sent = transmit.tx.kernel_takes();
        for (i, descriptor) in sent.iter().enumerate() {
            let at = descriptor.addr as usize;
            // SAFETY: inside the test's UMEM.
            assert_eq!(unsafe { transmit.umem.base().as_ptr().add(at).read() }, i as u8, "in order");
            assert!(transmit.completion.kernel_puts(descriptor.addr));
        }
        assert_eq!((sent.len(), transmit.pending()), (FRAMES as usize, 0));
    }
    // Neither addresses that are not ours nor frames that are not out are taken for free frames.
    transmit.reclaim();
    for address in [0, u64::MAX, transmit.first - 1, transmit.first] {
        assert!(transmit.completion.kernel_puts(address));
        assert_eq!(transmit.reclaim(), 0, "{address}");
    }
    assert_eq!(transmit.send(|_| 0), Some(0), "nothing to send after all");
    assert_eq!(transmit.free.len(), FRAMES as usize);
}
