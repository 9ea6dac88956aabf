//! Transparent huge pages under memory of the program's own.

use std::mem::MaybeUninit;

/// Asks the kernel for huge pages under memory that nothing was written to yet (madvise(2), MADV_HUGEPAGE), as far as whole
/// pages of 4 KiB lie in it: with small ones, each look at one of millions of things costs a walk of the page tables.
/// Where it has none, or is told to give none, the memory stays what it is.
pub fn prefer_huge_pages<T>(memory: &mut [MaybeUninit<T>]) {
    const PAGE: usize = 4096;
    let (start, len) = (memory.as_mut_ptr(), size_of_val(memory));
    let before = start.addr().next_multiple_of(PAGE) - start.addr();
    let whole = len.saturating_sub(before) / PAGE * PAGE;
    if whole > 0 {
        // SAFETY: the range lies in `memory`, which is borrowed for it alone; the advice changes no contents.
        unsafe { libc::madvise(start.wrapping_byte_add(before).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "madvise is a system call")]
    fn memory_stays_what_it_was() {
        for len in [0, 1, 511, 512, 513, 1 << 20] {
            let mut memory: Vec<u64> = Vec::with_capacity(len);
            prefer_huge_pages(memory.spare_capacity_mut());
            memory.extend(0..len as u64);
            assert!(memory.iter().copied().eq(0..len as u64));
        }
    }
}
