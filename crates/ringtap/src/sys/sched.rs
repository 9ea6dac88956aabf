//! Scheduling of a thread: policy, priority, affinity, locked memory, timer slack (sched(7), mlockall(2), prctl(2)).

use std::io;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts thread `tid` (0: the caller) under SCHED_FIFO with `priority` (1–99). Threads that it starts inherit that.
///
/// # Errors
/// EPERM without CAP_SYS_NICE or above RLIMIT_RTPRIO, ESRCH when there is no such thread, EINVAL for a bad priority.
pub fn set_fifo(tid: i32, priority: u8) -> io::Result<()> {
    set_scheduler(tid, libc::SCHED_FIFO, priority)
}

/// Makes thread `tid` (0: the caller) an ordinary one again.
///
/// # Errors
/// ESRCH when there is no such thread.
pub fn set_other(tid: i32) -> io::Result<()> {
    set_scheduler(tid, libc::SCHED_OTHER, 0)
}

/// Whether the calling thread is under SCHED_FIFO.
pub fn is_fifo() -> bool {
    // Miri has no schedulers.
    if cfg!(miri) {
        return false;
    }
    // SAFETY: plain system call.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_FIFO }
}

/// Puts thread `tid` (0: the caller) under SCHED_IDLE: it runs only when nothing else wants the CPU.
///
/// # Errors
/// ESRCH when there is no such thread.
pub fn set_idle(tid: i32) -> io::Result<()> {
    set_scheduler(tid, libc::SCHED_IDLE, 0)
}

fn set_scheduler(tid: i32, policy: libc::c_int, priority: u8) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: `param` is valid for reading.
    check(unsafe { libc::sched_setscheduler(tid, policy, &param) })
}

/// Sets the nice value of thread `tid` (0: the caller): how much less (up to 19) or more of a shared CPU it gets.
///
/// # Errors
/// EACCES without CAP_SYS_NICE when it is to get more than RLIMIT_NICE allows, ESRCH when there is no such thread.
pub fn set_nice(tid: i32, nice: i32) -> io::Result<()> {
    // SAFETY: plain system call. On Linux a thread's own id names the thread, not its process.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as libc::id_t, nice) })
}

/// Binds thread `tid` (0: the caller) to one CPU.
///
/// # Errors
/// EINVAL when the CPU does not exist or is outside the process's cpuset.
pub fn set_affinity(tid: i32, cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: an all-zero cpu_set_t is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` was checked against the set's size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set and its size belong together.
    check(unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &set) })
}

/// CPUs the calling thread may run on.
pub fn allowed_cpus() -> Vec<usize> {
    allowed_cpus_of(0)
}

/// CPUs, in rising order, as people write them: "0-3,6".
pub fn listed(cpus: &[usize]) -> String {
    let runs = cpus.chunk_by(|before, next| before + 1 == *next).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_string(),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// CPUs thread `tid` (0: the caller) may run on; none when there is no such thread.
pub fn allowed_cpus_of(tid: i32) -> Vec<usize> {
    // SAFETY: an all-zero cpu_set_t is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set and its size belong together.
    if unsafe { libc::sched_getaffinity(tid, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return Vec::new();
    }
    // SAFETY: every index is below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Locks all present and future pages of the process in memory.
///
/// # Errors
/// EPERM or ENOMEM without CAP_IPC_LOCK beyond RLIMIT_MEMLOCK.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: plain system call.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })
}

/// Locks what there is, page by page as it is filled (what was locked before has its pages), and no longer locks what comes: once
/// privileges are dropped, locking more memory is beyond the limit, and then every allocation would fail (mlockall(2),
/// RLIMIT_MEMLOCK).
///
/// # Errors
/// EPERM or ENOMEM without CAP_IPC_LOCK beyond RLIMIT_MEMLOCK.
pub fn lock_present_memory() -> io::Result<()> {
    // SAFETY: plain system call.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) })
}

/// Sets how late the calling thread's timers may fire for the sake of coalescing; `nanoseconds` ≥ 1.
///
/// Real-time threads have none (time(7)); it matters where SCHED_FIFO was refused.
///
/// # Errors
/// Never on Linux ≥ 2.6.28.
pub fn set_timer_slack(nanoseconds: u32) -> io::Result<()> {
    // SAFETY: plain system call with integer arguments.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(nanoseconds.max(1))) })
}

/// The calling thread's kernel id.
pub fn thread_id() -> i32 {
    // SAFETY: plain system call.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_listed_as_people_write_them() {
        for (cpus, text) in [(&[][..], ""), (&[3], "3"), (&[0, 1], "0-1"), (&[0, 2, 3, 4, 9], "0,2-4,9")] {
            assert_eq!(listed(cpus), text);
        }
    }
}
