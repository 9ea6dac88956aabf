//! From options to the configurations of receiver, policy and recording.
//!
//! Owns which options make sense together, and the order in which values win: a flag, then this host's calibration.

use std::time::Duration;

use ringtap::calibrate::{Calibration, Plan, Wishes};
use ringtap::interface::Interface;
use ringtap::ledger::{Cause, Ledger};
use ringtap::napi::NapiPause;
use ringtap::pacer::{Hybrid, Policy, Rung, Windowed};
use ringtap::receiver::{self, Queues, ReceiverConfig};
use ringtap::record::{DEFAULT_LEVEL, Format, LEVELS, LONGEST_READABLE, RecordConfig, Rotation, Target};
use ringtap::source::file::Pace;
use ringtap::source::vfio;
use ringtap::steer::Attach;
use ringtap::sys::sched;
use ringtap::{Error, Result};

use super::user::Successor;
use super::{Args, Backend, Direction, Wait, Xdp};
use crate::filter::Filter;
use crate::sandbox::Needs;
use crate::units;

/// Bytes of a packet ring's frame in front of the packet, and more.
const FRAME_HEAD: usize = 128;

/// A rung of the ladder; the period may come from --period or the calibration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Threshold {
    pps: f64,
    period: Option<Duration>,
}

/// Reads `8.3k` or `8.3k:122us`.
pub(super) fn threshold(text: &str) -> Result<Threshold, String> {
    let (rate, period) = match text.split_once(':') {
        Some((rate, period)) => (rate, Some(units::duration(period)?)),
        None => (text, None),
    };
    Ok(Threshold { pps: units::rate(rate)?, period })
}

/// Reads `fast`, `recorded` or a multiple such as `2x`.
pub(super) fn pace(text: &str) -> Result<Pace, String> {
    match text {
        "fast" => Ok(Pace::AsFast),
        "recorded" => Ok(Pace::Recorded),
        _ => match text.strip_suffix('x').and_then(|number| number.parse::<f64>().ok()) {
            Some(factor) if factor.is_finite() && factor > 0.0 => Ok(Pace::Multiplied(factor)),
            _ => Err(format!("{text:?} is no pace; give fast, recorded, or a multiple above 0 such as 2x or 0.5x")),
        },
    }
}

/// `zstd` or `zstd:LEVEL`: the level.
pub(super) fn compression(text: &str) -> Result<i32, String> {
    let level = match text.strip_prefix("zstd") {
        Some("") => Some(DEFAULT_LEVEL),
        Some(level) => level.strip_prefix(':').and_then(|level| level.parse().ok()),
        None => None,
    };
    level
        .filter(|level| LEVELS.contains(level))
        .ok_or_else(|| format!("{text:?} is no compression; give zstd, or zstd:1 to zstd:19"))
}

/// Pause between the kernel's NAPI polls in nanoseconds, 0 for none; `None` leaves the choice to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Napi(Option<u64>);

/// Reads `auto`, `off` or a time.
pub(super) fn napi(text: &str) -> Result<Napi, String> {
    Ok(Napi(match text {
        "auto" => None,
        "off" => Some(0),
        _ => Some(units::duration(text)?.as_nanos() as u64),
    }))
}

/// Queues as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueChoice(pub(crate) Queues);

/// Reads `all`, a number of queues, or a list of them.
pub(crate) fn queues(text: &str) -> Result<QueueChoice, String> {
    let is_list = text.contains([',', '-']);
    Ok(QueueChoice(match text {
        "all" => Queues::All,
        "0" => return Err("no queue would be read; give all, a number of queues, or a list: 0-0 is queue 0".to_owned()),
        _ if is_list => {
            Queues::Only(units::list(text)?.iter().map(|&queue| queue.try_into().unwrap_or(u32::MAX)).collect())
        }
        _ => Queues::Count(
            text.parse().map_err(|_| format!("{text:?} is no number of queues; give all, a number, or a list"))?,
        ),
    }))
}

