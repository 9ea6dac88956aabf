//! Rules that contradict themselves, are huge, or never end: refused with a reason or harmless, and the rest of the file
//! is used.

mod support;

use std::fmt::Write as _;

use ringtap_detect::rules::{Classes, RuleSet, Variables};
use ringtap_detect::{Detector, Limits, Program};
use support::{limits, program, sids, udp};

/// Rules of a file that are used, and the reasons for the others.
fn read(text: &str) -> (Vec<u32>, Vec<String>) {
    let mut set = RuleSet::default();
    set.add("bad.rules", text.as_bytes(), &Variables::default(), &Classes::default());
    let mut rejected = Vec::new();
    let (program, _) = Program::new(set, &mut rejected).unwrap();
    let mut used: Vec<u32> = program.rules().map(|rule| rule.meta.sid).collect();
    used.sort_unstable();
    (used, rejected.iter().map(ToString::to_string).collect())
}

const GOOD: &str = r#"alert udp any any -> any any (msg:"good"; content:"good"; sid:9;)"#;

#[test]
fn contradictions_are_refused_or_never_match() {
    let rules = [
        r#"content:"abc"; depth:2;"#,
        r#"content:"abc"; within:2;"#,
        r#"content:"a"; startswith; offset:5;"#,
        r#"dsize:>100; dsize:<5; content:"a";"#,
        r#"content:"a"; content:!"a";"#,
        r#"content:"a"; bsize:0;"#,
        r#"content:"a"; isdataat:70000;"#,
        r#"content:"a"; byte_jump:4,0,relative,multiplier 65535; content:"a";"#,
        r#"flow:established,not_established; content:"a";"#,
        r#"flow:to_server,to_client; content:"a";"#,
        r#"ttl:>255; content:"a";"#,
        r#"itype:8; content:"a";"#,
    ];
    let text: String = (1..).zip(rules).fold(String::new(), |mut text, (sid, options)| {
        writeln!(text, "alert udp any any -> any any ({options} sid:{};)", 100 + sid).unwrap();
        text
    });
    let text = format!("{text}{GOOD}\n");
    let (used, reasons) = read(&text);
    assert!(used.contains(&9));
    assert_eq!(used.len() + reasons.len(), rules.len() + 1, "{reasons:?}");
    // What is used finds nothing, in any packet of the letters that the rules ask for.
    let mut set = RuleSet::default();
    set.add("bad.rules", text.as_bytes(), &Variables::default(), &Classes::default());
    let (program, _) = Program::new(set, &mut Vec::new()).unwrap();
    let mut detector = Detector::new(std::sync::Arc::new(program), limits());
    let frames: Vec<Vec<u8>> = (1..40).map(|len| udp(1, 2, &b"abcaaa\xff\xff\xff\xff".repeat(len))).collect();
    assert_eq!(sids(&mut detector, &frames), []);
    assert_eq!(sids(&mut detector, &[udp(1, 2, b"good")]), [9]);
}

#[test]
fn huge_rules_are_refused_or_fit() {
    let contents = r#"content:"a"; "#.repeat(300);
    let addresses: Vec<String> = (0..4_000).map(|n| format!("10.{}.{}.{}", n & 255, n >> 8, n & 255)).collect();
    let text = [
        format!("alert udp any any -> any any ({contents} sid:1;)"),
        format!("alert udp any any -> any any (content:\"{}\"; sid:2;)", "a".repeat(1 << 20)),
        format!("alert udp {}any{} any -> any any (sid:3;)", "[".repeat(30_000), "]".repeat(30_000)),
        format!("alert udp {}any any -> any any (sid:4;)", "!".repeat(60_000)),
        format!("alert udp any any -> any any (pcre:\"/{}a{}/\"; sid:5;)", "(".repeat(10_000), ")".repeat(10_000)),
        r#"alert udp any any -> any any (pcre:"/(((a{1,1000}){1,1000}){1,1000})/"; sid:6;)"#.to_owned(),
        format!("alert udp any any -> any any (msg:\"{}", "a".repeat(1 << 20)),
        format!("alert udp [{}] any -> any any (content:\"a\"; sid:8;)", addresses.join(",")),
        GOOD.to_owned(),
    ];
    let (used, reasons) = read(&text.join("\n"));
    assert_eq!(used, [8, 9], "{reasons:?}");
    assert_eq!(reasons.len(), 7);
    for reason in &reasons {
        assert!(reason.starts_with("bad.rules:"), "{reason}");
    }
}

#[test]
fn endless_expressions_are_cut_off_and_counted() {
    // Back-tracking without end, but for the limits; a look-ahead keeps it from the linear-time engine.
    let rules = r#"alert udp any any -> any any (pcre:"/^(?=((a+)+)+$)b/"; sid:1;)
        alert udp any any -> any any (pcre:"/(a?){30}(?=a{30}c)/"; sid:2;)
        alert udp any any -> any any (content:"a!"; priority:9; sid:3;)"#;
    let mut detector = Detector::new(program(rules), limits());
    let frames: Vec<Vec<u8>> = (0..20).map(|_| udp(1, 2, &[&[b'a'; 1300][..], b"!"].concat())).collect();
    assert_eq!(sids(&mut detector, &frames), [3; 20], "rules beside it go on");
    let counters = detector.counters();
    assert_eq!((counters.expressions_given_up, counters.budget_hits), (20, 0), "{counters:?}");
    // A linear one ends by itself.
    let mut detector = Detector::new(
        program(r#"alert udp any any -> any any (pcre:"/(a+)+$/"; sid:1;)"#),
        Limits { budget: 5000, ..limits() },
    );
    assert_eq!(sids(&mut detector, &frames), []);
    assert_eq!(detector.counters().budget_hits, 0);
}
