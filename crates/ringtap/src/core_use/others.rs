//! How much of a CPU other programs used, to the nanosecond: a BPF program at the kernel's context switches.
//!
//! Owns loading bpf/core_use.bpf.c and reading its sum. Needs BTF (/sys/kernel/btf/vmlinux), CAP_BPF and CAP_PERFMON. Without
//! them nobody knows: /proc has a task's time, but not on which CPU, and nothing of those that have ended.

use aya::maps::{Array, MapData};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};

use crate::sys::clock;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/core_use.bpf.o"));

const PID_NAMESPACE: &str = "/proc/self/ns/pid";
/// PROC_PID_INIT_INO of linux/proc_ns.h.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Counts what runs on one CPU and is neither the kernel's, nor this process, nor its descendant, until it is dropped.
pub struct Others {
    turn: Array<MapData, [u64; 2]>,
    started: (u64, u64),
    /// Holds program and attachment.
    _bpf: Ebpf,
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Others").field("started", &self.started).finish_non_exhaustive()
    }
}

impl Others {
    /// Starts counting on `cpu`; `None` where the kernel or the missing privilege does not allow it.
    pub fn start(cpu: usize) -> Option<Self> {
        // The kernel's number of this process is known in the first PID namespace only.
        if std::fs::read_link(PID_NAMESPACE).ok()?.to_str()? != FIRST_PID_NAMESPACE {
            return None;
        }
        let (cpu, own) = (u32::try_from(cpu).ok()?, i32::try_from(std::process::id()).ok()?);
        let btf = Btf::from_sys_fs().ok()?;
        let mut bpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("measured_cpu", &cpu, true)
            .override_global("own_tgid", &own, true)
            .load(OBJECT)
            .ok()?;
        let program: &mut BtfTracePoint = bpf.program_mut("core_use")?.try_into().ok()?;
        program.load("sched_switch", &btf).ok()?;
        program.attach().ok()?;
        let turn = Array::try_from(bpf.take_map("TURN")?).ok()?;
        let mut this = Self { turn, started: (0, 0), _bpf: bpf };
        this.mark()?;
        Some(this)
    }

    /// Begins a new interval.
    pub fn mark(&mut self) -> Option<()> {
        self.started = (self.nanoseconds()?, clock::monotonic_ns());
        Some(())
    }

    /// Share of the CPU (0–1) that other programs had since the last [`Others::mark`].
    pub fn share(&self) -> Option<f64> {
        let (used_ns, since_ns) = self.started;
        let wall_ns = clock::monotonic_ns().saturating_sub(since_ns).max(1);
        Some((self.nanoseconds()?.saturating_sub(used_ns) as f64 / wall_ns as f64).min(1.0))
    }

    /// Up to the last context switch: a program that has the CPU for long is seen at the end of its turn.
    fn nanoseconds(&self) -> Option<u64> {
        self.turn.get(&0, 0).ok().map(|[_, others_ns]| others_ns)
    }
}
