//! The socket against rings whose kernel is the test.

use super::super::ring::fake;
use super::*;

const FRAMES: u32 = 8;
const FRAME_SIZE: u32 = 2048;
const COOKIE: u64 = 0x1234_5678_9abc_def0;
/// Where the kernel puts a packet in its frame.
const DATA: u64 = XDP_PACKET_HEADROOM as u64;

/// A socket whose kernel is the test: the last frames belong to transmission. The other end of the pair sees kicks.
fn socket(start: u32) -> (XskSocket, XskTransmit, OwnedFd) {
    socket_of(start, Frames { count: FRAMES, size: FRAME_SIZE })
}

fn socket_of(start: u32, frames: Frames) -> (XskSocket, XskTransmit, OwnedFd) {
    let mut pair = [0; 2];
    // SAFETY: two writable descriptors, each owned once below.
    let (ours, other) = unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0, pair.as_mut_ptr()), 0);
        (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1]))
    };
    let fd = Arc::new(ours);
    let transmit_bytes = (FRAMES * FRAME_SIZE) as usize;
    let umem = if frames.packed() {
        Region::endless(frames.bytes(), frames.tail(), transmit_bytes, "test UMEM").unwrap()
    } else {
        Region::anonymous(frames.bytes() + transmit_bytes, false, "test UMEM").unwrap()
    };
    let umem = Arc::new(umem);
    let receive = XskSocket {
        fd: Arc::clone(&fd),
        umem: Arc::clone(&umem),
        rx: Consumer::new(fake::region(start), fake::LAYOUT, frames.count).unwrap(),
        fill: Producer::new(fake::region(start), fake::LAYOUT, frames.count).unwrap(),
        frames,
        cookie: COOKIE,
        zero_copy: false,
        ring_bytes: 0,
        polled: None,
        taken: 0,
        given: 0,
        refused: Refused::new(),
        invalid_descriptors: 0,
    };
    let first = (frames.bytes() + frames.tail()) as u64;
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
    assert_eq!((slots.len(), slots[0].token), (1, 7 << 32 | 1));
}

#[test]
fn frames_go_round_across_the_wrap_with_their_stamps() {
    let (mut socket, _, _other) = socket(u32::MAX - 5);
    let mut slots = Vec::with_capacity(64);
    for frame in 0..FRAMES {
        socket.fill.put(u64::from(frame * FRAME_SIZE));
    }
    socket.fill.publish();
    for round in 0..10u64 {
        let frames = socket.fill.kernel_takes();
        assert_eq!(frames.len(), FRAMES as usize, "all frames come back");
        for (i, frame) in frames.iter().enumerate() {
            // Every second packet bears another run's cookie.
            let cookie = if i % 2 == 0 { COOKIE } else { !COOKIE };
            write(&socket.umem, (frame + DATA) as usize, &stamped(1000 + round, cookie, &[i as u8; 60]));
            assert!(socket.rx.kernel_puts(descriptor(frame + DATA, 76)));
        }
        socket.receive(&mut slots, 64);
        for (i, slot) in slots.iter().enumerate() {
            let (stamp, len) = if i % 2 == 0 { (1000 + round, 60) } else { (0, 76) };
            assert_eq!((slot.arrival_ns, slot.wire_len), (stamp, len));
            assert_eq!(socket.umem.bytes(slot)[len as usize - 60..], [i as u8; 60]);
        }
        socket.give_back(&slots);
        slots.clear();
    }
}

/// A packet as the steering program delivers it.
fn stamped(time_ns: u64, cookie: u64, packet: &[u8]) -> Vec<u8> {
    [&time_ns.to_ne_bytes(), &cookie.to_ne_bytes(), packet].concat()
}

fn write(umem: &Region, at: usize, bytes: &[u8]) {
    assert!(at + bytes.len() <= umem.len());
    // SAFETY: inside the test's UMEM, which nobody refers to now.
    unsafe { umem.base().add(at).copy_from_nonoverlapping(std::ptr::NonNull::from(bytes).cast(), bytes.len()) };
}

/// Copies a packet into packed frames as the kernel does: piece by piece, each to where its chunk's headroom ends.
fn deliver(socket: &mut XskSocket, chunks: &mut impl Iterator<Item = u64>, packet: &[u8]) -> Vec<libc::xdp_desc> {
    let lead = u64::from(PACKED_CHUNK - PACKED_FRAME);
    let pieces = packet.chunks(PACKED_FRAME as usize);
    let count = pieces.len();
    let put = |(i, piece): (usize, &[u8])| {
        let chunk = chunks.next().unwrap();
        write(&socket.umem, (chunk + lead) as usize, piece);
        let options = if i + 1 < count { XDP_PKT_CONTD } else { 0 };
        libc::xdp_desc { addr: chunk | lead << UNALIGNED_SHIFT, len: piece.len() as u32, options }
    };
    pieces.enumerate().map(put).collect()
}

