//! Bytes that come in order at once are more than one packet may take: they are inspected at the packets behind it, at cycles' ends or
//! at the program's, all of them, once, whatever becomes of their connection meanwhile.

mod support;
mod waiting_support;

use ringtap_detect::{Event, FlowEnd, Limits, Scratch};
use ringtap_samples::evasions::{Conversation, Packet};
use ringtap_samples::frames::{Ends, flag};
use ringtap_wire::LinkType;
use waiting_support::{END, SIZE, Sensor, WAITING, data, open, send_early, text};

/// So many bytes of them one packet takes.
const AT_ONE_TIME: usize = 32 << 10;

const RULE: &str = r#"alert tcp any any -> any any (flow:established; content:"evil-attack"; sid:1;)"#;

#[test]
fn what_fills_a_gap_is_inspected_over_several_packets_and_all_of_it() {
    // A word each 997 bytes: some lie across the edges of pieces.
    let words: Vec<(usize, String)> =
        (0..END / 997).map(|number| (number * 997 + 900, format!("word-{number:04};"))).collect();
    let words: Vec<(usize, &str)> =
        words.iter().map(|(at, word)| (*at, word.as_str())).filter(|(at, word)| at + word.len() <= END).collect();
    let rules: String = (0..words.len())
        .map(|number| format!("alert tcp any any -> any any (content:\"word-{number:04}|3b|\"; sid:{};)\n", number + 1))
        .collect();
    let mut sensor = Sensor::new(&rules, Limits { alerts: 64, ..Limits::default() });
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&words));
    talk.send(&first);
    sensor.feed(&mut talk);
    assert!(sensor.detector.is_behind());
    let at_once = sensor.finds.alerts.len();
    assert!((10..60).contains(&at_once), "{at_once} by the packet itself");
    let mut packets = 0u16;
    while sensor.detector.is_behind() {
        sensor.pass_time(5000 + packets);
        packets += 1;
    }
    assert!((usize::from(packets) + 1) * AT_ONE_TIME >= END - SIZE && packets < 30, "{packets} packets");
    sensor.finds.alerts.sort_unstable();
    assert_eq!(sensor.finds.alerts, (1..=words.len() as u32).collect::<Vec<_>>(), "each once");
    let counters = sensor.detector.counters();
    assert_eq!((counters.gaps, counters.segments_refused, counters.budget_hits), (0, 0, 0));
}

/// What follows in order while others wait comes behind them, though there is no memory left for segments out of order.
#[test]
fn segments_in_order_find_room_behind_those_that_wait() {
    // Half of it is a little more than what this one has.
    let early_bytes = 512 * (WAITING * 3 * 2 + 10);
    let mut sensor = Sensor::new(RULE, Limits { early_bytes, ..Limits::default() });
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[]));
    sensor.feed(&mut talk);
    // Others take the rest, each a little.
    let mut others: Vec<Conversation> = (0..400).map(|number| open(3000 + number)).collect();
    for other in &mut others {
        other.send(&data(5, &[b'x'; 900]));
        sensor.feed(other);
    }
    let refused = sensor.detector.counters().segments_refused;
    assert!(refused > 0, "there is room");
    talk.send(&first);
    for number in 0..4 {
        talk.send(&data(END + number * 6, b"..evil"));
    }
    talk.send(&data(END + 24, b"-attack"));
    sensor.feed(&mut talk);
    assert!(sensor.detector.is_behind() && sensor.finds.alerts.is_empty());
    sensor.rest();
    assert_eq!((sensor.finds.alerts, sensor.detector.counters().segments_refused), (vec![1], refused));
}

