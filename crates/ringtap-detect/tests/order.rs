//! Both directions of a connection are inspected in the order in which their receivers had the bytes, also while one direction is
//! behind: what is said later may depend on what was said before by the other side.

mod support;
mod waiting_support;

use ringtap_detect::Limits;
use ringtap_samples::apps::client_hello;
use ringtap_samples::evasions::Packet;
use ringtap_samples::frames::flag;
use waiting_support::{END, SIZE, Sensor, data, open, open_to, send_early, text};

fn by_server(at: usize, acknowledges: usize, bytes: &[u8]) -> Packet {
    Packet { by_client: false, acknowledges: acknowledges as i64, ..data(at, bytes) }
}

fn by_client(at: usize, acknowledges: usize, bytes: &[u8]) -> Packet {
    Packet { acknowledges: acknowledges as i64, ..data(at, bytes) }
}

/// The answer comes while the question waits to be inspected.
const RULES: &str = r#"alert tcp any any -> any any (flow:to_server,established; content:"question"; flowbits:set,asked; noalert; sid:1;)
    alert tcp any any -> any any (flow:to_client,established; content:"answer"; flowbits:isset,asked; sid:2;)
    alert tcp any any -> any any (flow:to_server,established; content:"again"; flowbits:isnotset,asked; sid:3;)
    alert tcp any any -> any any (flow:to_client,established; content:"early"; flowbits:isnotset,asked; sid:4;)"#;

#[test]
fn an_answer_is_inspected_behind_the_question_that_waits() {
    let mut sensor = Sensor::new(RULES, Limits::default());
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[(END - 100, "question")]));
    // Before the gap is filled the server has nothing of it.
    talk.send(&by_server(0, 0, b"early..."));
    talk.send(&first);
    talk.send(&by_server(8, END, b"answer.."));
    sensor.feed(&mut talk);
    assert!(sensor.detector.is_behind());
    sensor.rest();
    assert_eq!((sensor.finds.alerts, sensor.detector.counters().disordered), (vec![4, 2], 0));
}

/// Many turns of both sides while the first one's bytes wait: each finds the bit that the turn before it has left.
#[test]
fn turns_keep_their_order_while_they_wait() {
    let turns = 40;
    let mut rules =
        String::from("alert tcp any any -> any any (content:\"begin-it\"; flowbits:set,turn0; noalert; sid:1000;)\n");
    for turn in 0..turns {
        rules += &format!(
            "alert tcp any any -> any any (content:\"turn-{turn:02}|3b|\"; flowbits:isset,turn{turn}; flowbits:isnotset,turn{}; \
             flowbits:set,turn{}; sid:{};)\n",
            turn + 1,
            turn + 1,
            turn + 1
        );
    }
    let mut sensor = Sensor::new(&rules, Limits::default());
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[(END - 100, "begin-it")]));
    talk.send(&first);
    let mut at = [END, 0];
    // So many that the engine is behind at their end, too: they come in the time of the few packets that it needs.
    for turn in 0..turns {
        let word = format!("turn-{turn:02};");
        let side = usize::from(turn % 2 == 0);
        let make = if side == 0 { by_client } else { by_server };
        talk.send(&make(at[side], at[1 - side], word.as_bytes()));
        at[side] += word.len();
    }
    sensor.feed(&mut talk);
    sensor.rest();
    assert_eq!(sensor.finds.alerts, (1..=turns as u32).collect::<Vec<_>>());
}

