//! Sensors that send as they go, and who reads the incidents that come of it: `scripts/scale-latency` has a job in between.
//!
//! `live config RULES` prints the job's configuration; `live send ALARMS_PER_S SECONDS ADDRESSES` prints records (sensor, tab, line),
//! with a heartbeat of each sensor every 100 ms; `live read SKIP_S` reads incidents as they are committed, and at the end of
//! its input says how long after their last alarm they came, of those that opened SKIP_S after its start and later.

use std::io::{BufRead, BufWriter, Error, Result, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_datagram::{Action, Alert, Clock, Direction, Ends, Heartbeat, Message, Origin, Rule};

const SENSORS: [&str; 4] = ["east", "north", "south", "west"];
const TICK: Duration = Duration::from_millis(10);
/// Ticks from one heartbeat to the next.
const BEAT: u64 = 10;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| {
        let text = arguments.get(at).map_or("", String::as_str);
        text.parse::<u64>().map_err(|error| Error::other(format!("{text:?}: {error}")))
    };
    match arguments.first().map(String::as_str) {
        Some("config") => config(arguments.get(1).map_or("", String::as_str)),
        Some("send") => send(number(1)?, number(2)?, number(3)?),
        Some("read") => read(number(1)?),
        _ => Err(Error::other("expected config RULES, send ALARMS_PER_S SECONDS ADDRESSES or read SKIP_S")),
    }
}

fn config(rules: &str) -> Result<()> {
    let sensors: serde_json::Map<_, _> = SENSORS.iter().map(|name| ((*name).into(), serde_json::Value::Null)).collect();
    println!("{}", serde_json::json!({"rules": {"rules.yml": std::fs::read_to_string(rules)?}, "sensors": sensors}));
    Ok(())
}

/// Nanoseconds since 1970.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn origin(sensor: usize, epoch: u64) -> Origin {
    let name = SENSORS[sensor].parse().expect("a name");
    Origin { sensor: name, boot_id: [sensor as u8; 16], clock: Clock::Host, epoch }
}

fn send(rate: u64, seconds: u64, addresses: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(26);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (epoch, began) = (now_ns(), Instant::now());
    let (mut sequences, mut sent, mut ticks, mut line) = ([0; SENSORS.len()], 0, 0, Vec::new());
    while began.elapsed() < Duration::from_secs(seconds) {
        let due = began.elapsed().as_micros() as u64 * rate / 1_000_000;
        let time_ns = now_ns();
        for _ in sent..due {
            let sensor = random.usize(..SENSORS.len());
            sequences[sensor] += 1;
            let source = (10 << 24) + random.u64(..addresses) as u32;
            let alert = Alert {
                origin: origin(sensor, epoch),
                sequence: sequences[sensor],
                time_ns,
                built_ns: time_ns,
                error_ns: Some(1000),
                rule: Rule { gid: 1, sid: random.u32(1..=3), rev: 1 },
                severity: 1,
                action: Action::Allowed,
                ends: Some(Ends {
                    source: std::net::Ipv4Addr::from_bits(source).into(),
                    destination: [198, 51, 100, 7].into(),
                    protocol: 6,
                    ports: (40_000, random.u16(80..84)),
                }),
                direction: Some(Direction::ToServer),
                community: None,
            };
            record(&mut out, &mut line, sensor, &Message::Alert(alert))?;
        }
        sent = sent.max(due);
        if ticks % BEAT == 0 {
            for (sensor, last_sequence) in sequences.into_iter().enumerate() {
                let (origin, sent_ns) = (origin(sensor, epoch), now_ns());
                let beat = Heartbeat { origin, last_sequence, horizon_ns: time_ns, sent_ns, error_ns: Some(1000) };
                record(&mut out, &mut line, sensor, &Message::Heartbeat(beat))?;
            }
        }
        out.flush()?;
        ticks += 1;
        std::thread::sleep((TICK * ticks as u32).saturating_sub(began.elapsed()));
    }
    eprintln!("{sent} alarms sent in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn record(out: &mut impl Write, line: &mut Vec<u8>, sensor: usize, message: &Message) -> Result<()> {
    line.clear();
    message.write_line(None, line);
    write!(out, "{}\t", SENSORS[sensor])?;
    out.write_all(line)
}

fn read(skip_s: u64) -> Result<()> {
    let from_ns = now_ns() + skip_s * 1_000_000_000;
    let mut latencies_ms = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let came_ns = now_ns();
        let Ok(incident) = serde_json::from_str::<serde_json::Value>(&line?) else { continue };
        let opened_ns = incident["opened_ns"].as_u64().filter(|_| incident["event"] == "opened");
        let Some(opened_ns) = opened_ns.filter(|at| *at >= from_ns) else { continue };
        latencies_ms.push(came_ns.saturating_sub(opened_ns) as f64 / 1e6);
    }
    latencies_ms.sort_by(f64::total_cmp);
    let at = |share: f64| latencies_ms.get((latencies_ms.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    println!(
        "{} incidents, from their last alarm to their commit: p50 {:.0} ms, p90 {:.0} ms, p99 {:.0} ms, longest {:.0} ms",
        latencies_ms.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        latencies_ms.last().copied().unwrap_or(f64::NAN)
    );
    Ok(())
}