/// A FIN of both sides behind bytes that wait, and a message whose end is the connection's.
#[test]
fn the_end_of_a_connection_waits_for_its_bytes() {
    let rules = r#"alert http any any -> any any (file.data; content:"evil-attack"; endswith; sid:1;)"#;
    let mut sensor = Sensor::new(rules, Limits::default());
    let mut talk = Conversation::open("192.0.2.7", "198.51.100.9", [2000, 80], &[2, 4, 5, 180, 1, 3, 3, 14]);
    let request = b"GET / HTTP/1.0\r\n\r\n";
    talk.send(&data(0, request));
    let response = [b"HTTP/1.0 200 OK\r\n\r\n", &vec![b'.'; 90_000][..], b"evil-attack"].concat();
    let by_server = |at: usize, bytes: &[u8], flags: u8| Packet {
        by_client: false,
        acknowledges: request.len() as i64,
        flags: flag::ACK | flags,
        ..data(at, bytes)
    };
    for (number, part) in response.chunks(SIZE).enumerate().skip(1) {
        talk.send(&by_server(number * SIZE, part, 0));
    }
    talk.send(&by_server(response.len(), b"", flag::FIN));
    let last = Packet { flags: flag::ACK | flag::FIN, acknowledges: 0, ..data(request.len(), b"") };
    talk.send(&last);
    talk.send(&by_server(0, &response[..SIZE], 0));
    sensor.feed(&mut talk);
    assert!(sensor.detector.is_behind() && sensor.finds.alerts.is_empty());
    let turns = sensor.rest();
    assert!((2..5).contains(&turns), "{turns}");
    assert_eq!((&sensor.finds.alerts[..], sensor.finds.ends.len()), (&[1][..], 0));
    let counters = sensor.detector.counters();
    assert_eq!((counters.http.transactions, counters.gaps), (1, 0));
}

/// The same number that the receiver expects resets the connection, though not all before it was inspected.
#[test]
fn a_reset_counts_from_what_the_receiver_has() {
    let mut sensor = Sensor::new(RULE, Limits::default());
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[(END - 50_000, "evil-attack")]));
    talk.send(&first);
    talk.send(&Packet { flags: flag::RST, ..data(END, b"") });
    talk.send(&data(END, b"evil-attack"));
    sensor.feed(&mut talk);
    sensor.rest();
    assert!(!sensor.finds.events.contains(&Event::StreamRstBadWindow), "{:?}", sensor.finds.events);
    assert!(sensor.finds.events.contains(&Event::StreamSuspectedReset));
    assert_eq!(sensor.finds.alerts, [1, 1]);
}

/// Bytes that wait are the receiver's: others for their place are inspected beside them and told, the same ones are neither.
#[test]
fn other_bytes_for_those_that_wait_are_told_and_inspected() {
    for (bytes, is_other) in [(&[b'.'; 40][..], false), (b"..................evil-attack...........", true)] {
        let mut sensor = Sensor::new(RULE, Limits::default());
        let mut talk = open(2000);
        let first = send_early(&mut talk, &text(&[]));
        talk.send(&first);
        talk.send(&data(END - 3000, bytes));
        sensor.feed(&mut talk);
        sensor.rest();
        assert_eq!(sensor.finds.events.contains(&Event::StreamOverlapDifferent), is_other);
        assert_eq!(sensor.finds.alerts.len(), usize::from(is_other));
    }
}

#[test]
fn flows_that_leave_the_table_are_inspected_to_their_end() {
    let mut sensor = Sensor::new(RULE, Limits { flows: 32, ..Limits::default() });
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[(END - 20, "evil-attack")]));
    talk.send(&first);
    sensor.feed(&mut talk);
    for port in 3000..3040 {
        let mut other = open(port);
        sensor.feed(&mut other);
        if sensor.finds.ends.is_empty() {
            assert!(sensor.finds.alerts.is_empty() || sensor.detector.counters().flows.evicted == 0);
        }
    }
    sensor.rest();
    assert_eq!((sensor.finds.alerts.len(), sensor.detector.counters().segments_refused), (1, 0));
    let with_alert: Vec<_> = sensor.finds.ends.iter().filter(|(_, alerts)| *alerts > 0).collect();
    assert_eq!(with_alert, [&(FlowEnd::Evicted, 1)], "once, and behind its alert");
}

/// So many leave at once that there is no place for them beside the table: what is given up is counted.
#[test]
fn what_is_given_up_is_counted() {
    let mut sensor = Sensor::new(RULE, Limits { flows: 8, ..Limits::default() });
    let mut talks: Vec<Conversation> = (0..8).map(|number| open(2000 + number)).collect();
    let firsts: Vec<Packet> =
        talks.iter_mut().map(|talk| send_early(talk, &text(&[(END - 20, "evil-attack")]))).collect();
    talks.iter_mut().for_each(|talk| sensor.feed(talk));
    for (talk, first) in talks.iter_mut().zip(&firsts) {
        talk.send(first);
        sensor.feed(talk);
    }
    for port in 3000..3008 {
        sensor.feed(&mut open(port));
    }
    sensor.rest();
    let counters = sensor.detector.counters();
    assert!(counters.segments_refused > 100, "{counters:#?}");
    assert!((1..8).contains(&sensor.finds.alerts.len()), "{:?}", sensor.finds.alerts);
    assert_eq!(sensor.finds.ends.len() as u64, counters.flows.begun - counters.flows_now);
    sensor.detector.finish(sensor.now_ns, &mut sensor.finds);
    assert_eq!(sensor.finds.ends.len() as u64, counters.flows.begun);
}

