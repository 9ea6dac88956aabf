//! What a process may do: capabilities, user and group, confinement, of all of its threads at once.
//!
//! The kernel keeps these per thread, and has no call for all (but for seccomp(2)). As the C library does for setuid(2), each thread
//! is sent a signal whose handler makes the calls for its own thread. Which rights are kept and why is the caller's.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Capabilities (capabilities(7)) as a set of bits.
pub type Capabilities = u64;
/// Files of others may be written and read.
pub const CAP_DAC_OVERRIDE: Capabilities = 1 << 1;
/// Files of others may be read.
pub const CAP_DAC_READ_SEARCH: Capabilities = 1 << 2;
/// Devices may be set up.
pub const CAP_NET_ADMIN: Capabilities = 1 << 12;
/// Memory may be locked without a limit.
pub const CAP_IPC_LOCK: Capabilities = 1 << 14;
/// BPF maps may be read and written (kernels before 5.19 ask for it).
pub const CAP_BPF: Capabilities = 1 << 39;
const CAP_SETPCAP: Capabilities = 1 << 8;
/// More than there are.
const CAPABILITY_NUMBERS: u32 = 64;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// _LINUX_CAPABILITY_VERSION_3: two words of each set.
const VERSION: u32 = 0x2008_0522;

fn sets() -> io::Result<[Sets; 2]> {
    let (mut header, mut sets) = (Header { version: VERSION, pid: 0 }, [Sets::default(); 2]);
    // SAFETY: capget(2) of the calling thread; both structures are as this version has them.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) })?;
    Ok(sets)
}

fn set(sets: &[Sets; 2]) -> io::Result<()> {
    let mut header = Header { version: VERSION, pid: 0 };
    // SAFETY: capset(2) of the calling thread; both structures are as this version has them.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) }).map(drop)
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Capabilities in force for the calling thread.
pub fn effective() -> Capabilities {
    sets().map_or(0, |[low, high]| u64::from(low.effective) | u64::from(high.effective) << 32)
}

/// Runs `work` without some capabilities being in force for the calling thread.
pub fn without<T>(capabilities: Capabilities, work: impl FnOnce() -> T) -> T {
    let before = sets();
    if let Ok(mut sets) = before {
        sets[0].effective &= !(capabilities as u32);
        sets[1].effective &= !((capabilities >> 32) as u32);
        let _ = set(&sets);
    }
    let result = work();
    if let Ok(sets) = before {
        let _ = set(&sets);
    }
    result
}

/// What is left to a thread.
#[derive(Debug, Clone, Copy)]
pub struct Confinement<'a> {
    /// Of the capabilities it has, these remain; no other can be had again.
    pub keep: Capabilities,
    /// User and group to become.
    pub user: Option<(u32, u32)>,
    /// A Landlock ruleset to be bound by.
    pub landlock: Option<BorrowedFd<'a>>,
}

/// Which step of [`confine_this_thread`] failed, for the message.
const STEPS: [&str; 6] = ["bounding set", "group", "user", "capabilities", "no_new_privs", "Landlock"];