impl Args {
    /// Refuses options that make no sense together, before anything is opened.
    pub(super) fn check(&self) -> Result<()> {
        let refuse =
            |option: &str, cause: &str, way_out: &str| Err(Error::usage("use", option, cause).way_out(way_out));
        let to_stdout = self.write.as_ref().is_some_and(|path| path.as_os_str() == "-");
        if to_stdout && self.json {
            return refuse("--json with -w -", "both write to standard output", "record into a file");
        }
        if self.comment.is_some() && self.format() == Some(Format::Pcap) {
            return refuse("--comment", "pcap files hold no comment", "write pcapng");
        }
        if !(10_000..=1_000_000_000).contains(&self.max_latency.as_nanos()) {
            return refuse("--max-latency", "out of range", "give 10us to 1s");
        }
        let tunes_timer = self.period.is_some() || !self.threshold.is_empty();
        let tunes_forecast = self.alpha1.is_some() || self.alpha2.is_some() || self.n1.is_some() || self.n2.is_some();
        let leave = "leave it out, or use --wait hybrid";
        match self.wait {
            Wait::Interrupt | Wait::Busy if tunes_timer => {
                return refuse("--period or --threshold", "this --wait has no timer", leave);
            }
            Wait::Timer if !self.threshold.is_empty() => {
                return refuse("--threshold", "--wait timer has none", leave);
            }
            Wait::Windowed if self.threshold.len() > 1 || self.threshold.iter().any(|rung| rung.period.is_some()) => {
                return refuse("--threshold", "--wait windowed has one threshold, without a period of its own", leave);
            }
            Wait::Hybrid => {}
            _ if tunes_forecast => return refuse("--alpha1, --alpha2, --n1 or --n2", "they tune --wait hybrid", leave),
            _ => {}
        }
        if !self.read.is_empty() && (self.take || self.xdp.is_some() || self.backend != Backend::Auto) {
            return refuse("--backend, --xdp or --take", "a file is replayed", "leave them out, or capture with -i");
        }
        if self.read.is_empty() && self.pace != Pace::AsFast {
            return refuse("--pace", "an interface has its own pace", "leave it out, or replay a file with --read");
        }
        if self.xdp.is_some() && !matches!(self.backend, Backend::Auto | Backend::Xdp) {
            return refuse("--xdp", "this --backend does not use XDP", "leave it out, or use --backend xdp");
        }
        if self.pcap_library.is_some() && self.backend != Backend::Pcap {
            return refuse(
                "--pcap-library",
                "only --backend pcap takes packets through a libpcap",
                "add --backend pcap",
            );
        }
        let has_frames = self.read.is_empty() && matches!(self.backend, Backend::Auto | Backend::Xdp | Backend::Vfio);
        if self.huge_pages && !has_frames {
            return refuse(
                "--huge-pages",
                "only AF_XDP and vfio keep frames in them",
                "leave it out, or use --backend xdp",
            );
        }
        if self.snaplen.is_some_and(|snaplen| snaplen > u32::MAX.into()) {
            return refuse("--snaplen", "no packet is that long", "leave it out to keep whole packets");
        }
        Ok(())
    }

    /// With `--fail-on-loss`: what was wanted and lost, as an error. What came after --count was not wanted.
    pub(super) fn loss(&self, ledger: &Ledger, object: &str) -> Option<Error> {
        let at_limit = ledger.drops.get(&Cause::LeftAtLimit).copied().flatten().unwrap_or(0);
        let (lost, unaccounted) = (ledger.lost() - at_limit, ledger.unaccounted().unwrap_or(0));
        let is_failure = self.fail_on_loss && (lost > 0 || unaccounted != 0);
        let cause = format!("{lost} packets are lost and {unaccounted} unaccounted for");
        is_failure
            .then(|| Error::failed("capture all of", object, cause).way_out("the summary tells causes and advice"))
    }

    /// The filter's text, if there is one.
    fn filter_text(&self) -> Option<String> {
        let text = self.filter.clone().unwrap_or_else(|| self.words.join(" "));
        (!text.trim().is_empty()).then_some(text)
    }

    /// The filter, compiled for packets of this link type.
    pub(super) fn compile_filter(&self, link_type: u16) -> Result<Option<Filter>> {
        self.filter_text().map(|text| Filter::compile(&text, link_type)).transpose()
    }

    /// Bytes to keep of each packet.
    pub(super) fn kept_bytes(&self) -> usize {
        let most = if self.write.is_some() { LONGEST_READABLE } else { usize::MAX };
        self.snaplen.map_or(most, |snaplen| most.min(snaplen as usize))
    }

    /// File format, where something is recorded.
    fn format(&self) -> Option<Format> {
        let path = self.write.as_ref()?;
        Some(if self.pcap { Format::Pcap } else { RecordConfig::new(path).format })
    }