/// The same when their time is over: whose memory was given back is not waited for.
#[test]
fn what_times_out_without_a_place_is_not_waited_for() {
    let mut sensor = Sensor::new(RULE, Limits { flows: 8, ..Limits::default() });
    let mut talks: Vec<Conversation> = (0..8).map(|number| open(2000 + number)).collect();
    let firsts: Vec<Packet> =
        talks.iter_mut().map(|talk| send_early(talk, &text(&[(END - 20, "evil-attack")]))).collect();
    talks.iter_mut().for_each(|talk| sensor.feed(talk));
    for (talk, first) in talks.iter_mut().zip(&firsts) {
        talk.send(first);
        sensor.feed(talk);
    }
    sensor.now_ns += 7 * 24 * 3600 * 1_000_000_000;
    for _ in 0..8 {
        sensor.detector.expire(sensor.now_ns, &mut sensor.finds);
    }
    assert!(sensor.rest() < 1000, "it ends");
    let counters = sensor.detector.counters();
    assert!(counters.segments_refused > 100, "{counters:#?}");
    assert_eq!(sensor.finds.ends.len(), 8);
}

/// A file may say of a packet that it was as long as it likes: its budget goes by what is there.
#[test]
fn a_false_length_brings_no_budget() {
    let hits = |wire_len: u32| {
        let limits = Limits { budget: 1000, ..Limits::default() };
        let rule = r#"alert udp any any -> any any (content:"evil"; content:"attac"; distance:0; content:"no"; distance:0; sid:1;)"#;
        let mut sensor = Sensor::new(rule, limits);
        let payload = b"evil-attac".repeat(130);
        let frame = Ends::new("192.0.2.77", "192.0.2.78").udp_frame([7, 9], &payload);
        sensor.detector.packet(&frame, LinkType::Ethernet, wire_len, sensor.now_ns, &mut sensor.finds);
        sensor.detector.counters().budget_hits
    };
    assert!(hits(1400) > 0);
    assert_eq!(hits(1400), hits(u32::MAX));
}

#[test]
fn the_program_s_end_waits_for_nothing() {
    let mut sensor = Sensor::new(RULE, Limits::default());
    let mut talks = [open(2000), open(2001)];
    for (number, talk) in talks.iter_mut().enumerate() {
        let first = send_early(talk, &text(&[(END - 20, "evil-attack")]));
        if number == 1 {
            talk.send(&first);
        }
        sensor.feed(talk);
    }
    assert!(sensor.detector.is_behind() && sensor.finds.alerts.is_empty());
    sensor.detector.finish(sensor.now_ns, &mut sensor.finds);
    assert_eq!((sensor.finds.alerts, sensor.detector.is_behind()), (vec![1, 1], false), "in order, and behind a gap");
}

/// Other bytes for some that wait are looked at with what lies before and behind them, be it inspected or still to come.
#[test]
fn other_bytes_for_those_that_wait_have_their_surroundings() {
    let run = |place: usize, words: &[(usize, &str)], other: &str| {
        let mut sensor = Sensor::new(RULE, Limits::default());
        let mut talk = open(2000);
        let words: Vec<(usize, &str)> = words.iter().map(|(at, word)| (place + at, *word)).collect();
        let first = send_early(&mut talk, &text(&words));
        talk.send(&first);
        talk.send(&data(place, other.as_bytes()));
        sensor.feed(&mut talk);
        sensor.rest();
        sensor.finds.alerts.len()
    };
    // What the packet that fills the gap and the next one leave begins there.
    let edge = (4 << 10) + 2 * AT_ONE_TIME + SIZE;
    for place in [END - 3000, edge - 700, edge, edge + 3] {
        assert_eq!(run(place, &[], "...........evil-attack"), 1, "{place} by themselves");
        assert_eq!(run(place, &[], "attack"), 0, "{place} nothing before");
        assert_eq!(run(place, &[(0, "evil-.")], "evil-attack"), 1, "{place} begun by both");
        assert_eq!(run(place, &[(5, "attack")], "evil-"), 1, "{place} goes on");
        assert_eq!(run(place, &[(7, "tack")], "evil-at"), 1, "{place} goes on at once");
    }
}

