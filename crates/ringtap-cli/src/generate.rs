//! `ringtap generate`: stamped packets at a set rate, or the packets of a capture file.
//!
//! Owns the options, the order of things, the progress line and the exit code. Traffic is read in `traffic` and `traps`;
//! sending and its results are the testbed crate's (`ringtap_testbed::generate`).

mod faults;
mod traffic;
mod traps;

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ringtap::interface::Interface;
use ringtap::source::file::Pace;
use ringtap::{Error, Result, realtime};
use ringtap_run::{arguments, notes, signals, units};
use ringtap_testbed::generate::{Addresses, Outcome, Progress, Replay, Stopped};
use ringtap_testbed::{Generator, GeneratorBackend, GeneratorConfig, in_testbed_namespace};

use traffic::Traffic;

/// How much longer than asked a run may take before it is ended: set-up, and a pause that is caught up.
const OVERTIME: Duration = Duration::from_millis(500);

/// Send numbered, time-stamped packets at a set rate, or replay a capture file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Sends only inside a network namespace made by Ringtap's testbed, unless --yes-really is given.
Without --count and --duration it sends until Ctrl-C. Frame sizes are without the frame check sequence.
Exit code 1 when fewer packets were sent than asked for.

Examples:
  ringtap generate -i eth1 --rate 148k --size 64 --count 1M
  ringtap generate -i veth0 --rate 10k --duration 10s --yes-really
  ringtap generate -i eth1 --rate 20k --pattern burst --burst-length 64 --burst-rate 1M --duration 10s
  ringtap generate -i eth1 --rate 1k --pattern ramp --ramp-to 500k --duration 30s
  ringtap generate -i eth1 --replay storm.pcapng --pace 2x --loop 10
  ringtap generate -i eth1 --traps core-router-fails --rate 50k --count 1M
  ringtap generate -i eth1 --traps core-router-fails --trap-version v3 --config ringtap.toml --rate 20k --count 100k
  ringtap generate -i eth1 --topology network.toml --fault node:d1 --fault link:a-b@2s --lost 5 --mended 1min \\
    --expected expected.json

The words of a file for --traps are those of snmptrap(1), one trap a line, in numbers:
  1.3.6.1.6.3.1.1.5.3 1.3.6.1.2.1.2.2.1.1.3 i 3")]
pub struct Args {
    /// Interface to send on
    #[arg(short, long, value_name = "IF")]
    interface: String,
    /// Packets per second: the mean, or where a ramp begins
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    rate: Option<f64>,
    /// Frame sizes in bytes, used in turn [default: the smallest, 64 over IPv4]
    #[arg(long, value_name = "BYTES,...", value_parser = traffic::sizes)]
    size: Option<traffic::Sizes>,
    /// Stop after this many packets
    #[arg(long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// How packets follow each other [default: constant]
    #[arg(long, value_name = "PATTERN", value_enum)]
    pattern: Option<traffic::PatternName>,
    /// Packets of a burst [default: 32]
    #[arg(long, value_name = "N", value_parser = units::count)]
    burst_length: Option<u64>,
    /// Rate within a burst [default: ten times the mean]
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    burst_rate: Option<f64>,
    /// Rate at the end of a ramp, which lasts --duration
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    ramp_to: Option<f64>,

    /// Ethernet destination [default: the other end's on a veth, else asked for by ARP or neighbour discovery]
    #[arg(long, value_name = "MAC", value_parser = traffic::mac, help_heading = "Packets")]
    to_mac: Option<[u8; 6]>,
    /// Ethernet source [default: the interface's]
    #[arg(long, value_name = "MAC", value_parser = traffic::mac, help_heading = "Packets")]
    from_mac: Option<[u8; 6]>,
    /// IP destination, IPv4 or IPv6 [default in a testbed: the peer's IPv4, on other veths 198.18.0.2]
    #[arg(long, value_name = "ADDRESS", help_heading = "Packets")]
    to: Option<IpAddr>,
    /// IP source [default: the interface's, or 198.18.0.1 towards 198.18.0.2]
    #[arg(long, value_name = "ADDRESS", help_heading = "Packets")]
    from: Option<IpAddr>,
    /// UDP destination port [default: 9000]
    #[arg(long, value_name = "PORT", help_heading = "Packets")]
    port: Option<u16>,
    /// UDP source port, the first one [default: 40000]
    #[arg(long, value_name = "PORT", help_heading = "Packets")]
    from_port: Option<u16>,
    /// Number of flows: source ports used in turn [default: 1]
    #[arg(long, value_name = "N", help_heading = "Packets")]
    flows: Option<u16>,
    /// VLAN of an 802.1Q tag (0 to 4095) [default: no tag]
    #[arg(long, value_name = "ID", help_heading = "Packets")]
    vlan: Option<u16>,
    /// Stream number in the stamps, to tell generators apart [default: 1]
    #[arg(long, value_name = "N", help_heading = "Packets")]
    stream: Option<u16>,

    /// Send the packets of a pcap or pcapng file instead, also compressed by zstd; several are sent one after another
    #[arg(long, value_name = "FILE", help_heading = "Replay")]
    replay: Vec<PathBuf>,
    /// recorded, fast (without waiting), or a multiple such as 2x or 0.5x; or give --rate [default: recorded]
    #[arg(long, value_name = "PACE", value_parser = arguments::pace, help_heading = "Replay")]
    pace: Option<Pace>,
    /// How many times the files are sent [default: 1]
    #[arg(long = "loop", value_name = "N", value_parser = units::count, help_heading = "Replay")]
    passes: Option<u64>,

