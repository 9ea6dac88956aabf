//! The checks, in the order they are made.
//!
//! Owns what each one demands. Each says what it saw; none stops the others.

use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ringtap::engine::End;
use ringtap::pacer::Policy;
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap::{Error, Result};
use ringtap_testbed::SequenceChecker;

use crate::bond::{bond_by_its_ports, bond_that_asks};
use crate::cell::{
    Card, Cell, Expected, PERIOD_NS, RECEIVER, Run, SENDER, Traffic, hybrid, settle, start_engines, timer,
    wait_for_carrier,
};
use crate::flows::whole_flows;
use crate::host_use::left_to_the_host;
use crate::jitter::{self, Stress};
use crate::outcome::{Line, Outcome};
use crate::programs::{beside_the_host, clock_is_set};

type Check = fn(&Cell) -> Result<Outcome>;

const CHECKS: [(&str, Check); 24] = [
    ("AF_XDP", binds),
    ("interrupt mode", interrupt_mode),
    ("timer mode", timer_mode),
    ("hybrid mode", hybrid_mode),
    ("interrupts per packet", interrupts_per_packet),
    ("more than a budget per poll", more_than_a_budget),
    ("a ring of 64", small_ring),
    ("a starved ring", starved_ring),
    ("all queues", all_queues),
    ("whole flows", whole_flows),
    ("large packets", large_packets),
    ("VLAN tags", vlan_tags),
    ("link down and up", link_down_and_up),
    ("killed and restarted", killed_and_restarted),
    ("transmit ring", transmit_ring),
    ("packet socket", packet_socket),
    ("generic XDP", generic_xdp),
    ("given back on demand", given_back_on_demand),
    ("left to the host", left_to_the_host),
    ("a bond by its ports", bond_by_its_ports),
    ("a bond that asks by ARP", bond_that_asks),
    ("programs beside the host", beside_the_host),
    ("the clock is set", clock_is_set),
    ("bounded jitter", bounded_jitter),
];

/// Those of the kernel's interface; a card that was taken from the kernel has none.
const OF_THE_INTERFACE: [&str; 10] = [
    "AF_XDP",
    "whole flows",
    "link down and up",
    "packet socket",
    "generic XDP",
    "left to the host",
    "a bond by its ports",
    "a bond that asks by ARP",
    "programs beside the host",
    "the clock is set",
];

/// Enough to make a pattern, few enough for an emulated CPU: two seconds.
const STEADY: (f64, u64) = (4000.0, 8000);

/// Runs the checks and writes a line for each.
pub(crate) fn run(expected: Expected, card: Card, only: Option<&str>, jitter_seconds: u64) -> ExitCode {
    let cell = match Cell::find(expected, card, jitter_seconds) {
        Ok(cell) => cell,
        Err(error) => {
            eprintln!("lab: {error}");
            return ExitCode::FAILURE;
        }
    };
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    write(&Line::Cell { kernel, driver: cell.driver.clone(), queues: cell.queues });
    let of_the_interface = |name| cell.card == Card::Kernel || !OF_THE_INTERFACE.contains(&name);
    for (name, check) in CHECKS.into_iter().filter(|(name, _)| of_the_interface(*name)) {
        one(name, only, || check(&cell));
    }
    write(&Line::End);
    ExitCode::SUCCESS
}

fn one(name: &str, only: Option<&str>, check: impl FnOnce() -> Result<Outcome>) {
    // No blank can be in a word of the kernel's command line.
    if only.is_some_and(|only| !name.contains(&only.replace('_', " "))) {
        return;
    }
    // On the console: the last one before a guest hangs is the one to look at.
    eprintln!("lab: check: {name}");
    let since = Instant::now();
    let outcome = match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::failed(error.to_string()),
        Err(_) => Outcome::failed("panicked: see the console's log"),
    };
    write(&Line::Check { name: name.to_owned(), seconds: since.elapsed().as_secs_f64(), outcome });
}

fn write(line: &Line) {
    let mut out = std::io::stdout().lock();
    // Nobody to tell when the results' own line is broken; the missing end will be noticed.
    let _ = serde_json::to_writer(&mut out, line).map(|()| out.write_all(b"\n")).map(|_| out.flush());
}

