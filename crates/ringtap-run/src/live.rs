//! What a program asks of a receiver on an interface, and the configuration that follows from it.
//!
//! Owns the order in which values win: told, then this host's calibration, then the core's default. It opens nothing; the program
//! adds what is its own (rules, a filter of its own, transmit slots) to the configuration and opens the receiver with it.

use std::path::PathBuf;
use std::time::Duration;

use ringtap::calibrate::{Calibration, Plan, Wishes};
use ringtap::interface::Interface;
use ringtap::napi::NapiPause;
use ringtap::pacer::Policy;
use ringtap::realtime::RealTime;
use ringtap::receiver::{Backend, Queues, ReceiverConfig};
use ringtap::sched;
use ringtap::steer::Attach;
use ringtap::{Error, Result};

use crate::dpdk::DpdkOptions;
use crate::filter::Filter;
use crate::notes;
use crate::waiting::Waiting;

/// Bytes of a packet ring's frame in front of the packet, and more.
const FRAME_HEAD: usize = 128;
/// Bytes of a packet ring's frame where nothing else was told.
const FRAME_BYTES: u32 = 2048;
/// Bounds that can be asked for, nanoseconds.
const BOUNDS_NS: std::ops::RangeInclusive<u128> = 10_000..=1_000_000_000;

/// What a program asks of its receiver. What is `None` comes from this host's calibration or from the interface.
#[derive(Debug, Clone)]
pub struct Live {
    /// Name of the interface, of libpcap's device, of DPDK's port, or PCI address of a card.
    pub interface: String,
    /// How packets are taken.
    pub backend: Backend,
    /// File of the libpcap that [`Backend::Pcap`] takes.
    pub pcap_library: Option<PathBuf>,
    /// For [`Backend::Dpdk`] alone.
    pub dpdk: DpdkOptions,
    /// Packets may be taken away from the host's own stack.
    pub take: bool,
    /// How to attach XDP.
    pub attach: Option<Attach>,
    /// Receive queues.
    pub queues: Queues,
    /// Slots of each ring.
    pub ring_slots: Option<u64>,
    /// Bytes per frame.
    pub frame_bytes: Option<u64>,
    /// Frames in huge pages.
    pub huge_pages: bool,
    /// Leave out what the host sends; `None`: only on loopback, where it comes twice.
    pub incoming_only: Option<bool>,
    /// Take frames that are addressed to others.
    pub promiscuous: bool,
    /// Bytes that are kept of each packet.
    pub kept_bytes: usize,
    /// The handlers need both directions of a flow in one of them.
    pub flows_together: bool,
    /// Threads at least that handle the interface's packets, by flow where there are fewer queues.
    pub handlers: usize,
    /// CPUs of the engine threads, in order of queues; empty: the last allowed ones.
    pub cpus: Vec<usize>,
    /// SCHED_FIFO priority of the engine threads; 0: ordinary threads.
    pub priority: u8,
    /// Longest time from a packet's arrival to its handling.
    pub max_latency: Duration,
    /// Greatest packet rate to be ready for, packets per second.
    pub peak_pps: f64,
    /// How to wait.
    pub waiting: Waiting,
    /// Pause between two polls of the kernel's NAPI, nanoseconds; 0 for none.
    pub napi_pause_ns: Option<u64>,
}

/// What follows from [`Live`] on this host.
#[derive(Debug)]
pub struct Configured {
    /// For the receiver.
    pub config: ReceiverConfig,
    /// Where numbers came from; `None` where all were told.
    pub plan: Option<Plan>,
}

impl Live {
    /// Everything on `interface`, within 1 ms at up to 1.5 million packets per second, by forecast.
    pub fn new(interface: impl Into<String>) -> Self {
        let wishes = Wishes::default();
        Self {
            interface: interface.into(),
            backend: Backend::Auto,
            pcap_library: None,
            dpdk: DpdkOptions::default(),
            take: false,
            attach: None,
            queues: Queues::All,
            ring_slots: None,
            frame_bytes: None,
            huge_pages: false,
            incoming_only: None,
            promiscuous: true,
            kept_bytes: usize::MAX,
            flows_together: false,
            handlers: 1,
            cpus: Vec::new(),
            priority: RealTime::default().priority,
            max_latency: wishes.max_latency,
            peak_pps: wishes.peak_pps,
            waiting: Waiting::default(),
            napi_pause_ns: None,
        }
    }