    #[command(flatten)]
    trap: traps::TrapArgs,
    #[command(flatten)]
    faults: faults::FaultArgs,

    /// CPU to send from [default: the scheduler's choice]
    #[arg(long, value_name = "CPU", help_heading = "Sender")]
    cpu: Option<usize>,
    /// SCHED_FIFO priority, 1 to 99; 0: an ordinary thread, which the scheduler moves to a CPU that is free
    ///
    /// The sender spins between packets. As a real-time thread it is stopped for up to 50 ms of each second when others wait for its CPU.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=99), help_heading = "Sender")]
    priority: u8,
    /// auto, kernel (an XDP program, millions of packets/s) or ring (a packet socket, some 100,000 packets/s)
    #[arg(long, value_name = "BACKEND", default_value = "auto", value_parser = traffic::backend, help_heading = "Sender")]
    backend: GeneratorBackend,
    /// Send although the interface is not in a namespace made by Ringtap: real hosts may get these packets
    #[arg(long, help_heading = "Sender")]
    yes_really: bool,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command. Fails when fewer packets were sent than asked for, unless a signal ended it.
pub fn run(args: Args) -> Result<ExitCode> {
    let of_faults = args.faults.read(|| traps::form(&args.trap))?;
    let traffic = match (of_faults, traps::read(&args)?) {
        (Some(storm), _) => Traffic::Faults(storm),
        (None, Some(storm)) => Traffic::Traps(storm),
        (None, None) => traffic::read(&args)?,
    };
    let interface = Interface::find(&args.interface)?;
    let private = in_testbed_namespace()?;
    if !private && !args.yes_really {
        let cause = "it is not in a network namespace made by Ringtap, so real hosts may get the packets";
        return Err(Error::usage("generate on", &args.interface, cause)
            .way_out(format!("run it inside a testbed, or insist on {} with --yes-really", args.interface)));
    }
    let interrupted = signals::stop_flag()?;
    let longest = args.duration.map(|duration| duration + OVERTIME);
    // The file of traps is there while it is sent.
    let mut _traps = None;
    let (generator, longest) = match traffic {
        Traffic::Stamped { profile, sizes, count } => {
            let config = GeneratorConfig {
                backend: args.backend,
                count,
                stream: args.stream.unwrap_or(1),
                core: args.cpu,
                priority: args.real_time(),
                anywhere: args.yes_really,
                ..GeneratorConfig::new(&args.interface, args.addresses().frame(&interface, sizes, private)?, profile)
            };
            (Generator::start(config)?, longest)
        }
        Traffic::Traps(storm) => {
            let frame = args.addresses().frame(&interface, None, private)?;
            (traps::start(&args, storm, frame)?, longest)
        }
        Traffic::Faults(storm) => {
            let frame = args.addresses().frame(&interface, None, private)?;
            args.faults.write_expected(&storm)?;
            let (replay, file) = storm.replay(&args.interface, frame, args.port)?;
            _traps = Some(file);
            let replay = Replay { core: args.cpu, priority: args.real_time(), anywhere: args.yes_really, ..replay };
            (replay.start()?, None)
        }
        Traffic::Replay(replay) => {
            let replay = Replay { core: args.cpu, priority: args.real_time(), anywhere: args.yes_really, ..replay };
            (replay.start()?, None)
        }
    };
    if let Some(note) = generator.note() {
        notes::say(note);
    }
    let note = generator.note().map(str::to_owned);
    let stopped = watch(&generator, longest, &interrupted)?;
    let mut report = generator.join()?;
    let latest = Duration::from_nanos(report.lateness.max_ns);
    report.warnings.extend(args.real_time().and_then(|_| realtime::pause_warning(latest)));
    let outcome = Outcome {
        report,
        interface: args.interface,
        asked: args.count,
        interrupted: stopped == Some(Stopped::ByCaller),
        timed_out: stopped == Some(Stopped::ByTime),
    };
    if args.json {
        println!("{}", outcome.to_json());
    } else {
        print!("{}", outcome.to_text(note.as_deref()));
    }
    for fault in outcome.report.replay.iter().flat_map(|replay| &replay.faults) {
        notes::say(fault);
    }
    Ok(if outcome.succeeded() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    fn real_time(&self) -> Option<u8> {
        (self.priority > 0).then_some(self.priority)
    }

    fn addresses(&self) -> Addresses {
        Addresses {
            to_mac: self.to_mac,
            from_mac: self.from_mac,
            to: self.to,
            from: self.from,
            port: self.port,
            from_port: self.from_port,
            flows: self.flows,
            vlan: self.vlan,
        }
    }
}

/// Waits for the end, showing progress on a terminal once per second.
fn watch(generator: &Generator, longest: Option<Duration>, interrupted: &AtomicBool) -> Result<Option<Stopped>> {
    if !std::io::stderr().is_terminal() {
        return generator.watch(longest, interrupted, None);
    }
    let mut show = |progress: Progress, pps: f64| {
        progress_line(&format!(
            "{} sent, {}, {} late",
            units::grouped(progress.stamped),
            units::shown_rate(pps),
            units::grouped(progress.late)
        ));
    };
    let stopped = generator.watch(longest, interrupted, Some(&mut show))?;
    progress_line("");
    Ok(stopped)
}

/// Replaces the terminal's line. What can't be written there is no reason to stop sending.
fn progress_line(text: &str) {
    let mut terminal = std::io::stderr().lock();
    let _ = write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush());
}