/// What the driver gives: XDP_OPTIONS and the socket's NAPI id tell, not the documentation.
fn binds(cell: &Cell) -> Result<Outcome> {
    let receiver = Cell::open(cell.config(timer()))?;
    let source = receiver.descriptions().remove(0);
    let (zero_copy, mode) = (source.zero_copy == Some(true), source.xdp_mode.unwrap_or("none"));
    let mut wrong = Vec::new();
    if cell.expected.zero_copy && !zero_copy {
        wrong.push(format!("{} was to give zero-copy, and copies ({mode} XDP)", cell.driver));
    }
    if cell.expected.zero_copy && !source.busy_poll {
        wrong.push(format!("{} was to give busy poll, and the socket has no NAPI id", cell.driver));
    }
    let how = if zero_copy { "zero-copy" } else { "copy" };
    let poll = if source.busy_poll { "this thread polls the card" } else { "the kernel's NAPI polls the card" };
    Ok(Outcome::of(&wrong, format!("{mode} XDP, {how}; {poll}"))
        .figure("zero_copy", zero_copy)
        .figure("xdp_mode", mode)
        .figure("busy_poll", source.busy_poll))
}

fn steady(cell: &Cell, policy: Policy) -> Result<Run> {
    let run = cell.run(cell.config(policy), Traffic::new(STEADY.0, STEADY.1))?;
    // For the reader of the console's log; a check that minds looks for itself.
    run.warnings.iter().for_each(|warning| eprintln!("lab: {warning}"));
    Ok(run)
}

fn with_interrupts(outcome: Outcome, run: &Run) -> Outcome {
    outcome
        .figure("packets", run.truth.received)
        .figure("interrupts", run.interrupts)
        .figure("pps", run.pps.round())
        .figure("latency_p99_us", run.counters.latency.quantiles_us().p99.round())
        .figure("tick_late_p99_us", run.counters.tick_lateness.quantiles_us().p99.round())
        .figure("tick_late_max_us", run.counters.tick_lateness.quantiles_us().max.round())
}

/// Every packet arrives, and the card interrupts about as often as there is something new.
fn interrupt_mode(cell: &Cell) -> Result<Outcome> {
    let run = steady(cell, Policy::Interrupt)?;
    let mut wrong = run.wrong();
    let per_packet = run.interrupts_per_packet();
    if per_packet.is_some_and(|ratio| ratio < 0.05) {
        wrong.push(format!("only {} for {} packets", interrupts(&run), run.truth.received));
    }
    Ok(with_interrupts(Outcome::of(&wrong, seen(&run)), &run))
}

/// Every packet arrives, and where the card's model obeys its masks, its interrupt stays masked.
fn timer_mode(cell: &Cell) -> Result<Outcome> {
    let run = steady(cell, timer())?;
    let mut wrong = run.wrong();
    if cell.expected.masked && run.interrupts_per_packet().is_some_and(|ratio| ratio > 0.01) {
        wrong.push(format!(
            "{} for {} packets: not masked (ticks late: {:?})",
            interrupts(&run),
            run.truth.received,
            run.counters.tick_lateness.quantiles_us()
        ));
    }
    Ok(with_interrupts(Outcome::of(&wrong, seen(&run)), &run))
}

/// Every packet arrives, the timer takes over while they come, and the interrupt when they have ceased.
fn hybrid_mode(cell: &Cell) -> Result<Outcome> {
    let run = steady(cell, hybrid())?;
    let mut wrong = run.wrong();
    if run.counters.timer_wakes == 0 {
        wrong.push(format!("at {:.0} packets/s the timer never took over", run.pps));
    }
    if run.counters.timer_mode {
        wrong.push("still in timer mode after the traffic ended".to_owned());
    }
    Ok(with_interrupts(Outcome::of(&wrong, seen(&run)), &run))
}