#[test]
fn packets_in_packed_frames_are_whole_wherever_they_lie() {
    const COUNT: u32 = 64;
    let (mut socket, _, _other) = socket_of(u32::MAX - 5, Frames { count: COUNT, size: PACKED_FRAME });
    for frame in 0..COUNT {
        socket.fill.put(u64::from(frame * PACKED_FRAME));
    }
    socket.fill.publish();
    let mut slots = Vec::with_capacity(64);
    let mut given = Vec::new();
    // Of 1, 1, 2, 4, 21 and 5 frames: the ring's end falls at another place of them in each round.
    let sizes = [60, 432, 433, 1514, 9000, 1900];
    for round in 0..200u64 {
        given.extend(socket.fill.kernel_takes());
        let mut chunks = std::mem::take(&mut given).into_iter();
        let packet = |len: usize| (0..len).map(|i| (i as u64 * 31 + round + len as u64) as u8).collect::<Vec<_>>();
        // All are in memory before the first is read: none may have written over another.
        let written: Vec<_> = sizes
            .iter()
            .flat_map(|&len| deliver(&mut socket, &mut chunks, &stamped(round, COOKIE, &packet(len))))
            .collect();
        assert!(written.into_iter().all(|descriptor| socket.rx.kernel_puts(descriptor)));
        given.extend(chunks);
        socket.receive(&mut slots, 64);
        assert_eq!((slots.len(), socket.invalid_descriptors), (sizes.len(), 0), "round {round}");
        for (slot, len) in slots.iter().zip(sizes) {
            assert_eq!((slot.arrival_ns, slot.wire_len), (round, len as u32));
            assert!(socket.umem.bytes(slot) == packet(len), "round {round}, {len} bytes at {}", slot.offset());
        }
        socket.give_back(&slots);
        slots.clear();
    }
    assert_eq!(given.len() + socket.fill.kernel_takes().len(), COUNT as usize, "all frames come back");
}

#[test]
fn pieces_that_do_not_follow_each_other_make_no_packet() {
    let (mut socket, _, _other) = socket_of(0, Frames { count: 64, size: PACKED_FRAME });
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
        assert!(descriptors.iter().all(|&descriptor| socket.rx.kernel_puts(descriptor)));
        socket.receive(&mut slots, 64);
        assert_eq!((slots.len(), socket.invalid_descriptors), (0, count as u64 + 1));
    }
    // 64 KiB in the last place of all fit, and more than the memory goes on behind its end does not.
    let longest = (1u32 << 16).div_ceil(PACKED_FRAME);
    let (mut socket, _, _other) = socket_of(0, Frames { count: 256, size: PACKED_FRAME });
    for (first, pieces, fits) in [(255, 4, 1), (255, longest, 1), (255, longest + 8, 0)] {
        for i in 0..pieces {
            let descriptor = full((first + i) % 256);
            let options = if i + 1 < pieces { XDP_PKT_CONTD } else { 0 };
            assert!(socket.rx.kernel_puts(libc::xdp_desc { options, ..descriptor }));
        }
        slots.clear();
        socket.receive(&mut slots, 64);
        assert_eq!(slots.len(), fits, "{pieces} pieces");
    }
    assert!(socket.rx.kernel_puts(piece(0, 60, 0)));
    socket.receive(&mut slots, 64);
    assert_eq!(slots.len(), 1, "the ring goes on");
}

#[test]
fn a_refused_packet_costs_no_frames_and_a_hole_one_packet_a_lap() {
    const COUNT: u32 = 256;
    const LAPS: u64 = 200;
    let (mut socket, _, _other) = socket_of(u32::MAX - 5, Frames { count: COUNT, size: PACKED_FRAME });
    for frame in (0..COUNT).filter(|&frame| frame != 100) {
        socket.fill.put(u64::from(frame * PACKED_FRAME));
    }
    socket.fill.publish();
    let mut slots = Vec::with_capacity(64);
    let mut free: Vec<u64> = Vec::new();
    let (mut sent, mut taken) = (0u64, 0u64);
    while sent < LAPS * u64::from(COUNT - 1) / 4 {
        // Three times two packets of four frames, each lot given back while the next is taken already.
        let mut earlier: Vec<Slot> = Vec::new();
        for _ in 0..3 {
            free.extend(socket.fill.kernel_takes());
            let mut chunks = std::mem::take(&mut free).into_iter();
            for _ in 0..2 {
                let descriptors = deliver(&mut socket, &mut chunks, &stamped(1, COOKIE, &[7; 1514]));
                assert!(descriptors.into_iter().all(|descriptor| socket.rx.kernel_puts(descriptor)));
                sent += 1;
            }
            free = chunks.collect();
            socket.receive(&mut slots, 64);
            socket.give_back(&earlier);
            taken += slots.len() as u64;
            earlier = std::mem::take(&mut slots);
            slots.reserve(64);
        }
        socket.give_back(&earlier);
    }
    free.extend(socket.fill.kernel_takes());
    let lap: Vec<u64> = free.iter().map(|chunk| chunk / u64::from(PACKED_FRAME)).collect();
    assert_eq!(lap.len(), COUNT as usize - 1, "all frames come back");
    let jumps = lap.windows(2).filter(|pair| pair[1] != (pair[0] + 1) % u64::from(COUNT)).count();
    assert!(jumps <= 1, "in order but for the hole: {lap:?}");
    assert_eq!(taken + socket.invalid_descriptors, sent);
    assert!((1..=LAPS + 1).contains(&socket.invalid_descriptors), "{}", socket.invalid_descriptors);
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
    let room = |size, driver| XskConfig::longest_frame(size, 1, driver);
    assert_eq!((room(2048, None), room(2048, Some("veth")), room(2048, Some("igb"))), (1776, 1776, 1024));
    assert_eq!((room(4096, None), room(4096, Some("igb"))), (3824, 3072));
    let packed = |frames| XskConfig::longest_frame(PACKED_FRAME, frames, Some("igb"));
    assert_eq!((packed(64), packed(1 << 20)), (64 * 448 - 16, 65_520), "what a ring of packed frames holds");
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
