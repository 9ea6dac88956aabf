//! Owns: feeding any packets to a detector with small bounds: decoder, fragments, streams, applications, matching.
//! The input is a list of packets: two bytes of length, one of time, the bytes.
#![no_main]

#[path = "../detector.rs"]
mod detector;

use std::sync::{Arc, LazyLock};

use detector::Count;
use libfuzzer_sys::fuzz_target;
use ringtap_detect::{Policy, Program};
use ringtap_wire::LinkType;

const RULES: &[u8] = br#"
alert ip any any -> any any (content:"a"; content:"b"; distance:0; within:50; sid:1;)
alert tcp any any -> any any (flow:established,to_server; content:"ab"; depth:9; content:!"c"; within:4; sid:2;)
alert tcp-stream any any -> any any (content:"a"; pcre:"/b+(?=c)/R"; byte_jump:1,0,relative; isdataat:2,relative; sid:3;)
alert udp any any -> any any (content:"a"; byte_extract:2,0,n,relative; byte_test:1,>,n,0; content:"z"; distance:n; sid:4;)
alert dns any any -> any any (dns.query; content:"a"; bsize:>2; sid:5;)
alert tls any any -> any any (tls.sni; content:"a"; endswith; sid:6;)
alert ssh any any -> any any (ssh.software; content:"a"; sid:7;)
alert ip any any -> any any (ipv6.hdr; content:"|00|"; offset:6; flowbits:set,x; hostbits:set,y; sid:8;)
alert ip any any -> any any (flowbits:isset,x; xbits:isset,y,track ip_pair; threshold:type both,track by_src,count 2,seconds 5; sid:9;)
alert icmp any any -> any any (itype:8; icmpv4.hdr; content:"|08|"; startswith; sid:10;)
alert tcp any any -> any any (ftpbounce; sid:12;)
pass tcp any any -> any 1 (sid:11;)
"#;

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| detector::program(RULES));

fuzz_target!(|input: &[u8]| {
    let mut detector = detector::small(&PROGRAM, Policy::Bsd);
    let (mut rest, mut now_ns, mut count) = (input, 0, Count::default());
    while let [high, low, seconds, more @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]) % 2048).min(more.len());
        let (packet, after) = more.split_at(len);
        now_ns += u64::from(*seconds) << 29;
        detector.packet(packet, LinkType::Ethernet, len as u32, now_ns, &mut count);
        rest = after;
    }
    detector.finish(now_ns, &mut count);
    assert!(detector.counters().flows_now == 0);
});