/// From one per packet to nearly none, with the change at the threshold (\[1] Fig. 7.14, 7.15).
fn interrupts_per_packet(cell: &Cell) -> Result<Outcome> {
    let mut wrong = Vec::new();
    let mut points = Vec::new();
    for (pps, count) in [(200.0, 200), (500.0, 500), (1000.0, 1000), (2500.0, 2500), (5000.0, 5000), (10_000.0, 10_000)]
    {
        let run = cell.run(cell.config(hybrid()), Traffic::new(pps, count))?;
        wrong.extend(run.wrong().into_iter().map(|text| format!("at {pps} packets/s: {text}")));
        let Some(ratio) = run.interrupts_per_packet() else {
            return Ok(Outcome::absent("the device has no interrupt of its own"));
        };
        points.push((run.pps, ratio));
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    if cell.expected.masked && last.1 > first.1 / 10.0 {
        wrong.push(format!(
            "{:.3} interrupts per packet at {:.0} packets/s, {:.3} at {:.0}",
            first.1, first.0, last.1, last.0
        ));
    }
    let shown: Vec<String> = points.iter().map(|(pps, ratio)| format!("{pps:.0}: {ratio:.3}")).collect();
    let figures: Vec<serde_json::Value> =
        points.iter().map(|(pps, ratio)| serde_json::json!([pps.round(), ratio])).collect();
    Ok(Outcome::of(&wrong, format!("interrupts per packet by packets/s: {}", shown.join(", ")))
        .figure("points", figures))
}

/// A poll takes 64 packets from the card; when more lie there, the rest must not wait for the next tick.
fn more_than_a_budget(cell: &Cell) -> Result<Outcome> {
    const PERIOD: u64 = 20_000_000;
    let run = cell.run(cell.config(Policy::Timer { period_ns: PERIOD }), Traffic::new(8000.0, 8000))?;
    let mut wrong = run.wrong();
    let per_cycle = run.counters.packets_per_poll();
    if per_cycle < 65.0 {
        wrong.push(format!("{per_cycle:.0} packets per poll: the check did not reach its subject"));
    }
    Ok(with_interrupts(Outcome::of(&wrong, format!("{}; {per_cycle:.0} packets per poll", seen(&run))), &run))
}

/// The smallest ring serves the rate that it is large enough for (\[1] §5.5: 64 slots on a real-time platform).
fn small_ring(cell: &Cell) -> Result<Outcome> {
    let mut config = cell.config(timer());
    config.ring_slots = 64;
    let run = cell.run(config, Traffic::new(2000.0, 4000))?;
    Ok(with_interrupts(Outcome::of(&run.wrong(), seen(&run)), &run))
}

/// When all frames have been used up the driver asks for a wake-up (XDP_RING_NEED_WAKEUP); without an answer it never
/// receives again.
fn starved_ring(cell: &Cell) -> Result<Outcome> {
    let mut wrong = Vec::new();
    for policy in [Policy::Interrupt, timer()] {
        let mut config = cell.config(policy.clone());
        config.ring_slots = 64;
        let receiver = Cell::open(config)?;
        // Nobody takes these: the ring and the card's own run full.
        match cell.send(Traffic::new(4000.0, 1000)) {
            // QEMU keeps frames back from a virtio card that has no buffers, and so its sender.
            Err(_) if cell.driver == "virtio_net" => return Ok(Outcome::absent("a full card holds the sender back")),
            sent => sent?,
        };
        let running = start_engines(receiver, 2000, false)?;
        settle(|| running.counters().packets);
        let kept = running.counters().packets;
        if cell.card != Card::Kernel && kept == 1000 {
            return Ok(Outcome::absent("QEMU keeps frames back from this card while it has no descriptor"));
        }
        let (sent, _) = cell.send(Traffic::new(1000.0, 1000))?;
        settle(|| running.counters().packets);
        let outcome = running.finish()?;
        let came: u64 = outcome.engines.iter().map(|engine| engine.handler.seen().len() as u64).sum();
        if came != kept + sent {
            wrong.push(format!("{policy:?}: {} of {sent} packets arrived after the ring had been full", came - kept));
        }
        if kept == 0 || kept >= 1000 {
            wrong.push(format!("{policy:?}: {kept} of 1000 packets were kept: the ring was never full"));
        }
        if outcome.ledger.unaccounted() != Some(0) {
            wrong.push(format!("{policy:?}: the ledger does not add up: {}", outcome.ledger));
        }
    }
    Ok(Outcome::of(&wrong, "goes on after having been full, by interrupt and by timer"))
}

/// Many flows on all queues. Cards spread UDP by addresses only unless told otherwise (ethtool(8), rx-flow-hash).
fn all_queues(cell: &Cell) -> Result<Outcome> {
    if cell.queues < 2 {
        return Ok(Outcome::absent("the device has one queue"));
    }
    let spreads = || command("ethtool", &["-N", RECEIVER, "rx-flow-hash", "udp4", "sdfn"]).is_ok();
    if cell.card == Card::Kernel && !spreads() {
        return Ok(Outcome::absent("the driver does not spread UDP by port"));
    }
    let run = cell.run(cell.config(hybrid()), Traffic { flows: 64, ..Traffic::new(STEADY.0, STEADY.1) })?;
    let wrong = run.wrong();
    if wrong.is_empty() && run.per_queue.iter().filter(|&&count| count > 0).count() < 2 {
        return Ok(Outcome::absent(format!("the card puts 64 flows on one queue: {:?}", run.per_queue)));
    }
    Ok(with_interrupts(Outcome::of(&wrong, format!("{}; by queue: {:?}", seen(&run), run.per_queue)), &run))
}

/// Frames of the whole MTU in frames of 2 KiB.
fn large_packets(cell: &Cell) -> Result<Outcome> {
    let run = cell.run(cell.config(timer()), Traffic { size: 1514, ..Traffic::new(1000.0, 2000) })?;
    Ok(with_interrupts(Outcome::of(&run.wrong(), seen(&run)), &run))
}

fn link_down_and_up(cell: &Cell) -> Result<Outcome> {
    let mut wrong = Vec::new();
    for policy in [Policy::Interrupt, timer()] {
        let run = cell.run_with(cell.config(policy.clone()), Traffic::new(2000.0, 2000), |running| {
            std::thread::sleep(Duration::from_millis(50));
            for state in ["down", "up"] {
                command("ip", &["link", "set", "dev", RECEIVER, state])?;
                std::thread::sleep(Duration::from_millis(300));
            }
            wait_for_carrier(RECEIVER)?;
            wait_for_carrier(SENDER)?;
            if running.is_finished() {
                return Err(Error::failed("go on after the link was down on", RECEIVER, "the engines have ended"));
            }
            Ok(())
        })?;
        wrong.extend(run.wrong().into_iter().map(|text| format!("{policy:?}: {text}")));
    }
    Ok(Outcome::of(&wrong, "all packets arrive after it, by interrupt and by timer"))
}

fn command(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).status();
    let status = status.map_err(|error| Error::os("run", program, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::failed("run", format!("{program} {}", arguments.join(" ")), status))
    }
}

