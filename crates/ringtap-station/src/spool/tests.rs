use super::*;

fn head(at_ns: u64) -> Head {
    Head { at_ns, source: "192.0.2.1:162".parse().unwrap(), to: None, service: Service::Snmp, socket: 0 }
}

/// A number in each datagram, to tell them apart.
fn datagram(number: u64) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[7; 992]].concat()
}

fn numbers(batch: &Batch<'_>) -> Vec<u64> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let read = batch.iter().map(|(head, place)| {
        let bytes = &batch.bytes()[place];
        assert_eq!((number(bytes), bytes.len()), (head.at_ns, 1000));
        head.at_ns
    });
    read.collect()
}

const IN_BLOCK: u64 = BLOCK_BYTES as u64 / 1000;

#[test]
fn what_goes_in_comes_out_and_what_does_not_fit_is_counted() {
    let (mut producer, mut consumer) = spool(2 * BLOCK_BYTES, Arc::default()).unwrap();
    let mut taken = 0;
    while producer.push(head(taken), &datagram(taken)) {
        taken += 1;
    }
    assert_eq!(taken, 2 * IN_BLOCK);
    assert_eq!(producer.lost().read(), (1, 1000));
    assert_eq!(numbers(&consumer.take().unwrap()), (0..IN_BLOCK).collect::<Vec<_>>());
    assert!(producer.push(head(taken), &datagram(taken)), "room again");
    assert_eq!(numbers(&consumer.take().unwrap()), (IN_BLOCK..taken).collect::<Vec<_>>());
    assert!(!producer.push(head(0), &vec![0; BLOCK_BYTES + 1]));
    assert_eq!(producer.lost().read().0, 2);
    drop(producer);
    assert_eq!(numbers(&consumer.take().unwrap()), [taken]);
    assert!(consumer.is_finished());
}

/// A large one does not fit behind what there is and a smaller one does, over and over: each datagram that was taken comes out whole.
#[test]
fn sizes_that_differ_make_no_more_batches_than_there_is_room_for() {
    for blocks in [2, 3, 16] {
        let (mut producer, mut consumer) = spool(blocks * BLOCK_BYTES, Arc::default()).unwrap();
        let (mut taken, mut lost) = (VecDeque::new(), 0);
        let check = |consumer: &mut SpoolConsumer, taken: &mut VecDeque<(u64, usize)>| {
            while let Some(batch) = consumer.take() {
                for (head, place) in batch.iter() {
                    assert_eq!(Some((head.at_ns, place.len())), taken.pop_front());
                    assert!(batch.bytes()[place].iter().all(|&byte| byte == head.at_ns as u8));
                }
            }
        };
        for number in 0..20_000_u64 {
            let length = [60_000, 40, 9000, 40, 700][number as usize % 5];
            if producer.push(head(number), &vec![number as u8; length]) {
                taken.push_back((number, length));
            } else {
                lost += 1;
            }
            if number % 3 == 0 {
                producer.cycle_end();
            }
            // The judging thread comes round seldom.
            if number % 1777 == 1776 {
                check(&mut consumer, &mut taken);
            }
        }
        assert!(lost > 1000 && producer.lost().read().0 == lost, "{blocks}: {lost}");
        drop(producer);
        check(&mut consumer, &mut taken);
        assert!(taken.is_empty() && consumer.is_finished(), "{blocks}: {} never came", taken.len());
    }
}

#[test]
fn a_cycle_ends_with_a_batch_only_when_nothing_else_waits() {
    let (mut producer, mut consumer) = spool(4 * BLOCK_BYTES, Arc::default()).unwrap();
    producer.cycle_end();
    assert!(consumer.is_empty());
    for at in 0..3 {
        assert!(producer.push(head(at), b"x"));
        producer.cycle_end();
    }
    assert_eq!(producer.next_turn(), Some(AGAIN));
    assert_eq!(consumer.take().unwrap().len(), 1);
    assert!(consumer.take().is_none(), "the others wait together");
    producer.cycle_end();
    assert_eq!(producer.next_turn(), None);
    assert_eq!(consumer.take().unwrap().len(), 2);
    assert!(producer.push(head(9), b""));
    assert!(!consumer.is_finished());
    drop(producer);
    assert!(!consumer.is_finished());
    assert_eq!(consumer.take().unwrap().iter().collect::<Vec<_>>(), [(head(9), 0..0)]);
    assert!(consumer.is_finished());
}

#[test]
fn few_datagrams_share_a_block_however_many_batches_they_are() {
    let (mut producer, mut consumer) = spool(8 * BLOCK_BYTES, Arc::default()).unwrap();
    let mut kept = Vec::new();
    // As many batches as two blocks have datagrams, each kept: as while a disk is slow.
    for number in 0..2 * IN_BLOCK {
        assert!(producer.push(head(number), &datagram(number)));
        producer.cycle_end();
        let batch = consumer.take().unwrap();
        assert_eq!(numbers(&batch), [number]);
        kept.push(batch.keep().unwrap());
    }
    assert!(producer.used.iter().filter(|block| block.capacity() >= BLOCK_BYTES).count() >= 6, "six blocks are whole");
    assert!(kept.iter().all(|bytes| bytes.len() == 1000));
}

#[test]
fn what_is_kept_stays_as_it_is_and_never_takes_all_the_room() {
    let (mut producer, mut consumer) = spool(8 * BLOCK_BYTES, Arc::default()).unwrap();
    let (mut kept, mut number) = (Vec::new(), 0);
    // The spool goes round three times while what can be kept is kept.
    while number < 24 * IN_BLOCK {
        assert!(producer.push(head(number), &datagram(number)), "{number}");
        number += 1;
        if number % IN_BLOCK == 1
            && let Some(batch) = consumer.take()
        {
            let first = numbers(&batch)[0];
            kept.extend(batch.keep().map(|bytes| (first, bytes)));
        }
    }
    assert_eq!(kept.len(), 2, "a quarter");
    for (first, bytes) in &kept {
        for (number, bytes) in (*first..).zip(bytes.chunks(1000)) {
            assert_eq!(bytes, datagram(number));
        }
    }
    kept.clear();
    while consumer.take().is_some() {}
    let room = (0..).take_while(|&number| producer.push(head(number), &datagram(number))).count() as u64;
    assert!(room >= 7 * IN_BLOCK, "all blocks but the one begun are free again: {room}");
}

#[test]
fn sleepers_are_woken() {
    let waker = Arc::new(Waker::default());
    let (mut producer, mut consumer) = spool(2 * BLOCK_BYTES, Arc::clone(&waker)).unwrap();
    let station = std::thread::spawn(move || {
        let mut seen = 0;
        while !consumer.is_finished() {
            let found = consumer.take().map(|batch| batch.len());
            match found {
                Some(datagrams) => seen += datagrams,
                None => waker.sleep(Duration::from_secs(1), || consumer.is_empty() && !consumer.is_finished()),
            }
        }
        seen
    });
    for at in 0..1000 {
        // On a busy machine the other thread may not have had its turn yet.
        while !producer.push(head(at), b"datagram") {
            std::thread::sleep(Duration::from_millis(1));
        }
        producer.cycle_end();
        if at % 100 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(producer);
    assert_eq!(station.join().unwrap(), 1000);
}