    /// Refuses what makes no sense together, before anything is opened.
    ///
    /// # Errors
    /// Wrong usage, with the options of the command line.
    pub fn check(&self) -> Result<()> {
        let refuse =
            |option: &str, cause: &str, way_out: &str| Err(Error::usage("use", option, cause).way_out(way_out));
        if !BOUNDS_NS.contains(&self.max_latency.as_nanos()) {
            return Err(Error::usage("use", format!("--max-latency {:?}", self.max_latency), "it is out of range")
                .way_out("give 10us to 1s"));
        }
        self.waiting.check()?;
        if let Some(period) = self.waiting.longest_told().filter(|&period| period > self.max_latency) {
            let bound = self.max_latency;
            notes::warn(&format!(
                "a period of {period:?} keeps no --max-latency of {bound:?}: packets may wait a whole period"
            ));
        }
        if self.attach.is_some() && !matches!(self.backend, Backend::Auto | Backend::Xdp) {
            return refuse("--xdp", "this --backend does not use XDP", "leave it out, or use --backend xdp");
        }
        if self.take && !matches!(self.backend, Backend::Auto | Backend::Xdp) {
            return refuse(
                "--take",
                "this --backend takes nothing from the host",
                "leave it out, or use --backend auto",
            );
        }
        if self.napi_pause_ns.is_some_and(|ns| ns > 0) && !matches!(self.backend, Backend::Auto | Backend::Xdp) {
            return refuse("--napi-pacing", "only AF_XDP paces NAPI", "leave it out, or use --backend xdp");
        }
        if self.incoming_only == Some(false) && matches!(self.backend, Backend::Xdp | Backend::Vfio | Backend::Dpdk) {
            let cause = "this --backend sees incoming packets only";
            return refuse("--direction inout", cause, "leave it out, or use --backend packet");
        }
        if self.pcap_library.is_some() && self.backend != Backend::Pcap {
            return refuse(
                "--pcap-library",
                "only --backend pcap takes packets through a libpcap",
                "add --backend pcap",
            );
        }
        if self.backend != Backend::Dpdk {
            let DpdkOptions { library, arguments } = &self.dpdk;
            let told = [("--dpdk-library", library.is_some()), ("--dpdk-args", arguments.is_some())];
            if let Some((option, _)) = told.into_iter().find(|&(_, is_told)| is_told) {
                return refuse(option, "only --backend dpdk takes packets through DPDK", "add --backend dpdk");
            }
        }
        if self.huge_pages && !matches!(self.backend, Backend::Auto | Backend::Xdp | Backend::Vfio | Backend::Dpdk) {
            return refuse(
                "--huge-pages",
                "only AF_XDP, vfio and DPDK keep frames in them",
                "leave it out, or use --backend xdp",
            );
        }
        Ok(())
    }

    /// The interface, which has to be up; a libpcap's device and a card need not be interfaces of this host's.
    ///
    /// # Errors
    /// There is none of this name, or it is down.
    pub fn find_interface(&self) -> Result<Interface> {
        self.backend.find(&self.interface)
    }

    /// CPUs of the engines: as told, else the last allowed ones, as the first ones serve most interrupts.
    pub fn engine_cpus(&self) -> Vec<usize> {
        if self.cpus.is_empty() { sched::allowed_cpus().into_iter().rev().collect() } else { self.cpus.clone() }
    }

    /// Everything the receiver is told. Measures this host first when a number has to come from its calibration and there is none;
    /// that is said on standard error.
    ///
    /// # Errors
    /// The CPU is not ours, the bound leaves no room for the timer asked for, or nothing could be measured.
    pub fn configure(&self, interface: &Interface, filter: Option<&Filter>) -> Result<Configured> {
        let is_complete = self.ring_slots.is_some() && self.waiting.is_complete();
        let plan = if is_complete { None } else { Some(self.plan()?) };
        let config = self.configure_by(plan.as_ref(), interface, filter)?;
        Ok(Configured { config, plan })
    }

