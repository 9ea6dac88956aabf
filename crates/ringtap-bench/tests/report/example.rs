//! A book as a benchmark would leave it, made up: figures of no machine, only plausible ones.

use std::collections::BTreeMap;

use ringtap_bench::book::{
    Book, Claims, Delays, Environment, FORMAT, Finding, Fit, FitPoint, LossBursts, Missing, Parameter, Sample, Topology,
};

/// A receiver's made-up nature.
#[derive(Clone, Copy)]
struct Nature {
    name: &'static str,
    /// µs of core per wake-up and per packet.
    wake_us: f64,
    packet_us: f64,
    /// Greatest wake-ups a second; 0 spins.
    wakes: f64,
    /// Added latency, µs.
    late_us: f64,
    memory: u64,
    /// Without sequence numbers and latency.
    outside: bool,
}

const fn nature(
    name: &'static str,
    wake_us: f64,
    packet_us: f64,
    wakes: f64,
    late_us: f64,
    memory: u64,
    outside: bool,
) -> Nature {
    Nature { name, wake_us, packet_us, wakes, late_us, memory, outside }
}

const NATURES: [Nature; 19] = [
    nature("hybrid 1ms", 6.4, 0.02, 1100.0, 440.0, 3 << 20, false),
    nature("hybrid 250us", 5.5, 0.02, 4490.0, 110.0, 3 << 20, false),
    nature("hybrid 10ms", 6.4, 0.02, 110.0, 800.0, 3 << 20, false),
    nature("windowed 1ms", 6.4, 0.02, 1400.0, 500.0, 3 << 20, false),
    nature("timer 1ms", 6.4, 0.02, 1100.0, 440.0, 3 << 20, false),
    nature("interrupt", 3.9, 0.03, 90_000.0, 3.0, 3 << 20, false),
    nature("busy", 0.0, 0.02, 0.0, 0.6, 3 << 20, false),
    nature("interrupt + copy", 3.9, 0.12, 90_000.0, 3.2, 3 << 20, false),
    nature("interrupt + copy + allocation", 3.9, 0.31, 90_000.0, 3.4, 3 << 20, false),
    nature("packet 1ms", 6.9, 0.21, 1100.0, 460.0, 8 << 20, false),
    nature("socket", 4.2, 0.9, 90_000.0, 6.0, 425_984, false),
    nature("libpcap", 4.5, 0.42, 90_000.0, 900.0, 2 << 20, false),
    nature("tcpdump", 4.5, 0.66, 90_000.0, 5200.0, 2 << 20, true),
    nature("dumpcap", 4.5, 0.71, 90_000.0, 2400.0, 2 << 20, true),
    nature("netsniff-ng", 4.0, 0.35, 60_000.0, 1400.0, 16 << 20, true),
    nature("testpmd af_xdp", 0.0, 0.05, 0.0, 1.0, 32 << 20, true),
    nature("testpmd af_packet", 0.0, 0.19, 0.0, 2.0, 32 << 20, true),
    nature("suricata af_packet", 5.0, 1.9, 20_000.0, 8000.0, 64 << 20, true),
    nature("suricata af_xdp", 5.0, 1.7, 20_000.0, 600.0, 64 << 20, true),
];

/// Numbers between 0 and 1 that are the same in every run (Knuth's MMIX constants).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn delays(typical: f64, spread: f64, count: u64) -> Delays {
    let mut histogram = Vec::new();
    let mut left = count;
    for bucket in 0..40 {
        let edge = typical * (0.1 * 1.25_f64.powi(bucket));
        let share = if edge < typical { 0.12 } else { (0.4 / spread).min(0.8) };
        let here = if bucket == 39 { left.min(2) } else { (left as f64 * share) as u64 };
        left -= here;
        if here > 0 {
            histogram.push((edge, here));
        }
    }
    Delays {
        count,
        mean: typical,
        p50: typical,
        p98: typical * (1.0 + 0.7 * spread),
        p99: typical * (1.0 + spread),
        p999: typical * (1.2 + 1.5 * spread),
        max: typical * (2.0 + 3.0 * spread),
        histogram,
    }
}