/// Only system calls: this runs in a signal handler. The number of the step that failed, and why.
fn confine(keep: Capabilities, user: Option<(u32, u32)>, landlock: i32) -> Result<(), (usize, io::Error)> {
    let at = |step: usize| move |error: io::Error| (step, error);
    // SAFETY: as all calls here, one with plain numbers that concerns the calling thread alone.
    let prctl = |option: libc::c_int, a: u64, b: u64| check(unsafe { libc::prctl(option, a, b, 0, 0) }.into());
    let mut sets = sets().map_err(at(3))?;
    if u64::from(sets[0].effective) & CAP_SETPCAP != 0 {
        for number in 0..CAPABILITY_NUMBERS {
            match prctl(libc::PR_CAPBSET_DROP, number.into(), 0) {
                // The running kernel has fewer.
                Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err((0, error)),
                _ => {}
            }
        }
    }
    if let Some((user, group)) = user {
        prctl(libc::PR_SET_KEEPCAPS, 1, 0).map_err(at(2))?;
        // SAFETY: as above; the C library's functions would signal all threads.
        check(unsafe { libc::syscall(libc::SYS_setresgid, group, group, group) }).map_err(at(1))?;
        // SAFETY: as above.
        check(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }).map_err(at(2))?;
        prctl(libc::PR_SET_KEEPCAPS, 0, 0).map_err(at(2))?;
    }
    // Not on every kernel (4.3), where there is nothing to clear.
    let _ = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0);
    for (sets, keep) in sets.iter_mut().zip([keep as u32, (keep >> 32) as u32]) {
        sets.permitted &= keep;
        (sets.effective, sets.inheritable) = (sets.permitted, 0);
    }
    set(&sets).map_err(at(3))?;
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map_err(at(4))?;
    if landlock >= 0 {
        // SAFETY: as above; the descriptor stays open meanwhile.
        check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, landlock, 0) }).map_err(at(5))?;
    }
    Ok(())
}

fn told((step, error): (usize, io::Error)) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", STEPS[step]))
}

/// Confines the calling thread, and those that it starts later.
///
/// # Errors
/// The first step that failed; those before it are done.
pub fn confine_this_thread(to: &Confinement<'_>) -> io::Result<()> {
    confine(to.keep, to.user, to.landlock.map_or(-1, |fd| fd.as_raw_fd())).map_err(told)
}

/// For the handler: what to do, and what came of it.
static KEEP: AtomicU64 = AtomicU64::new(0);
static USER: AtomicU64 = AtomicU64::new(NOBODY);
static LANDLOCK: AtomicI32 = AtomicI32::new(-1);
static DONE: [AtomicI32; MOST_THREADS] = [const { AtomicI32::new(0) }; MOST_THREADS];
static DONE_COUNT: AtomicUsize = AtomicUsize::new(0);
static FAILED_STEP: AtomicU32 = AtomicU32::new(0);
static FAILED_ERRNO: AtomicI32 = AtomicI32::new(0);
/// One thread per queue, and some.
const MOST_THREADS: usize = 4096;
/// No user to become.
const NOBODY: u64 = u64::MAX;

extern "C" fn confine_by_signal(_signal: libc::c_int) {
    // SAFETY: the thread's own errno, which the code that was interrupted must find unchanged.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let user = USER.load(Ordering::Acquire);
    let user = (user != NOBODY).then_some((user as u32, (user >> 32) as u32));
    if let Err((step, error)) = confine(KEEP.load(Ordering::Acquire), user, LANDLOCK.load(Ordering::Acquire)) {
        FAILED_STEP.store(step as u32, Ordering::Release);
        FAILED_ERRNO.store(error.raw_os_error().unwrap_or(libc::EINVAL), Ordering::Release);
    }
    // SAFETY: as above.
    unsafe { *errno = before };
    // SAFETY: a plain system call.
    let thread = unsafe { libc::gettid() };
    if let Some(place) = DONE.get(DONE_COUNT.fetch_add(1, Ordering::AcqRel)) {
        place.store(thread, Ordering::Release);
    }
}