/// The same where they begin behind what waits: the beginning of the words is the stream's.
#[test]
fn other_bytes_go_on_with_those_that_wait() {
    for place in [END - 3000, END - 20_000, END - 100_000] {
        let mut sensor = Sensor::new(RULE, Limits::default());
        let mut talk = open(2000);
        let first = send_early(&mut talk, &text(&[(place - 5, "evil-")]));
        talk.send(&first);
        // Two of them, a few of the stream's bytes between.
        talk.send(&data(place, b"at"));
        talk.send(&data(place + 2, b"tack"));
        sensor.feed(&mut talk);
        sensor.rest();
        assert_eq!(sensor.finds.alerts, [1], "{place}");
    }
}

/// A host's merged segments keep their own connection behind, each taking all the time there is for what waits: others' bytes that
/// wait are inspected nevertheless.
#[test]
fn who_stays_behind_keeps_no_other_waiting() {
    let mut sensor = Sensor::new(RULE, Limits::default());
    let mut talks = [open(2000), open(2001)];
    let firsts = talks.each_mut().map(|talk| send_early(talk, &text(&[(END - 20, "evil-attack")])));
    talks.iter_mut().for_each(|talk| sensor.feed(talk));
    for (talk, first) in talks.iter_mut().zip(&firsts) {
        talk.send(first);
        sensor.feed(talk);
    }
    assert_eq!((sensor.detector.counters().flows_behind, &sensor.finds.alerts[..]), (2, &[][..]));
    let (mut at, mut packets) = (END, 0);
    // The second one's word comes first, as it has all packets.
    while sensor.finds.alerts.len() < 2 && packets < 1000 {
        talks[1].send(&data(at, &[b'.'; 40_000]));
        sensor.feed(&mut talks[1]);
        (at, packets) = (at + 40_000, packets + 1);
    }
    let counters = sensor.detector.counters();
    assert!(packets < 1000 && counters.backlog_pushes > 10, "{packets} packets, {counters:#?}");
    assert!(
        counters.flows_behind > 0 && counters.early_bytes_now > 0 && counters.waited_bytes > 600_000,
        "{counters:#?}"
    );
    sensor.rest();
    let counters = sensor.detector.counters();
    assert_eq!((counters.flows_behind, counters.early_bytes_now, counters.segments_refused), (0, 0, 0));
}

/// Packets that are not looked at at all bring some time, too.
#[test]
fn what_waits_moves_while_packets_are_shed() {
    let mut sensor = Sensor::new(RULE, Limits::default());
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[(END - 20, "evil-attack")]));
    talk.send(&first);
    sensor.feed(&mut talk);
    let mut shed = 0u64;
    while sensor.detector.is_behind() && shed < 1_000_000 {
        sensor.detector.shed(sensor.now_ns, &mut sensor.finds);
        shed += 1;
    }
    assert!((1024..100_000).contains(&shed), "{shed}");
    assert_eq!(sensor.finds.alerts, [1]);
}

/// Flows that wait fill the memory with what comes in order: others find the room that is left to them, and nothing is lost.
#[test]
fn who_waits_leaves_room_to_others_and_loses_nothing() {
    // As good as no time for what waits.
    let early_bytes = 512 * (WAITING * 3 * 2);
    let mut sensor = Sensor::new(RULE, Limits { early_bytes, budget: 400, ..Limits::default() });
    let mut talks = [open(2000), open(2001)];
    for talk in &mut talks {
        let first = send_early(talk, &text(&[]));
        talk.send(&first);
        sensor.feed(talk);
    }
    let words = text(&[(END - 12, "evil-attack")]);
    for (number, part) in words.chunks(SIZE).enumerate() {
        for talk in &mut talks {
            talk.send(&data(END + number * SIZE, part));
            sensor.feed(talk);
        }
    }
    let counters = sensor.detector.counters();
    assert!(counters.early_bytes_now <= early_bytes as u64 * 3 / 4 + ((2 * 64) << 10), "{counters:#?}");
    let refused = counters.segments_refused;
    for number in 0..50 {
        let mut other = open(3000 + number);
        other.send(&data(5, &[b'x'; 900]));
        sensor.feed(&mut other);
    }
    assert_eq!(sensor.detector.counters().segments_refused, refused, "others find room");
    sensor.rest();
    assert_eq!(sensor.detector.counters().gaps, 0);
    sensor.detector.finish(sensor.now_ns, &mut sensor.finds);
    assert_eq!(sensor.finds.alerts, [1, 1]);
}