/// One made-up run.
fn run(nature: &Nature, study: &str, topology: Topology, round: u32, rate: f64, noise: &mut Noise) -> Sample {
    let own = if topology == Topology::Host { 0.35 } else { 0.0 };
    let packet_us = nature.packet_us + own;
    let wakes = if nature.wakes == 0.0 { 0.0 } else { nature.wakes * rate / (nature.wakes + rate) };
    let wanted = wakes * nature.wake_us / 1e4 + rate * packet_us / 1e4;
    let capacity = rate / (wanted / 100.0).max(1.0);
    let sent = ((rate * 1.0) as u64).max(1);
    let lost = if wanted > 100.0 { ((rate - 0.93 * capacity) as u64).min(sent) } else { 0 };
    let received = sent - lost;
    let core_use = if nature.wakes == 0.0 { 100.0 } else { (wanted + 0.2).min(100.0) } * (1.0 - 0.06 * noise.next());
    let hybrid = nature.name.starts_with("hybrid") || nature.name.starts_with("windowed");
    let timer = hybrid && rate > 4000.0 || nature.name.starts_with("timer");
    let seen = (!nature.outside && received > 0).then_some(());
    let overload = if lost > 0 { 40.0 } else { 1.0 };
    let typical = if timer || !hybrid { nature.late_us } else { 6.0 };
    let latency = delays(typical * overload * (0.9 + 0.2 * noise.next()), 0.8 + noise.next(), received);
    Sample {
        study: study.into(),
        receiver: nature.name.into(),
        topology,
        round,
        frame_bytes: 60,
        arrivals: "constant".into(),
        offered_pps: rate,
        sent_pps: rate * (1.0 - 0.004 * noise.next()),
        sent,
        received,
        lost,
        numbered: !nature.outside,
        loss_bursts: seen.map(|()| LossBursts {
            count: lost / 40,
            longest: if lost > 0 { 700 } else { 0 },
            by_length: if lost > 0 {
                vec![(1, lost / 80), (16, lost / 160), (64, lost / 200 + 1), (700, 1)]
            } else {
                vec![]
            },
            places: vec![],
        }),
        duplicates: 0,
        reordered: 0,
        claims: if nature.outside || nature.name == "libpcap" {
            Claims { received: Some(received), dropped: Some(lost / 7) }
        } else {
            Claims::default()
        },
        drops: BTreeMap::from([("ring full".into(), Some(lost)), ("nic".into(), None)]),
        unaccounted: seen.map(|()| 0),
        core_use_percent: core_use,
        others_percent: None,
        steal_percent: Some(0.4 * noise.next()),
        delivery: seen.map(|()| latency.clone()),
        arrival: (seen.is_some() && nature.memory == 3 << 20).then_some(latency),
        poll_period: (timer && seen.is_some()).then(|| delays(1e6 / nature.wakes, 0.2, wakes as u64 + 1)),
        memory_bytes: Some(nature.memory),
        ring_slots: (nature.memory == 3 << 20).then_some(2048),
        polls: seen.map(|()| (if wakes > 0.0 { wakes } else { rate * 0.8 }) as u64 + 1),
        timer_wakes: seen.map(|()| if timer { wakes as u64 } else { 0 }),
        interrupt_wakes: seen.map(|()| if timer { 0 } else { wakes as u64 }),
        mode_switches: hybrid.then(|| if (2000.0..9000.0).contains(&rate) { (40.0 * noise.next()) as u64 } else { 1 }),
        core_interrupts: Some(wakes as u64 + 250),
        cycles_per_packet: Some((core_use * 24e6 / received.max(1) as f64).max(1.0)),
        cache_misses_per_packet: None,
        load_ns: 0.0,
        napi_pause_ns: None,
        beside: None,
        seconds: 1.0,
        ..Sample::default()
    }
}

fn finding(name: &str, study: &str, topology: Topology, quantity: &str, value: f64, at_least: bool) -> Finding {
    Finding {
        study: study.into(),
        receiver: name.into(),
        topology,
        quantity: quantity.into(),
        value,
        values: vec![value * 0.98, value, value * 1.01],
        at_least,
        note: "made up".into(),
    }
}

/// All studies, all receivers, three rounds.
pub fn book() -> Book {
    let mut noise = Noise(1);
    let mut book = Book { format: FORMAT, environment: environment(), missing: missing(), ..Book::default() };
    let rates = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1.48e5, 3e5, 6e5, 1e6, 1.5e6];
    for topology in [Topology::Nic, Topology::Host] {
        for round in 0..3 {
            for nature in &NATURES {
                for rate in rates {
                    book.samples.push(run(nature, "rates", topology, round, rate, &mut noise));
                }
                studies(&mut book, nature, topology, round, &mut noise);
            }
        }
        for nature in &NATURES {
            searches(&mut book, nature, topology);
        }
    }
    let soak = run(&NATURES[0], "soak", Topology::Nic, 0, 1e6, &mut noise);
    book.samples.push(Sample { sent: 1_000_000_000, received: 1_000_000_000, seconds: 1000.0, ..soak });
    book
}