    fn plan(&self) -> Result<Plan> {
        let (cpu, allowed) = (self.engine_cpus().first().copied().unwrap_or(0), sched::allowed_cpus());
        if !allowed.contains(&cpu) {
            return Err(Error::usage("use", format!("--cpu {cpu}"), "this process may not use that CPU")
                .way_out(format!("choose among {}", sched::listed(&allowed))));
        }
        let calibration = Calibration::load_or_measure(cpu, &mut |text| notes::say(text))?;
        // Only AF_XDP paces NAPI.
        let paces = matches!(self.backend, Backend::Auto | Backend::Xdp);
        let napi_pace_ns = if paces { self.napi_pause_ns } else { Some(0) };
        calibration.plan(&Wishes { max_latency: self.max_latency, peak_pps: self.peak_pps, napi_pace_ns })
    }

    /// The sums, with `plan` where a number is not told.
    fn configure_by(
        &self,
        plan: Option<&Plan>,
        interface: &Interface,
        filter: Option<&Filter>,
    ) -> Result<ReceiverConfig> {
        let policy = self.waiting.policy(plan, self.max_latency)?;
        let mut config = match plan {
            Some(plan) => plan.receiver(&interface.name),
            None => ReceiverConfig::new(&interface.name, Policy::Interrupt),
        };
        config.policy = policy;
        config.backend = self.backend;
        config.pcap_library.clone_from(&self.pcap_library);
        config.dpdk_library = self.dpdk.library();
        config.dpdk_args = self.dpdk.arguments.clone().unwrap_or_default();
        config.take = self.take;
        let rule = filter.and_then(Filter::rule);
        // Without a rule AF_XDP takes everything, which is not what the filter asks to take from the host.
        config.rules_are_exact = filter.is_none() || rule.is_some();
        config.rules = rule.into_iter().collect();
        config.filter = filter.map(Filter::in_kernel);
        config.attach = self.attach;
        config.queues = self.queues.clone();
        let slots = self.ring_slots.unwrap_or(config.ring_slots.into());
        let slots = if self.ring_slots.is_none() { slots.min(self.backend.most_slots().into()) } else { slots };
        config.ring_slots = slots.try_into().unwrap_or(u32::MAX);
        config.packed_slots = config.packed_slots.filter(|_| self.ring_slots.is_none());
        config.frame_size = self.frame_bytes.map(|bytes| bytes.try_into().unwrap_or(u32::MAX));
        // What is longer than a frame is cut by the snaplen in any case, unless the filter is to look behind it.
        config.fetch_oversize = filter.is_some()
            || self.kept_bytes.saturating_add(FRAME_HEAD) > config.frame_size.unwrap_or(FRAME_BYTES) as usize;
        config.tell = notes::say;
        config.huge_pages = self.huge_pages;
        config.incoming_only = self.incoming_only.unwrap_or_else(|| interface.is_loopback());
        config.promiscuous = self.promiscuous;
        config.flows_together = self.flows_together;
        config.handlers = self.handlers;
        config.realtime.priority = self.priority;
        config.cpus.clone_from(&self.cpus);
        if let Some(ns) = self.napi_pause_ns {
            config.napi_pause = NapiPause::anywhere(ns);
        } else if !self.waiting.is_planned() {
            config.napi_pause.instead_of_timer_ns = 0;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::{How, Threshold};

    /// All numbers told, so that no host has to be measured.
    fn told() -> Live {
        let thresholds = vec![Threshold { pps: 8e3, period: None }];
        let waiting = Waiting { period: Some(Duration::from_micros(500)), thresholds, ..Waiting::default() };
        Live { ring_slots: Some(1024), waiting, ..Live::new("eth1") }
    }

    fn configured(live: &Live, filter: Option<&Filter>) -> ReceiverConfig {
        live.configure(&Interface::foreign("eth1"), filter).unwrap().config
    }

    #[test]
    fn what_is_told_is_taken() {
        let live = Live { cpus: vec![1], priority: 7, huge_pages: true, napi_pause_ns: Some(70_000), ..told() };
        let config = configured(&live, None);
        assert_eq!((config.interface.as_str(), config.ring_slots, config.packed_slots), ("eth1", 1024, None));
        assert_eq!((config.cpus, config.realtime.priority, config.huge_pages), (vec![1], 7, true));
        assert_eq!(config.napi_pause, NapiPause::anywhere(70_000));
        assert!(matches!(config.policy, Policy::Hybrid(_)));
        assert!(config.rules_are_exact && config.rules.is_empty() && config.filter.is_none() && config.fetch_oversize);
    }

    #[test]
    fn a_filter_steers_where_it_can_and_longer_frames_are_fetched_for_it() {
        let short = Live { kept_bytes: 96, ..told() };
        assert!(!configured(&short, None).fetch_oversize, "cut in any case");
        let decided = configured(&short, Some(&Filter::compile("udp dst port 162", 1).unwrap()));
        assert!(decided.rules_are_exact && decided.rules.len() == 1 && decided.fetch_oversize);
        let undecided = configured(&short, Some(&Filter::compile("udp or arp", 1).unwrap()));
        assert!(!undecided.rules_are_exact && undecided.rules.is_empty() && undecided.filter.is_some());
    }

    #[test]
    fn a_plan_fills_in_what_is_left_out() {
        let plan: Plan = plan();
        let open = Live::new("eth1");
        let of = |live: &Live| live.configure_by(Some(&plan), &Interface::foreign("eth1"), None).unwrap();
        let config = of(&open);
        assert_eq!((config.ring_slots, config.packed_slots), (plan.ring_slots, Some(plan.packed_slots)));
        assert_eq!((config.policy, config.napi_pause), (plan.policy(), plan.napi_pause));
        let timed = Live { waiting: Waiting { how: How::Timer, ..Waiting::default() }, ..open.clone() };
        assert_eq!(of(&timed).policy, Policy::Timer { period_ns: plan.period_ns });
        assert_eq!(of(&timed).napi_pause.instead_of_timer_ns, 0, "the timer was asked for");
        assert_eq!(of(&told()).packed_slots, None);
        let card = Live { backend: Backend::Vfio, ..open };
        assert_eq!(of(&card).ring_slots, 1 << 15);
    }

    /// A plan as for a low peak rate, where NAPI's pause may take the timer's place.
    fn plan() -> Plan {
        Plan {
            verdict: ringtap::calibrate::Verdict::Kept,
            max_latency_ns: 1_000_000,
            peak_pps: 150e3,
            jitter_p99_ns: 30_000,
            period_ns: 600_000,
            napi_pause: NapiPause {
                apart_ns: 333_333,
                shared_ns: 333_333,
                instead_of_timer_ns: 666_667,
                while_thick: false,
            },
            threshold_pps: 8640.0,
            ring_slots: 65_536,
            packed_slots: 65_536,
            timer_share: 0.03,
            peak_share: 0.1,
            no_loss_bound_pps: 38e6,
            sums: Vec::new(),
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = [
            Live { max_latency: Duration::from_nanos(1), ..told() },
            Live { max_latency: Duration::from_secs(2), ..told() },
            Live { attach: Some(Attach::Native), backend: Backend::Packet, ..told() },
            Live { pcap_library: Some("lib".into()), ..told() },
            Live { dpdk: DpdkOptions { library: Some("lib".into()), arguments: None }, ..told() },
            Live {
                dpdk: DpdkOptions { library: None, arguments: Some("-l 1".into()) },
                backend: Backend::Vfio,
                ..told()
            },
            Live { incoming_only: Some(false), backend: Backend::Dpdk, ..told() },
            Live { huge_pages: true, backend: Backend::Packet, ..told() },
            Live { take: true, backend: Backend::Packet, ..told() },
            Live { napi_pause_ns: Some(50_000), backend: Backend::Packet, ..told() },
            Live { incoming_only: Some(false), backend: Backend::Xdp, ..told() },
        ];
        for live in refused {
            assert!(live.check().is_err(), "{live:?}");
        }
        assert!(told().check().is_ok());
    }
}
