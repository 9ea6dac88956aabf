//! The two clocks Ringtap reads and the one sleep it knows (clock_gettime(2), clock_nanosleep(2)).

use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;
use std::time::Duration;

fn gettime(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing; these clocks exist on every Linux, so the call can't fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC in nanoseconds; the clock of bpf_ktime_get_ns().
pub fn monotonic_ns() -> u64 {
    gettime(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    gettime(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    gettime(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time of another thread of this process; `None` once it has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    pub(crate) fn of<T>(thread: &JoinHandle<T>) -> Option<Self> {
        let mut clock = 0;
        // SAFETY: the handle keeps the thread's id valid, `clock` is valid for writing.
        let failed = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &mut clock) };
        (failed == 0).then_some(Self(clock))
    }

    pub(crate) fn nanoseconds(self) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writing; the kernel refuses the clock of a thread that has ended.
        let failed = unsafe { libc::clock_gettime(self.0, &mut time) };
        (failed == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// The greatest error of CLOCK_REALTIME that the kernel knows of, nanoseconds; `None` where nobody keeps the clock (adjtimex(2) without
/// modes, which only reads). The system call itself: the C library asks clock_adjtime(2), which sets other clocks as well.
pub fn realtime_error_ns() -> Option<u64> {
    // SAFETY: `timex` is a structure of integers, for which zero is valid; with it no mode is asked for, so the kernel only writes it.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::syscall(libc::SYS_adjtimex, &raw mut timex), timex)
    };
    let is_kept = (0..libc::TIME_ERROR.into()).contains(&state) && timex.status & libc::STA_UNSYNC == 0;
    let micros = u64::try_from(timex.maxerror).ok().filter(|_| is_kept)?;
    micros.checked_mul(1000)
}

/// What to add to a CLOCK_MONOTONIC stamp to get CLOCK_REALTIME; drifts with clock adjustment, so ask again now and then.
pub fn monotonic_to_realtime_ns() -> i64 {
    // The realtime read lies between two monotonic ones: their middle is its best partner.
    let before = monotonic_ns();
    let wall = realtime_ns();
    let after = monotonic_ns();
    wall as i64 - (before + (after - before) / 2) as i64
}

/// Sleeps until CLOCK_MONOTONIC reaches `instant_ns`; returns early only on a signal.
pub fn sleep_until(instant_ns: u64) {
    let until = timespec(Duration::from_nanos(instant_ns));
    // SAFETY: `until` is a valid timespec; with TIMER_ABSTIME no remainder is written.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until, std::ptr::null_mut()) };
}

pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_never_ends_before_its_instant() {
        let until = monotonic_ns() + 2_000_000;
        sleep_until(until);
        assert!(monotonic_ns() >= until);
    }

    #[test]
    fn the_time_of_a_thread_is_its_own_and_ends_with_it() {
        let thread = std::thread::spawn(|| {
            while thread_cpu_ns() < 20_000_000 {
                std::hint::spin_loop();
            }
            std::thread::park();
        });
        let clock = ThreadClock::of(&thread).unwrap();
        while clock.nanoseconds().unwrap() < 20_000_000 {
            std::thread::yield_now();
        }
        thread.thread().unpark();
        thread.join().unwrap();
        // It is joined a moment before the kernel takes it off its list.
        let since = std::time::Instant::now();
        while clock.nanoseconds().is_some() && since.elapsed() < Duration::from_secs(2) {
            std::thread::yield_now();
        }
        assert_eq!(clock.nanoseconds(), None);
    }

    #[test]
    fn offset_brings_monotonic_to_wall_time() {
        let wall = (monotonic_ns() as i64 + monotonic_to_realtime_ns()) as u64;
        assert!(wall.abs_diff(realtime_ns()) < 50_000_000);
    }
}
