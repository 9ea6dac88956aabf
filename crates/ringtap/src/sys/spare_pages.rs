//! Pages for tables that fill from their front: a little ahead of their use, not all at start.
//!
//! Locked memory is all resident (mlockall(2)), also that of a table for 65,536 flows on a link that has ten. Here such a table
//! gives its spare pages back before it is used, and an ordinary thread fills them again ahead of the one that must not
//! wait. Does not know what is in a table, or when to look.

use std::io;
use std::mem::MaybeUninit;

/// Of a table's spare pages this part is there before it is asked for, 1 / 16.
const RESERVE: usize = 16;
/// And at least so many bytes.
const LEAST_RESERVE: usize = 128 << 10;
/// No base page is larger on any architecture that is supported.
const PAGE: usize = 64 << 10;

/// The spare pages of one table.
#[derive(Debug)]
pub struct SparePages {
    /// Address of the first one, and bytes of all.
    start: usize,
    bytes: usize,
    /// Bytes of the table before them.
    before: usize,
    element_bytes: usize,
    /// Bytes from `start` on that have their pages.
    filled: usize,
    /// Bytes from `start` on that were in use when last looked at.
    seen: usize,
    /// Pages' bytes that were used before they were filled here.
    late: usize,
}

impl SparePages {
    /// Takes the pages of `spare` from it, but for a reserve at its beginning; what was locked stays so, page by page as it is
    /// filled. `None` when there is too little of it, or the kernel can't (before Linux 5.18): then it keeps what it has.
    pub fn over<T>(spare: &mut [MaybeUninit<T>]) -> Option<Self> {
        let (address, len) = (spare.as_ptr().addr(), size_of_val(spare));
        let start = address.checked_next_multiple_of(PAGE)?;
        let bytes = ((address + len) & !(PAGE - 1)).checked_sub(start).filter(|&bytes| bytes > 2 * LEAST_RESERVE)?;
        let mut this =
            Self { start, bytes, before: start - address, element_bytes: size_of::<T>(), filled: 0, seen: 0, late: 0 };
        // A first touch that nobody was ahead of must not wait for two megabytes; without huge pages the advice is not known.
        let _ = this.advise(0, bytes, libc::MADV_NOHUGEPAGE);
        // What flows say is no debugger's; where the advice is not known, it is dumped.
        let _ = this.advise(0, bytes, libc::MADV_DONTDUMP);
        // `spare` is borrowed for this call alone and holds no values, so nobody misses what is lost.
        this.advise(0, bytes, MADV_DONTNEED_LOCKED).ok()?;
        this.follow(0);
        Some(this)
    }

    /// Fills the pages behind what is in use: of the spare memory's elements the first `elements`.
    ///
    /// Without memory they stay as they are, to be tried again; whoever uses them meanwhile takes the page itself, at the cost of a
    /// page fault.
    pub fn follow(&mut self, elements: usize) {
        let used = (elements.saturating_mul(self.element_bytes)).saturating_sub(self.before).min(self.bytes);
        self.late += used.saturating_sub(self.filled.max(self.seen));
        self.seen = used.max(self.seen);
        let reserve = (self.bytes / RESERVE).max(LEAST_RESERVE);
        let wanted = (used + reserve).next_multiple_of(PAGE).min(self.bytes);
        if wanted > self.filled && self.advise(self.filled, wanted, libc::MADV_POPULATE_WRITE).is_ok() {
            self.filled = wanted;
        }
    }

    /// Bytes of pages that were used before they had been filled.
    pub fn late_bytes(&self) -> usize {
        self.late
    }

    /// Bytes that have no pages yet.
    pub fn empty_bytes(&self) -> usize {
        self.bytes - self.filled
    }

    fn advise(&self, from: usize, to: usize, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: filling pages and doing without huge ones change no memory's contents, whatever lies there by now. Dropping
        // pages does, and is asked for in `over` only, of memory that is exclusively borrowed and holds no values.
        let result = unsafe { libc::madvise(std::ptr::without_provenance_mut(self.start + from), to - from, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// As MADV_DONTNEED, of locked memory too (Linux 5.18).
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(memory: &[MaybeUninit<u64>]) -> usize {
        let start = memory.as_ptr().addr().next_multiple_of(4096);
        let pages = (memory.as_ptr().addr() + size_of_val(memory) - start) / 4096;
        let mut found = vec![0u8; pages];
        // SAFETY: the range lies in a live allocation, and there is a byte for each of its pages.
        let result =
            unsafe { libc::mincore(std::ptr::without_provenance_mut(start), pages * 4096, found.as_mut_ptr()) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        found.iter().filter(|&&page| page & 1 != 0).count() * 4096
    }

    #[test]
    fn pages_come_ahead_of_use() {
        const ELEMENTS: usize = 1 << 20;
        let mut table: Vec<u64> = Vec::with_capacity(ELEMENTS);
        let all = ELEMENTS * 8;
        table.spare_capacity_mut().fill(MaybeUninit::new(7));
        assert!(resident(table.spare_capacity_mut()) > all - 8192);
        let mut pages = SparePages::over(table.spare_capacity_mut()).expect("Linux 5.18");
        let reserve = all / RESERVE;
        let near = |found: usize, wanted: usize| found.abs_diff(wanted) <= 3 * PAGE;
        assert!(near(resident(table.spare_capacity_mut()), reserve), "{}", resident(table.spare_capacity_mut()));
        table.resize(ELEMENTS / RESERVE - PAGE / 4, 1);
        pages.follow(table.len());
        assert!(near(all - pages.empty_bytes(), 2 * reserve), "{}", pages.empty_bytes());
        assert_eq!(pages.late_bytes(), 0);
        table.resize(ELEMENTS / 2, 2);
        pages.follow(table.len());
        assert!(near(pages.late_bytes(), all / 2 - 2 * reserve), "{}", pages.late_bytes());
        table.resize(ELEMENTS, 3);
        pages.follow(table.len());
        assert_eq!(pages.empty_bytes(), 0);
        assert_eq!((table[0], table[ELEMENTS / 2 - 1], table[ELEMENTS - 1]), (1, 2, 3));
    }

    #[test]
    fn what_is_small_keeps_its_pages() {
        assert!(SparePages::over(Vec::<u64>::with_capacity(1000).spare_capacity_mut()).is_none());
        assert!(SparePages::over(Vec::<()>::new().spare_capacity_mut()).is_none());
    }
}