    /// What to record into, if anything.
    pub(super) fn record_config(&self, spools: usize) -> Option<RecordConfig> {
        let mut config = RecordConfig::new(self.write.as_ref()?);
        config.format = self.format().unwrap_or_default();
        config.rotation = Rotation {
            size: self.rotate_size,
            time: self.rotate_time,
            keep: self.rotate_keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX)),
        };
        config.compress = self.compress.or(config.compress);
        config.min_free = self.min_free;
        config.spools = spools;
        config.spool_bytes = usize::try_from(self.spool).unwrap_or(usize::MAX);
        config.comment.clone_from(&self.comment);
        Some(config)
    }

    /// Whether packets go to standard output, so that nothing else may.
    pub(super) fn records_to_stdout(&self) -> bool {
        self.record_config(1).is_some_and(|config| config.target == Target::Stdout)
    }

    /// What is still done once all is set up.
    pub(super) fn needs<'a>(&'a self, rings: bool, user: Option<&'a Successor>) -> Needs<'a> {
        let writes = self.write.iter().filter(|_| !self.records_to_stdout()).map(AsRef::as_ref).collect();
        let reads = self.read.iter().map(AsRef::as_ref).collect();
        Needs { rings, names: false, reads, writes, user }
    }

    /// CPUs of the engines: as told, else the last allowed ones, as the first ones serve most interrupts.
    pub(super) fn engine_cpus(&self) -> Vec<usize> {
        match &self.cpu {
            Some(list) => list.to_vec(),
            None => sched::allowed_cpus().into_iter().rev().collect(),
        }
    }

    /// Everything the receiver is told. Measures this host first when a number has to come from its calibration.
    pub(super) fn receiver_config(
        &self,
        interface: &Interface,
        filter: Option<&Filter>,
        warnings: &mut Vec<String>,
    ) -> Result<ReceiverConfig> {
        let plan = if self.wants_plan() { Some(self.plan(warnings)?) } else { None };
        let mut config = ReceiverConfig::new(&interface.name, self.policy(plan.as_ref())?);
        config.backend = match self.backend {
            Backend::Auto => receiver::Backend::Auto,
            Backend::Xdp => receiver::Backend::Xdp,
            Backend::Packet => receiver::Backend::Packet,
            Backend::Socket => receiver::Backend::Socket,
            Backend::Pcap => receiver::Backend::Pcap,
            Backend::Vfio => receiver::Backend::Vfio,
        };
        config.pcap_library.clone_from(&self.pcap_library);
        config.take = self.take;
        let rule = filter.and_then(Filter::rule);
        // Without a rule AF_XDP takes everything, which is not what the filter asks to take from the host.
        config.rules_are_exact = filter.is_none() || rule.is_some();
        config.rules = rule.into_iter().collect();
        if self.take && self.backend == Backend::Auto && interface.host_use.is_some() && !config.rules_are_exact {
            warnings.push(format!(
                "this filter can't be decided in the driver, so nothing is taken from the host: packets of {} are copied (see --take)",
                interface.name
            ));
        }
        config.filter = filter.map(Filter::in_kernel);
        config.attach = self.xdp.map(|mode| match mode {
            Xdp::Native => Attach::Native,
            Xdp::Generic => Attach::Generic,
        });
        config.queues = self.queues.0.clone();
        let slots = self.ring.or(plan.as_ref().map(|plan| plan.ring_slots.into())).unwrap_or(config.ring_slots.into());
        // What a plan proposes for any card may be more than this one takes; what was asked for is refused there.
        let most =
            if self.backend == Backend::Vfio && self.ring.is_none() { vfio::MOST_SLOTS.into() } else { u64::MAX };
        config.ring_slots = slots.min(most).try_into().unwrap_or(u32::MAX);
        config.packed_slots = plan.as_ref().filter(|_| self.ring.is_none()).map(|plan| plan.packed_slots);
        config.frame_size = self.frame_size.map(|size| size.try_into().unwrap_or(u32::MAX));
        // What is longer than a frame is cut by the snaplen in any case, unless the filter is to look behind it.
        config.fetch_oversize = filter.is_some()
            || self.kept_bytes().saturating_add(FRAME_HEAD) > config.frame_size.unwrap_or(2048) as usize;
        config.tell = |line| eprintln!("ringtap: {line}");
        config.huge_pages = self.huge_pages;
        config.incoming_only = match self.direction {
            Some(direction) => direction == Direction::In,
            None => interface.is_loopback(),
        };
        config.promiscuous = !self.no_promiscuous;
        config.realtime.priority = self.priority;
        config.cpus = self.engine_cpus();
        config.napi_pause = match self.napi_pacing.0 {
            Some(ns) => NapiPause::anywhere(ns),
            None => {
                let pause = plan.map(|plan| plan.napi_pause).unwrap_or_default();
                let has_planned_timer = self.wait == Wait::Hybrid && self.threshold.is_empty() && self.period.is_none();
                NapiPause {
                    instead_of_timer_ns: if has_planned_timer { pause.instead_of_timer_ns } else { 0 },
                    ..pause
                }
            }
        };
        Ok(config)
    }

    /// Whether a number is missing that calibration gives.
    fn wants_plan(&self) -> bool {
        let has_periods =
            self.period.is_some() || (!self.threshold.is_empty() && self.threshold.iter().all(|t| t.period.is_some()));
        let is_complete = match self.wait {
            Wait::Interrupt | Wait::Busy => true,
            Wait::Timer => self.period.is_some(),
            Wait::Hybrid | Wait::Windowed => has_periods && !self.threshold.is_empty(),
        };
        self.ring.is_none() || !is_complete
    }

    fn plan(&self, warnings: &mut Vec<String>) -> Result<Plan> {
        let cpu = self.engine_cpus().first().copied().unwrap_or(0);
        if !sched::allowed_cpus().contains(&cpu) {
            return Err(Error::usage("use", format!("--cpu {cpu}"), "this process may not use that CPU")
                .way_out(format!("choose among {:?}", sched::allowed_cpus())));
        }
        let calibration = Calibration::load_or_measure(cpu, &mut |text| eprintln!("ringtap: {text}"))?;
        // Only AF_XDP paces NAPI.
        let napi_pace_ns =
            if matches!(self.backend, Backend::Auto | Backend::Xdp) { self.napi_pacing.0 } else { Some(0) };
        let wishes = Wishes { max_latency: self.max_latency, peak_pps: self.peak_rate, napi_pace_ns };
        let plan = calibration.plan(&wishes)?;
        if plan.peak_share > 1.0 {
            warnings.push(format!(
                "at {} one core is not enough: losses begin at about {}",
                units::shown_rate(self.peak_rate),
                units::shown_rate(plan.no_loss_bound_pps)
            ));
        }
        Ok(plan)
    }

    /// How to wait; a missing number comes from `plan`.
    fn policy(&self, plan: Option<&Plan>) -> Result<Policy> {
        let planned_ns = plan.map_or(0, |plan| plan.period_ns);
        let period_ns = self.period.map_or(planned_ns, |period| period.as_nanos() as u64);
        let planned_pps = plan.map_or(f64::INFINITY, |plan| plan.threshold_pps);
        let needs_period = || {
            Error::usage(
                "use",
                format!("--max-latency {:?}", self.max_latency),
                "it leaves no room for a timer on this host",
            )
            .way_out("raise it, give --period, or use --wait interrupt")
        };
        Ok(match self.wait {
            Wait::Interrupt => Policy::Interrupt,
            Wait::Busy => Policy::Busy,
            Wait::Timer if period_ns == 0 => return Err(needs_period()),
            Wait::Timer => Policy::Timer { period_ns },
            // Where calibration finds that the timer never pays, interrupts alone are what both schemes come to.
            Wait::Windowed => {
                let cliff_pps = self.threshold.first().map_or(planned_pps, |rung| rung.pps);
                match (cliff_pps.is_finite(), period_ns) {
                    (false, _) => Policy::Interrupt,
                    (true, 0) => return Err(needs_period()),
                    (true, _) => Policy::Windowed(Windowed::new(cliff_pps, period_ns)),
                }
            }
            Wait::Hybrid if self.threshold.is_empty() && (planned_pps.is_infinite() || period_ns == 0) => {
                Policy::Interrupt
            }
            Wait::Hybrid if self.threshold.is_empty() => {
                self.hybrid(vec![Rung { threshold_pps: planned_pps, period_ns }])
            }
            Wait::Hybrid => {
                let rung = |t: &Threshold| Rung {
                    threshold_pps: t.pps,
                    period_ns: t.period.map_or(period_ns, |period| period.as_nanos() as u64),
                };
                let rungs: Vec<Rung> = self.threshold.iter().map(rung).collect();
                if rungs.iter().any(|rung| rung.period_ns == 0) {
                    return Err(needs_period());
                }
                self.hybrid(rungs)
            }
        })
    }

    fn hybrid(&self, rungs: Vec<Rung>) -> Policy {
        let mut hybrid = Hybrid::with_rungs(rungs);
        hybrid.alpha1 = self.alpha1.unwrap_or(hybrid.alpha1);
        hybrid.alpha2 = self.alpha2.unwrap_or(hybrid.alpha2);
        hybrid.n1 = self.n1.unwrap_or(hybrid.n1);
        hybrid.n2 = self.n2.unwrap_or(hybrid.n2);
        Policy::Hybrid(hybrid)
    }
}