/// Rules that are loaded meanwhile look at what waits; what the early memory holds and is owed stays.
#[test]
fn what_waits_stays_over_a_reload() {
    let mut sensor = Sensor::new(RULE, Limits::default());
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[(END - 100, "evil-attack"), (END - 50, "other-words")]));
    talk.send(&first);
    sensor.feed(&mut talk);
    let before = sensor.detector.counters();
    let other = support::program(r#"alert tcp any any -> any any (flow:established; content:"other-words"; sid:2;)"#);
    let scratch = Scratch::new(&other);
    assert!(sensor.detector.swap(other, scratch).is_ok());
    let after = sensor.detector.counters();
    assert_eq!((before.early_bytes_now, before.flows_behind), (after.early_bytes_now, after.flows_behind));
    assert!(after.early_bytes_now > 100_000 && after.flows_behind == 1);
    sensor.rest();
    let counters = sensor.detector.counters();
    assert_eq!((sensor.finds.alerts, counters.early_bytes_now, counters.segments_refused), (vec![2], 0, 0));
}

/// A gap is told once, whatever comes in order behind it while what came before waits.
#[test]
fn a_gap_is_told_once() {
    let mut sensor = Sensor::new(RULE, Limits { budget: 400, ..Limits::default() });
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[]));
    talk.send(&first);
    for number in 0..10 {
        let at = END + 100 + 7 * number;
        talk.send(&data(at, b"......."));
        talk.send(&Packet { by_client: false, acknowledges: at as i64 + 7, ..data(0, b"") });
    }
    sensor.feed(&mut talk);
    let is_gap = |event: &&Event| **event == Event::StreamGap;
    assert!(sensor.detector.is_behind());
    assert_eq!(sensor.finds.events.iter().filter(is_gap).count(), 1);
    sensor.rest();
    assert_eq!(sensor.detector.counters().gaps, 1);
}

/// A session that goes on before there was time for all that it had said waits for what is missing as any other does.
#[test]
fn who_goes_on_waits_for_what_is_missing() {
    let mut sensor = Sensor::new(RULE, Limits::default());
    let mut talk = open(2000);
    send_early(&mut talk, &text(&[(END - 20, "evil-attack")]));
    sensor.feed(&mut talk);
    sensor.now_ns += 601_000_000_000;
    talk.send(&data(END + 5, b"attack"));
    sensor.feed(&mut talk);
    assert!(sensor.detector.is_behind() && sensor.finds.alerts.is_empty());
    let counters = sensor.detector.counters();
    assert_eq!((counters.flows.timed_out, sensor.finds.ends.len()), (1, 1));
    sensor.rest();
    assert_eq!(sensor.finds.alerts, [1]);
    talk.send(&data(END, b"evil-"));
    sensor.feed(&mut talk);
    sensor.rest();
    assert_eq!(sensor.finds.alerts, [1, 1]);
    assert_eq!((sensor.detector.counters().flows.timed_out, sensor.finds.ends.len()), (1, 1));
}

/// The same of one whose end the sweep found: its record is counted once, when it is told.
#[test]
fn a_record_is_counted_when_it_is_told() {
    let mut sensor = Sensor::new(RULE, Limits::default());
    let mut talk = open(2000);
    send_early(&mut talk, &text(&[(END - 20, "evil-attack")]));
    sensor.feed(&mut talk);
    sensor.now_ns += 601_000_000_000;
    for _ in 0..10_000 {
        sensor.now_ns += 20_000;
        sensor.detector.expire(sensor.now_ns, &mut sensor.finds);
        let counters = sensor.detector.counters();
        assert_eq!(counters.flows.timed_out, sensor.finds.ends.len() as u64);
    }
    assert_eq!((sensor.finds.alerts, sensor.finds.ends.len()), (vec![1], 1));
}
