//! What ten thousand sensors and a million alarms a second would ask of the job: a simulation in discrete events, whose inputs
//! are measured costs. `cargo run --release -p ringtap-wasm --example scale -- INTAKE_US STEP_US SOURCE_US RESTART_S`
//! prints a table; benchmarks/record/2026-11-25-scale says what the columns are and where the costs come from.
//!
//! A core runs a source, an intake and a part of each level, as one slot does. A sensor sends a batch of alarms with a
//! heartbeat each period. The batch waits for its producer and broker, for the core that reads its partition, for the core
//! that has its sensor; its alarms then go to rules on all cores alike, but for those of a hot key. The watermark is the
//! least promise of all sensors, and counts when the slowest core has done what came before it.

use std::collections::BTreeMap;

const SECONDS: usize = 40;
/// Until then queues fill.
const WARM_UP: usize = 10_000;
/// From here on an outage lasts as long as a restart.
const OUTAGE_AT: usize = 15_000;

#[derive(Clone, Copy)]
struct Costs {
    source_us: f64,
    intake_us: f64,
    /// Of all levels, for an alarm.
    step_us: f64,
    restart_s: f64,
}

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    sensors: usize,
    alarms_per_s: f64,
    partitions: usize,
    cores: usize,
    beat_ms: usize,
    /// Alarms/s of one sensor beside its own.
    flood: f64,
    /// The part of the steps that one key has.
    hot: f64,
    /// How much later than others one sensor's records come, ms.
    slow_ms: f64,
    outage: bool,
}

struct Found {
    mean: f64,
    most: f64,
    delays: Vec<f64>,
    backlog_s: f64,
    recovered_s: Option<f64>,
}

#[derive(Clone, Copy)]
enum Job {
    Read { sensor: usize, alarms: f64, h: f64 },
    Take { sensor: usize, alarms: f64, h: f64 },
    Step { alarms: f64, sensor: usize, h: f64 },
}

struct Simulation {
    case: Case,
    costs: Costs,
    /// Jobs by the millisecond at which they come.
    calendar: BTreeMap<usize, Vec<(f64, Job)>>,
    /// When each core has done all that it has, ms.
    free: Vec<f64>,
    busy: Vec<f64>,
    promised: Vec<f64>,
}

impl Simulation {
    fn at(&mut self, ms: f64, job: Job) {
        self.calendar.entry(ms as usize).or_default().push((ms, job));
    }

    /// Lets a core work; when it is done.
    fn work(&mut self, core: usize, from: f64, us: f64) -> f64 {
        self.free[core] = self.free[core].max(from) + us / 1000.0;
        self.busy[core] += us / 1000.0;
        self.free[core]
    }

    fn carry_out(&mut self, now: f64, job: Job) {
        let (case, costs) = (self.case, self.costs);
        match job {
            Job::Read { sensor, alarms, h } => {
                let core = spread(sensor, 1) % case.partitions % case.cores;
                let done = self.work(core, now, (alarms + 1.0) * costs.source_us);
                self.at(done + 1.0, Job::Take { sensor, alarms, h });
            }
            Job::Take { sensor, alarms, h } => {
                let done = self.work(spread(sensor, 2) % case.cores, now, (alarms + 1.0) * costs.intake_us);
                self.at(done, Job::Step { alarms, sensor, h });
            }
            Job::Step { alarms, sensor, h } => {
                let all = alarms * costs.step_us;
                let each = all * (1.0 - case.hot) / case.cores as f64;
                for core in 0..case.cores {
                    self.work(core, now, each + if core == 0 { all * case.hot } else { 0.0 });
                }
                self.promised[sensor] = self.promised[sensor].max(h);
            }
        }
    }
}

/// A number of a sensor's that has nothing to do with others of it.
fn spread(sensor: usize, salt: u64) -> usize {
    let mut random = fastrand::Rng::with_seed((sensor as u64) << 8 | salt);
    random.usize(..1 << 30)
}

/// Logarithms of rates are as good as normal: few sensors have most of the alarms.
fn rates(case: &Case, random: &mut fastrand::Rng) -> Vec<f64> {
    let mut rates: Vec<f64> =
        (0..case.sensors).map(|_| ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0).exp()).collect();
    let factor = case.alarms_per_s / rates.iter().sum::<f64>();
    rates.iter_mut().for_each(|rate| *rate *= factor);
    rates[0] += case.flood;
    rates
}

