//! Whole engines over each kind of ring, whose kernel or card is a thread of the test: no root, no device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringtap::engine::{Engine, Handler};
use ringtap::meters::EngineMeters;
use ringtap::pacer::{Pacer, Policy};
use ringtap::testing::rings::RingSource;
use ringtap::transmit::TransmitRing;
use ringtap::{End, Outbox, Packet, Stop};

const PACKETS: u32 = 20_000;
const SLOTS: u32 = 64;

/// A packet that no other looks like, of 60 to 1,514 bytes.
fn packet(number: u32) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..60 + number * 37 % 1455).map(|i| (i + number) as u8).collect();
    packet[..4].copy_from_slice(&number.to_be_bytes());
    packet
}

/// Takes packets in order and answers every third; an answer that found no frame free is told by the meters.
struct Answer {
    next: u32,
}

impl Handler for Answer {
    fn packet(&mut self, received: &Packet<'_>, outbox: &mut Outbox<'_>) {
        assert!(received.data == packet(self.next), "packet {}", self.next);
        if self.next.is_multiple_of(3) {
            outbox.send(|frame| {
                frame[..received.data.len()].copy_from_slice(received.data);
                received.data.len()
            });
        }
        self.next += 1;
    }
}

/// `deliver` gives the ring a packet, if there is room, and `send` takes what was sent.
fn run(
    (source, transmit): (RingSource, TransmitRing),
    mut deliver: impl FnMut(&[u8]) -> bool + Send,
    mut send: impl FnMut() -> Vec<Vec<u8>> + Send,
) {
    let stop = Arc::new(Stop::new().unwrap());
    let mut engine = Engine {
        source,
        handler: Answer { next: 0 },
        pacer: Pacer::new(&Policy::Interrupt).unwrap(),
        transmit: Some(transmit),
        stop,
        meters: Arc::new(EngineMeters::default()),
        packet_limit: Some(u64::from(PACKETS)),
    };
    let done = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let kernel = scope.spawn(|| {
            let mut answers = Vec::new();
            for number in 0..PACKETS {
                let packet = packet(number);
                while !deliver(&packet) && !done.load(Ordering::Acquire) {
                    answers.append(&mut send());
                    std::thread::yield_now();
                }
            }
            while !done.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            answers.append(&mut send());
            answers
        });
        let end = engine.run();
        done.store(true, Ordering::Release);
        assert_eq!(end, End::Limit);
        kernel.join().unwrap()
    });
    let meters = engine.meters.snapshot();
    assert_eq!((engine.handler.next, meters.packets), (PACKETS, u64::from(PACKETS)));
    assert_eq!(ringtap::Source::invalid_descriptors(&engine.source), 0);
    assert_eq!(meters.transmitted + meters.transmit_refused, u64::from(PACKETS.div_ceil(3)));
    assert_eq!(meters.transmitted, answers.len() as u64);
    let numbers: Vec<u32> = answers.iter().map(|answer| u32::from_be_bytes(answer[..4].try_into().unwrap())).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
    assert!(answers.iter().zip(&numbers).all(|(answer, &number)| *answer == packet(number)));
}

/// One kernel that both closures use in turn, on one thread.
fn shared<K>(kernel: K) -> Arc<std::sync::Mutex<K>> {
    Arc::new(std::sync::Mutex::new(kernel))
}

#[test]
fn an_af_xdp_socket_loses_nothing() {
    for packed in [false, true] {
        let (source, transmit, kernel) = RingSource::xdp(SLOTS, packed);
        let kernel = shared(kernel);
        run(
            (source, transmit),
            |packet| kernel.lock().unwrap().deliver(packet, 1),
            || kernel.lock().unwrap().send(u32::MAX),
        );
    }
}

#[test]
fn a_packet_ring_loses_nothing() {
    let (source, transmit, mut kernel, mut sender) = RingSource::packet(SLOTS as usize);
    run((source, transmit), |packet| kernel.deliver(packet, None, (1, 0)).is_some(), || sender.send(usize::MAX));
}

#[test]
fn a_cards_ring_loses_nothing() {
    let (source, transmit, card) = RingSource::card(SLOTS as usize);
    let card = shared(card);
    run((source, transmit), |packet| card.lock().unwrap().deliver(packet), || card.lock().unwrap().send(usize::MAX));
}