/// A response is the one to the request before it, though the request's content waits.
#[test]
fn responses_go_with_their_requests() {
    let rules = r#"alert http any any -> any any (flow:to_server; http.uri; content:"/second"; flowbits:set,second; noalert; sid:1;)
        alert http any any -> any any (flow:to_client; file.data; content:"two"; flowbits:isset,second; sid:2;)
        alert http any any -> any any (flow:to_client; file.data; content:"two"; flowbits:isnotset,second; sid:3;)"#;
    let mut sensor = Sensor::new(rules, Limits::default());
    let mut talk = open_to(2000, 80);
    let length = END - 1000;
    let head = format!("POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let second = "GET /second HTTP/1.1\r\nHost: a\r\n\r\n";
    let requests = [head.as_bytes(), &vec![b'.'; length], second.as_bytes()].concat();
    let first = send_early(&mut talk, &requests);
    talk.send(&first);
    let responses =
        ["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"].concat();
    talk.send(&by_server(0, requests.len(), responses.as_bytes()));
    sensor.feed(&mut talk);
    assert!(sensor.detector.is_behind());
    sensor.rest();
    assert_eq!(sensor.finds.alerts, [2]);
    assert_eq!(sensor.detector.counters().http.transactions, 2);
}

/// A server says before all that waits of the client that TLS follows: what the client says behind it is TLS.
#[test]
fn starttls_is_where_it_was_said() {
    let rules = r#"alert tls any any -> any any (tls.sni; content:"evil.example"; sid:1;)"#;
    let mut sensor = Sensor::new(rules, Limits::default());
    let mut talk = open_to(2000, 25);
    let greeting = b"220 here ESMTP\r\n";
    talk.send(&by_server(0, 0, greeting));
    // So many words that they wait.
    let filler = [&[b'.'; 990][..], b"\r\n"].concat();
    let noops = [b"NOOP ", &filler[..]].concat().repeat(END / 1000);
    let words = [&b"EHLO a\r\n"[..], &noops, b"STARTTLS\r\n"].concat();
    let first = send_early(&mut talk, &words);
    talk.send(&first);
    let count = words.iter().filter(|&&byte| byte == b'\n').count();
    let answers = [b"250 STARTTLS\r\n".repeat(count - 1), b"220 go\r\n".to_vec()].concat();
    for (number, part) in answers.chunks(SIZE).enumerate() {
        talk.send(&by_server(greeting.len() + number * SIZE, words.len(), part));
    }
    let hello = client_hello("evil.example");
    talk.send(&by_client(words.len(), greeting.len() + answers.len(), &hello));
    sensor.feed(&mut talk);
    assert!(sensor.detector.is_behind());
    sensor.rest();
    assert_eq!(sensor.finds.alerts, [1]);
}

/// A FIN behind the bytes that wait, and the other side's last words behind it.
#[test]
fn what_is_said_behind_a_fin_comes_behind_it() {
    let rules = r#"alert http any any -> any any (flow:to_server; http.request_body; content:"question"; flowbits:set,asked; noalert; sid:1;)
        alert http any any -> any any (flow:to_client; http.stat_code; content:"200"; flowbits:isset,asked; sid:2;)"#;
    let mut sensor = Sensor::new(rules, Limits::default());
    let mut talk = open_to(2000, 80);
    // Content that has not ended: what is there of it is looked at when the FIN has come.
    let before = "x".repeat(120_000);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 120000\r\n\r\n{before}\
         POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nquestion"
    );
    let first = send_early(&mut talk, head.as_bytes());
    talk.send(&first);
    talk.send(&Packet { flags: flag::ACK | flag::FIN, ..data(head.len(), b"") });
    talk.send(&by_server(0, head.len() + 1, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"));
    sensor.feed(&mut talk);
    sensor.rest();
    assert_eq!(sensor.finds.alerts, [2]);
}

/// The same where bytes before the gap wait, too: the answer does not go before the question behind the gap.
#[test]
fn an_answer_is_inspected_behind_a_question_behind_a_gap() {
    for gaps in 1..4 {
        let mut sensor = Sensor::new(RULES, Limits::default());
        let mut talk = open(2000);
        let first = send_early(&mut talk, &text(&[]));
        // Behind each gap some bytes, and the question behind the last one.
        (1..gaps).for_each(|number| talk.send(&data(END + number * 100, b"...")));
        talk.send(&data(END + gaps * 100, b"question"));
        talk.send(&first);
        talk.send(&by_server(0, END + gaps * 100 + 8, b"answer.."));
        sensor.feed(&mut talk);
        assert!(sensor.detector.is_behind());
        sensor.rest();
        let counters = sensor.detector.counters();
        assert_eq!((sensor.finds.alerts, counters.gaps, counters.disordered), (vec![2], gaps as u64, 0), "{gaps}");
    }
}

/// A gap that was acknowledged is none if what was missing comes before its turn.
#[test]
fn what_fills_a_gap_before_its_turn_is_inspected_in_order() {
    let rules = r#"alert tcp any any -> any any (content:"late-question"; sid:1;)"#;
    let mut sensor = Sensor::new(rules, Limits::default());
    let mut talk = open(2000);
    let first = send_early(&mut talk, &text(&[]));
    talk.send(&data(END + 5, b"question"));
    talk.send(&first);
    talk.send(&by_server(0, END + 13, b"answer.."));
    talk.send(&data(END, b"late-"));
    sensor.feed(&mut talk);
    sensor.rest();
    assert_eq!((sensor.finds.alerts, sensor.detector.counters().gaps), (vec![1], 0));
}

/// Who acknowledges what was not seen has it: what follows the gap is inspected before what is said with the acknowledgement.
#[test]
fn what_lies_behind_a_gap_comes_before_the_words_that_acknowledge_it() {
    let mut sensor = Sensor::new(RULES, Limits::default());
    let mut talk = open(2000);
    talk.send(&data(100, b"..question.."));
    talk.send(&by_server(0, 112, b"answer"));
    sensor.feed(&mut talk);
    sensor.rest();
    assert_eq!(sensor.finds.alerts, [2]);
}
