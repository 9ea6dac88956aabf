//! Work of a known length, and the counter it is measured by, which runs at one rate whatever the core's clock: the time stamp counter on
//! x86-64 (TSC, Intel SDM vol. 3 §19.17), the virtual counter on arm64 (CNTVCT_EL0, Arm ARM D12.1), which is slower than the core.
//!
//! Owns the loop of \[4] §8, which no compiler folds.

use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__rdtscp, _mm_lfence};

/// Turns are done by so many at a time: a branch for each turn would be foretold in short loops and not in long ones, so that their
/// lengths lay on no line.
pub const TURNS_AT_ONCE: u64 = 16;

/// Counts down from `turns`, rounded up to [`TURNS_AT_ONCE`], each turn by an instruction that waits for the one before. What follows
/// does not begin before it has ended (LFENCE, ISB). 0: returns at once.
#[inline(never)]
pub fn spend(turns: u64) {
    let rounded = turns.next_multiple_of(TURNS_AT_ONCE);
    if rounded == 0 {
        return;
    }
    // SAFETY: a register is counted down to zero, which it meets as it begins at a multiple of 16 above it; no memory is touched.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            ".p2align 5",
            "2:",
            ".rept 16",
            "dec {left}",
            ".endr",
            "jnz 2b",
            "lfence",
            left = inout(reg) rounded => _,
            options(nomem, nostack)
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            ".p2align 5",
            "2:",
            ".rept 16",
            "subs {left}, {left}, #1",
            ".endr",
            "b.ne 2b",
            "isb",
            left = inout(reg) rounded => _,
            options(nomem, nostack)
        );
    }
}

/// The counter, when all before has been done, and before anything behind begins (RDTSCP and LFENCE; ISB on both sides).
pub fn timestamp() -> u64 {
    // SAFETY: RDTSCP and LFENCE are on every x86-64 processor that runs a kernel with AF_XDP; `cpu` is ours.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        let mut cpu = 0;
        let count = __rdtscp(&raw mut cpu);
        _mm_lfence();
        count
    }
    // SAFETY: Linux lets user space read the virtual counter (CNTKCTL_EL1.EL0VCTEN), as its vDSO does; no memory is touched.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        let count: u64;
        asm!("isb", "mrs {count}, cntvct_el0", "isb", count = out(reg) count, options(nomem, nostack));
        count
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_turns_comes_to_an_end_and_more_take_longer() {
        let took = |turns: u64| {
            let least = (0..50).map(|_| {
                let begun = timestamp();
                spend(turns);
                timestamp() - begun
            });
            least.min().unwrap_or(0)
        };
        for turns in [0, 1, 15, 16, 17, 1000] {
            took(turns);
        }
        // A hundred times the work, whatever else the machine does: the least of fifty.
        assert!(took(1_000_000) > 10 * took(10_000));
    }
}