/// Confines all threads of the process, the calling one last. To be called once.
///
/// # Errors
/// The first step that failed in some thread; a thread that does not take the signal within five seconds. What was done stays done.
pub fn confine_all_threads(to: &Confinement<'_>) -> io::Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    const PATIENCE: Duration = Duration::from_secs(5);
    let _turn = TURN.lock().map_err(|_| io::Error::other("it was tried before, and failed"))?;
    let signal = libc::SIGRTMIN() + 5;
    // SAFETY: all zeroes is a valid sigaction; the handler makes system calls and touches atomics only.
    let (mut action, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = confine_by_signal as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: both structures are valid during the call.
    check(unsafe { libc::sigaction(signal, &raw const action, &raw mut old) }.into())?;
    KEEP.store(to.keep, Ordering::Release);
    USER.store(to.user.map_or(NOBODY, |(user, group)| u64::from(user) | u64::from(group) << 32), Ordering::Release);
    LANDLOCK.store(to.landlock.map_or(-1, |fd| fd.as_raw_fd()), Ordering::Release);
    FAILED_ERRNO.store(0, Ordering::Release);
    // SAFETY: plain system calls.
    let (process, this) = unsafe { (libc::getpid(), libc::gettid()) };
    let mut seen = BTreeSet::from([this]);
    DONE_COUNT.store(0, Ordering::Release);
    // A thread that one not yet confined starts meanwhile shows up in the next round.
    let signalled = loop {
        let fresh: Vec<i32> = threads()?.into_iter().filter(|&thread| seen.insert(thread)).collect();
        if fresh.is_empty() {
            break Ok(());
        }
        for &thread in &fresh {
            // SAFETY: a plain system call; a thread that has ended gives ESRCH.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
        }
        let since = Instant::now();
        while !all_done(&fresh)? && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(500));
        }
        if !all_done(&fresh)? {
            break Err(io::Error::new(io::ErrorKind::TimedOut, "a thread does not answer"));
        }
    };
    // Not before: the signal ends a process that has no handler for it.
    signalled?;
    // SAFETY: as above.
    unsafe { libc::sigaction(signal, &raw const old, std::ptr::null_mut()) };
    match FAILED_ERRNO.load(Ordering::Acquire) {
        0 => confine_this_thread(to),
        errno => Err(told((FAILED_STEP.load(Ordering::Acquire) as usize, io::Error::from_raw_os_error(errno)))),
    }
}

/// Whether all of these threads have confined themselves or ended.
fn all_done(threads_told: &[i32]) -> io::Result<bool> {
    let done: BTreeSet<i32> = DONE.iter().map(|thread| thread.load(Ordering::Acquire)).collect();
    if threads_told.iter().all(|thread| done.contains(thread)) {
        return Ok(true);
    }
    let alive = threads()?;
    Ok(threads_told.iter().all(|thread| done.contains(thread) || !alive.contains(thread)))
}

/// Those that run our code. io_uring's workers are the kernel's: they take no signal, stay for five seconds after their work, and do each
/// request with the credentials of who gave it.
fn threads() -> io::Result<Vec<i32>> {
    let threads = std::fs::read_dir("/proc/self/task")?.flatten();
    let all = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    Ok(all.filter(|&thread| !is_worker(thread)).collect())
}

/// Whether a thread is a worker of io_uring's (PF_IO_WORKER among the flags of proc_pid_stat(5), the seventh field behind the name).
fn is_worker(thread: i32) -> bool {
    const PF_IO_WORKER: u64 = 0x10;
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_IO_WORKER != 0)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use io_uring::{IoUring, opcode, types};

    use super::*;

    #[test]
    fn workers_of_the_kernel_are_not_waited_for() {
        let mut ring = IoUring::new(1).unwrap();
        let file = tempfile::tempfile().unwrap();
        // Given to a worker in any case.
        let entry = opcode::Fsync::new(types::Fd(file.as_raw_fd())).build().flags(io_uring::squeue::Flags::ASYNC);
        // SAFETY: the entry points to nothing, and the file is open until it is done.
        unsafe { ring.submission().push(&entry) }.unwrap();
        ring.submit_and_wait(1).unwrap();
        assert_eq!(ring.completion().next().unwrap().result(), 0);
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let all: Vec<i32> = tasks.map(|task| task.file_name().to_str().unwrap().parse().unwrap()).collect();
        let workers: Vec<i32> = all.into_iter().filter(|&thread| is_worker(thread)).collect();
        assert!(!workers.is_empty(), "a worker stays for a while");
        let ours = threads().unwrap();
        // SAFETY: a plain system call.
        assert!(ours.contains(&unsafe { libc::gettid() }) && workers.iter().all(|worker| !ours.contains(worker)));
    }
}