fn run(case: Case, costs: Costs) -> Found {
    let mut random = fastrand::Rng::with_seed(26);
    let rates = rates(&case, &mut random);
    let phases: Vec<usize> = (0..case.sensors).map(|_| random.usize(..case.beat_ms)).collect();
    let mut by_phase = vec![Vec::new(); case.beat_ms];
    phases.iter().enumerate().for_each(|(sensor, phase)| by_phase[*phase].push(sensor));
    let mut it = Simulation {
        case,
        costs,
        calendar: BTreeMap::new(),
        free: vec![0.0; case.cores],
        busy: vec![0.0; case.cores],
        promised: vec![0.0; case.sensors],
    };
    let (mut delays, mut recovered_s) = (Vec::new(), None);
    for now in 0..SECONDS * 1000 {
        if case.outage && now == OUTAGE_AT {
            let until = now as f64 + costs.restart_s * 1000.0;
            it.free.iter_mut().for_each(|free| *free = free.max(until));
        }
        for &sensor in &by_phase[now % case.beat_ms] {
            let mean = rates[sensor] * case.beat_ms as f64 / 1000.0;
            let alarms = (mean + (random.f64() - 0.5) * 2.0 * mean.sqrt()).max(0.0).round();
            // Visible after 2 ms, 5 ms of linger, and what the way takes.
            let way = 7.0 - 2.0 * (1.0 - random.f64()).ln() + if sensor == 1 { case.slow_ms } else { 0.0 };
            it.at(now as f64 + way, Job::Read { sensor, alarms, h: now as f64 - 2.0 });
        }
        while let Some(first) = it.calendar.first_entry().filter(|first| *first.key() <= now) {
            for (ms, job) in first.remove() {
                it.carry_out(ms, job);
            }
        }
        if now >= WARM_UP && now % 10 == 0 {
            let least = it.promised.iter().copied().fold(f64::INFINITY, f64::min);
            let behind = it.free.iter().copied().fold(0.0, f64::max).max(now as f64);
            let delay = behind - least;
            delays.push(delay);
            let is_back = case.outage && now > OUTAGE_AT + 1000 && delay < 1000.0;
            recovered_s = recovered_s.or(is_back.then(|| (now - OUTAGE_AT) as f64 / 1000.0));
        }
    }
    let end = SECONDS as f64 * 1000.0;
    let backlog_s = it.free.iter().map(|free| (free - end).max(0.0)).fold(0.0, f64::max) / 1000.0;
    let load: Vec<f64> = it.busy.iter().map(|busy| busy / end).collect();
    delays.sort_unstable_by(f64::total_cmp);
    let mean = load.iter().sum::<f64>() / case.cores as f64;
    Found { mean, most: load.into_iter().fold(0.0, f64::max), delays, backlog_s, recovered_s }
}

fn cases(costs: &Costs) -> Vec<Case> {
    let per_alarm = costs.source_us + costs.intake_us + costs.step_us;
    // Cores at six tenths of the load, a multiple of 8.
    let cores = ((per_alarm + (costs.source_us + costs.intake_us) / 10.0) / 0.6 / 8.0).ceil() as usize * 8;
    let base = Case {
        name: "base",
        sensors: 10_000,
        alarms_per_s: 1e6,
        partitions: 16 * cores,
        cores,
        beat_ms: 100,
        flood: 0.0,
        hot: 0.0,
        slow_ms: 0.0,
        outage: false,
    };
    vec![
        base,
        Case { name: "heartbeats each second", beat_ms: 1000, ..base },
        Case { name: "partitions = 3/2 x cores", partitions: cores * 3 / 2, ..base },
        Case { name: "a quarter more alarms", alarms_per_s: 1.25e6, ..base },
        Case { name: "half as many more alarms", alarms_per_s: 1.5e6, ..base },
        Case { name: "flood: one sensor, 20,000/s", flood: 2e4, ..base },
        Case { name: "flood: one sensor, 50,000/s", flood: 5e4, ..base },
        Case { name: "flood: one sensor, 100,000/s", flood: 1e5, ..base },
        Case { name: "hot key: 1 % of the steps", hot: 0.01, ..base },
        Case { name: "hot key: 3 % of the steps", hot: 0.03, ..base },
        Case { name: "one sensor's records 2 s late", slow_ms: 2000.0, ..base },
        Case { name: "a TaskManager lost", outage: true, ..base },
        Case { name: "the same, a quarter more cores", outage: true, cores: cores * 5 / 4, ..base },
    ]
}

fn main() {
    let mut given = std::env::args().skip(1).map(|it| it.parse::<f64>().expect("costs are numbers"));
    let mut next = |default: f64| given.next().unwrap_or(default);
    let costs = Costs { intake_us: next(4.0), step_us: next(8.0), source_us: next(1.5), restart_s: next(10.0) };
    println!(
        "| case | cores | partitions | load, mean | load, most | delay p50 ms | p99 ms | max ms | backlog s | back after s |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for case in cases(&costs) {
        let Found { mean, most, delays, backlog_s, recovered_s } = run(case, costs);
        let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
        let back = match (case.outage, recovered_s) {
            (false, _) => String::new(),
            (true, Some(seconds)) => format!("{seconds:.1}"),
            (true, None) => "not".into(),
        };
        println!(
            "| {} | {} | {} | {mean:.2} | {most:.2} | {:.0} | {:.0} | {:.0} | {backlog_s:.1} | {back} |",
            case.name,
            case.cores,
            case.partitions,
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}
