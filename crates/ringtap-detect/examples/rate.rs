//! What the detector alone costs: packets from memory, no capture. 64-byte UDP frames against 160 plain contents, as in
//! the sensor of 2005, or against rule files; a planted attack every thousand packets must all be found.
//!
//! ```text
//! cargo run --release -p ringtap-detect --example rate -- [RULE-FILE…]
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap_detect::rules::{Classes, RuleSet, Variables};
use ringtap_detect::{Alert, Detector, Limits, Program, Sink};
use ringtap_wire::{LinkType, UdpFrame};

const PACKETS: u64 = 3_000_000;
const EVERY: u64 = 1000;
const SID: u32 = 1_000_000;

#[derive(Default)]
struct Found {
    planted: u64,
    others: u64,
}

impl Sink for Found {
    fn alert(&mut self, alert: &Alert<'_>) {
        if alert.rule.meta.sid >= SID { self.planted += 1 } else { self.others += 1 }
    }
}

fn frame(source: &str, payload: &[u8]) -> Vec<u8> {
    let mut memory = [0; 128];
    let udp = UdpFrame {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        source: source.parse().expect("an address"),
        destination: "192.168.0.9:9000".parse().expect("an address"),
        hop_limit: 64,
        traffic_class: 0,
        identification: 0,
    };
    let len = udp.write(&mut memory, payload).expect("room");
    memory[..len].to_vec()
}

fn main() {
    let mut set = RuleSet::default();
    let (variables, classes) = (Variables::default(), Classes::default());
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        let text = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        set.add(file, &text, &variables, &classes);
    }
    let own: String = (0..160)
        .map(|number| {
            format!(
                "alert udp any any -> any any (msg:\"{number}\"; content:\"attack-{number:03}\"; sid:{};)\n",
                SID + number
            )
        })
        .collect();
    set.add("own", own.as_bytes(), &variables, &classes);
    let mut rejected = Vec::new();
    let began = Instant::now();
    let (program, _) = Program::new(set, &mut rejected).expect("compiles");
    let size = program.size();
    println!(
        "{} rules ({} left out), {} groups, {} KiB of matchers, built in {:?}",
        size.rules,
        rejected.len(),
        size.groups,
        size.matchers >> 10,
        began.elapsed()
    );
    let mut detector = Detector::new(Arc::new(program), Limits::default());
    // 256 flows of harmless packets; 22 bytes of payload make 64 on the wire.
    let harmless: Vec<Vec<u8>> = (0..256)
        .map(|flow| {
            frame(&format!("203.0.113.7:{}", 10_000 + flow), format!("harmless {flow:03} 0123456789").as_bytes())
        })
        .collect();
    let attack = frame("203.0.113.7:10000", b"..attack-077 012345678");
    let (mut found, mut worst) = (Found::default(), Duration::ZERO);
    let began = Instant::now();
    for batch in 0..PACKETS / EVERY {
        let batch_began = Instant::now();
        for index in 0..EVERY - 1 {
            let packet = &harmless[(index & 255) as usize];
            detector.packet(packet, LinkType::Ethernet, packet.len() as u32, batch * 10_000_000, &mut found);
        }
        detector.packet(&attack, LinkType::Ethernet, attack.len() as u32, batch * 10_000_000, &mut found);
        worst = worst.max(batch_began.elapsed());
    }
    let elapsed = began.elapsed();
    assert_eq!(found.planted, PACKETS / EVERY, "every planted attack");
    println!(
        "{} packets, {} attacks found, {} other alerts: {:.0} ns per packet, {:.2} Mpps; worst thousand {:.0} ns per packet",
        PACKETS,
        found.planted,
        found.others,
        elapsed.as_nanos() as f64 / PACKETS as f64,
        PACKETS as f64 / elapsed.as_secs_f64() / 1e6,
        worst.as_nanos() as f64 / EVERY as f64
    );
}