/// The other process of [`killed_and_restarted`].
pub(crate) fn victim(card: Card) -> ExitCode {
    let opened = Cell::find(Expected::default(), card, 0)
        .and_then(|cell| Cell::open(cell.config(timer())))
        .and_then(|receiver| start_engines(receiver, 0, false));
    match opened {
        Ok(_running) => {
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Without a chance to clean up: the next start finds the queue free and puts NAPI's settings back.
fn killed_and_restarted(cell: &Cell) -> Result<Outcome> {
    let setting = || {
        let path = format!("/sys/class/net/{RECEIVER}/napi_defer_hard_irqs");
        std::fs::read_to_string(path).map_or_else(|error| error.to_string(), |text| text.trim().to_owned())
    };
    let before = setting();
    let vfio = match &cell.card {
        Card::Kernel => Vec::new(),
        Card::Own(address) => vec!["--vfio", address],
    };
    let spawned = Command::new("/proc/self/exe").arg("victim").args(vfio).stdout(Stdio::piped()).spawn();
    let mut victim = spawned.map_err(|error| Error::os("start", "a receiver to kill", &error))?;
    let mut said = String::new();
    if let Some(stdout) = victim.stdout.take() {
        let _ = BufReader::new(stdout).read_line(&mut said);
    }
    let meanwhile = setting();
    let killed = victim.kill().and_then(|()| victim.wait());
    killed.map_err(|error| Error::os("kill", "the receiver", &error))?;
    if said.trim() != "ready" {
        return Ok(Outcome::failed(format!("the receiver to be killed did not start: {}", said.trim())));
    }
    let run = cell.run(cell.config(timer()), Traffic::new(2000.0, 2000))?;
    let mut wrong = run.wrong();
    let after = setting();
    if after != before {
        wrong.push(format!("napi_defer_hard_irqs was {before}, {meanwhile} while it ran, and is {after} now"));
    }
    let settings = match cell.card {
        Card::Kernel => format!("; napi_defer_hard_irqs {before} → {meanwhile} → {after}"),
        Card::Own(_) => String::new(),
    };
    Ok(Outcome::of(&wrong, format!("{}{settings}", seen(&run))))
}

/// Each packet is sent back through the transmit ring and seen on the other card.
fn transmit_ring(cell: &Cell) -> Result<Outcome> {
    let traffic = Traffic::new(2000.0, 4000);
    let mut other = ReceiverConfig::new(SENDER, Policy::Timer { period_ns: PERIOD_NS });
    other.backend = Backend::Packet;
    other.incoming_only = true;
    other.cpus = vec![0];
    let other = start_engines(Cell::open(other)?, traffic.count, false)?;
    let mut config = cell.config(timer());
    config.transmit_slots = 1024;
    let run = cell.run(config, traffic)?;
    settle(|| other.counters().packets);
    let outcome = other.finish()?;
    let mut checker = SequenceChecker::new(traffic.count);
    outcome.engines[0].handler.seen().iter().for_each(|&seq| checker.see(seq));
    let answers = checker.report(run.truth.expected);
    let mut wrong = run.wrong();
    if answers.lost > 0 || answers.duplicates > 0 {
        wrong.push(format!(
            "{} of {} answers did not reach the other card, {} twice ({} sent, {} refused)",
            answers.lost, answers.expected, answers.duplicates, run.counters.transmitted, run.counters.transmit_refused
        ));
    }
    Ok(Outcome::of(&wrong, format!("{} answers in {} frames sent", answers.received, run.counters.transmitted)))
}

/// A card that takes the tags out of packets is told not to, and told again to when the receiver ends: AF_XDP, the packet socket
/// and AF_XDP once more see the tag of each packet.
fn vlan_tags(cell: &Cell) -> Result<Outcome> {
    let mut wrong = Vec::new();
    let mut said = Vec::new();
    let mut packet = cell.config(hybrid());
    packet.backend = Backend::Packet;
    let configs = match cell.card {
        Card::Kernel => vec![cell.config(timer()), packet, cell.config(hybrid())],
        Card::Own(_) => vec![cell.config(timer())],
    };
    for config in configs {
        let run = cell.run(config, Traffic { size: 68, vlan: Some(5), ..Traffic::new(2000.0, 2000) })?;
        wrong.extend(run.wrong());
        if run.tagged != run.truth.received {
            wrong.push(format!("{} of {} packets lost their tag", run.truth.received - run.tagged, run.truth.received));
        }
        said.push(format!("{} of {} tagged", run.tagged, run.truth.received));
    }
    Ok(Outcome::of(&wrong, said.join(", ")))
}

fn packet_socket(cell: &Cell) -> Result<Outcome> {
    let mut config = cell.config(hybrid());
    config.backend = Backend::Packet;
    let run = cell.run(config, Traffic::new(STEADY.0, STEADY.1))?;
    Ok(with_interrupts(Outcome::of(&run.wrong(), seen(&run)), &run))
}

fn generic_xdp(cell: &Cell) -> Result<Outcome> {
    let mut config = cell.config(hybrid());
    config.attach = Some(ringtap::steer::Attach::Generic);
    let run = cell.run(config, Traffic::new(STEADY.0, STEADY.1))?;
    Ok(with_interrupts(Outcome::of(&run.wrong(), seen(&run)), &run))
}

/// The kernel asks for the card while it is received from: the engines end by themselves, and the card can be had again.
fn given_back_on_demand(cell: &Cell) -> Result<Outcome> {
    let Card::Own(address) = &cell.card else {
        return Ok(Outcome::absent("the kernel has the card"));
    };
    let write = |file: &str, text: &str| {
        std::fs::write(file, text).map_err(|error| Error::os("write", format!("{text} to {file}"), &error))
    };
    let running = start_engines(Cell::open(cell.config(hybrid()))?, 0, false)?;
    let (ended, outcome) = std::thread::scope(|scope| -> Result<_> {
        // Writing waits until the card is closed.
        let unbound = scope.spawn(|| write("/sys/bus/pci/drivers/vfio-pci/unbind", address));
        let since = Instant::now();
        while !running.is_finished() && since.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended = running.is_finished();
        let outcome = running.finish()?;
        unbound.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((ended, outcome))
    })?;
    write("/sys/bus/pci/drivers_probe", address)?;
    let run = cell.run(cell.config(hybrid()), Traffic::new(2000.0, 2000))?;
    let mut wrong = run.wrong();
    if !ended {
        wrong.push("the engines did not end".to_owned());
    }
    wrong.extend(
        outcome.engines.iter().filter(|engine| engine.end != End::DeviceGone).map(|engine| format!("{:?}", engine.end)),
    );
    Ok(Outcome::of(&wrong, format!("ended as told; taken again: {}", seen(&run))))
}

/// Wake-ups by cyclictest and by the engine, idle and under stress; a ring sized for the worst of them loses nothing (\[1] §2, §5.5, §5.7, §7.3).
fn bounded_jitter(cell: &Cell) -> Result<Outcome> {
    const PPS: f64 = 5000.0;
    /// As the core's planner does: twice what was seen.
    const SAFETY: f64 = 2.0;
    let period = Duration::from_nanos(PERIOD_NS);
    let periods = cell.jitter_seconds * 1_000_000_000 / PERIOD_NS;
    let packets = |pps: f64| (pps * cell.jitter_seconds as f64) as u64;
    let mut outcome = Outcome::passed("");
    let (mut wrong, mut seen, mut worst_us) = (Vec::new(), Vec::new(), 0.0_f64);
    for (name, stressed) in [("idle", false), ("stressed", true)] {
        let _stress = if stressed { Some(Stress::begin()?) } else { None };
        let by_others = jitter::cyclictest(1, period, periods)?;
        let run = cell.run(cell.config(timer()), Traffic::new(STEADY.0, packets(STEADY.0)))?;
        wrong.extend(run.wrong().into_iter().map(|text| format!("{name}: {text}")));
        let late = run.counters.tick_lateness.quantiles_us();
        let polls = run.counters.poll_period.quantiles_us();
        worst_us = worst_us.max(late.max).max(by_others.max as f64);
        seen.push(format!(
            "{name}: cyclictest {}/{}/{} µs, engine {:.0}/{:.0}/{:.0} µs late",
            by_others.p50, by_others.p99, by_others.max, late.p50, late.p99, late.max
        ));
        for (what, value) in [
            ("cyclictest_p50_us", by_others.p50 as f64),
            ("cyclictest_p99_us", by_others.p99 as f64),
            ("cyclictest_max_us", by_others.max as f64),
            ("engine_p50_us", late.p50),
            ("engine_p99_us", late.p99),
            ("engine_max_us", late.max),
            ("poll_period_p50_us", polls.p50),
            ("poll_period_max_us", polls.max),
        ] {
            outcome = outcome.figure(&format!("{name}_{what}"), value.round());
        }
    }
    // [1] §5.5: what can come between two looks at the ring, with nothing left to luck.
    let slots = ((PERIOD_NS as f64 / 1e9 + worst_us / 1e6) * PPS * SAFETY).ceil() as u32;
    let ring_slots = slots.next_power_of_two().max(64);
    let mut config = cell.config(timer());
    config.ring_slots = ring_slots;
    let stress = Stress::begin()?;
    let run = cell.run(config, Traffic::new(PPS, packets(PPS)))?;
    drop(stress);
    wrong.extend(run.wrong().into_iter().map(|text| format!("ring of {ring_slots}: {text}")));
    seen.push(format!("{slots} slots would do at {PPS:.0} packets/s, {ring_slots} lose nothing"));
    let figures = std::mem::take(&mut outcome.figures);
    let mut outcome = Outcome::of(&wrong, seen.join("; "));
    outcome.figures = figures;
    Ok(outcome.figure("ring_slots", ring_slots).figure("worst_us", worst_us.round()))
}

/// What a run that went well is worth saying.
fn seen(run: &Run) -> String {
    format!("{} of {} packets, {}", run.truth.received, run.truth.expected, interrupts(run))
}

fn interrupts(run: &Run) -> String {
    run.interrupts.map_or_else(|| "no interrupts of its own".to_owned(), |count| format!("{count} interrupts"))
}