fn studies(book: &mut Book, nature: &Nature, topology: Topology, round: u32, noise: &mut Noise) {
    for rate in [1e3, 1.48e5, 1e6] {
        book.samples.push(run(nature, "soaker", topology, round, rate, noise));
    }
    for bytes in [60, 124, 252, 508, 1020, 1514] {
        let mut sample = run(nature, "sizes", topology, round, 1.48e5, noise);
        sample.frame_bytes = bytes;
        if nature.outside || nature.name.contains("copy") {
            sample.core_use_percent = (sample.core_use_percent + bytes as f64 * 0.012).min(100.0);
        }
        book.samples.push(sample);
    }
    for pattern in ["constant", "poisson", "burst", "ramp"] {
        let mut sample = run(nature, "arrivals", topology, round, 1.48e5, noise);
        sample.arrivals = pattern.into();
        sample.core_use_percent *= 0.8 + 0.4 * noise.next();
        book.samples.push(sample);
    }
    for load in [0.0, 1000.0, 2000.0, 4000.0, 5000.0, 6000.0, 6500.0] {
        let mut sample = run(nature, "load", topology, round, 1.48e5, noise);
        sample.load_ns = load;
        let wanted = sample.core_use_percent + load * 1.48e5 / 1e7;
        sample.lost = if wanted > 98.0 { (sample.sent as f64 * (wanted - 98.0) / 300.0) as u64 } else { 0 };
        sample.received = sample.sent - sample.lost;
        book.samples.push(sample);
    }
    if nature.memory == 3 << 20 {
        for slots in [64, 128, 256, 512, 1024, 2048] {
            let mut sample = run(nature, "ring", topology, round, 1.48e5, noise);
            sample.ring_slots = Some(slots);
            let needed = 148.0 * if nature.late_us > 200.0 { 1.0 } else { 0.4 };
            sample.lost =
                if (slots as f64) < needed { (sample.sent as f64 * (1.0 - slots as f64 / needed)) as u64 } else { 0 };
            sample.received = sample.sent - sample.lost;
            book.samples.push(sample);
        }
        for setting in ["weight 8", "weight 64", "budget 300"] {
            for rate in [5e4, 1.48e5, 6e5] {
                let mut sample = run(nature, "napi", topology, round, rate, noise);
                sample.beside = Some(setting.into());
                book.samples.push(sample);
            }
        }
    }
    for storm in ["disk", "fork", "page faults", "timer"] {
        for load in [0.0, 4000.0] {
            let mut sample = run(nature, "storms", topology, round, 1.48e5, noise);
            sample.beside = Some(storm.into());
            sample.load_ns = load;
            if nature.outside && noise.next() > 0.5 {
                sample.lost = (noise.next() * 900.0) as u64;
                sample.received = sample.sent - sample.lost;
            }
            book.samples.push(sample);
        }
    }
}

fn searches(book: &mut Book, nature: &Nature, topology: Topology) {
    let own = if topology == Topology::Host { 0.35 } else { 0.0 };
    let capacity = (0.95e6 / (nature.packet_us + own)).min(1.5e6);
    let name = nature.name;
    let free = if nature.wakes == 0.0 { 40.0 } else { (96.0 - 14.8 * (nature.packet_us + own)).max(1.0) };
    book.findings.extend([
        finding(name, "capacity", topology, "no_loss_capacity_pps", capacity, capacity >= 1.5e6),
        finding(name, "load", topology, "greatest_load_percent", free, false),
    ]);
    if nature.memory == 3 << 20 {
        let slots = if nature.late_us > 200.0 { 256.0 } else { 64.0 };
        book.findings.push(finding(name, "ring", topology, "least_ring_slots", slots, false));
        book.findings.push(finding(name, "ring", topology, "least_ring_bytes", slots * 2048.0, false));
        book.fits.push(fit(nature, topology));
    }
}

fn fit(nature: &Nature, topology: Topology) -> Fit {
    let point = |(place, rate): (usize, f64)| {
        let predicted =
            nature.wakes * rate / (nature.wakes + rate) * nature.wake_us / 1e4 + rate * nature.packet_us / 1e4 + 0.2;
        let off = [1.02, 0.97, 1.05, 0.99, 1.08][place % 5];
        FitPoint {
            label: format!("{rate} pps"),
            x: rate,
            predicted,
            measured: predicted * off,
            held_back: place % 3 == 2,
        }
    };
    let parameter = |name: &str, unit: &str, value: f64| Parameter {
        name: name.into(),
        unit: unit.into(),
        value,
        low: value * 0.93,
        high: value * 1.06,
    };
    Fit {
        model: "core_use".into(),
        receiver: nature.name.into(),
        topology,
        formula: "η = t_POH · f_poll + t_PP · f_pkt + η_BG".into(),
        parameters: vec![
            parameter("t_POH", "µs", nature.wake_us),
            parameter("t_PP", "ns", nature.packet_us * 1e3),
            parameter("η_BG", "%", 0.2),
        ],
        r_squared: Some(0.9971),
        points: [1e3, 1e4, 5e4, 1.48e5, 3e5, 1e6].into_iter().enumerate().map(point).collect(),
    }
}

fn environment() -> Environment {
    Environment {
        command: "ringtap bench --full --out /tmp/made-up".into(),
        version: "0.1.0".into(),
        started_at: 1_795_304_042,
        host: "made-up processor, Linux 6.18, CPU 0 of 2".into(),
        cores: 2,
        receiver_core: 0,
        generator_core: 1,
        meter: "idle time".into(),
        virtual_machine: true,
        peers: BTreeMap::from([("tcpdump".into(), "4.99.3".into()), ("suricata".into(), "7.0.10".into())]),
        plans: BTreeMap::from([("1 ms".into(), vec!["period = 889.4 µs".into(), "threshold = 1.5 kpps".into()])]),
        doubts: vec!["shared host: other virtual machines run on the same processor".into()],
    }
}

fn missing() -> Vec<Missing> {
    vec![Missing { what: "zeek".into(), why: "is not installed: install the package zeek".into() }]
}
