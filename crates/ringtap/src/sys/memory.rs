//! Mapped memory that packets lie in, and the slots that name a packet in it.
//!
//! Owns mapping, pinning and unmapping. A [`Slot`] is a proof that user space owns the bytes it names: only the ring
//! modules beside this one can make a slot, and they do so when the kernel has handed the frame over.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use super::available::available_memory_bytes;
use crate::error::{Error, Result};

/// Size of the huge pages asked for (MAP_HUGETLB with the default size on x86-64 and arm64 with 4 KiB pages).
const HUGE_PAGE: usize = 2 << 20;

/// A packet's place in a [`Region`]: checked against the region's bounds when it was made.
#[derive(Debug)]
pub(crate) struct Slot {
    offset: usize,
    len: u32,
    /// Length on the wire, bytes; at least the captured length.
    pub(crate) wire_len: u32,
    /// Arrival stamp in the source's clock, nanoseconds; 0 when the frame bore no stamp.
    pub(crate) arrival_ns: u64,
    /// The packet's transport checksum is still to be computed, as is so of what this host sends and of merged packets.
    pub(crate) checksum_pending: bool,
    /// What the owner needs to take the frame back (a UMEM address, a frame's index).
    pub(crate) token: u64,
}

impl Slot {
    /// Names `len` bytes at `offset` of `region`, or `None` when they don't lie inside it.
    ///
    /// Callers must own these bytes until the slot is given back: this is the contract of the ring modules.
    pub(super) fn new(region: &Region, offset: usize, len: u32) -> Option<Self> {
        let end = offset.checked_add(len as usize)?;
        (end <= region.len).then_some(Self {
            offset,
            len,
            wire_len: len,
            arrival_ns: 0,
            checksum_pending: false,
            token: 0,
        })
    }

    /// Where the packet starts in its region.
    #[cfg(test)]
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Leaves out the first `count` bytes, of which there must be so many: they are no part of the packet.
    pub(super) fn skip(&mut self, count: u32) {
        debug_assert!(count <= self.len);
        self.offset += count as usize;
        self.len -= count;
        self.wire_len -= count;
    }
}

/// A mapping: anonymous memory for packets, or a ring shared with the kernel.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
    /// Somebody else mapped it, and will unmap it.
    is_lent: bool,
}

// SAFETY: a Region is a plain range of mapped memory; access from several threads is governed by the ring protocols
// (atomics) and by `Slot` ownership, not by which thread holds the mapping.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` gives out only slices that a `Slot` proves to be owned by user space.
unsafe impl Sync for Region {}

impl Region {
    /// Anonymous, zeroed, prefaulted memory of at least `len` bytes; huge pages when asked for.
    ///
    /// # Errors
    /// Not enough memory, or no huge pages reserved.
    pub(crate) fn anonymous(len: usize, huge_pages: bool, what: &str) -> Result<Self> {
        let granule = if huge_pages { HUGE_PAGE } else { 4096 };
        let rounded = len
            .max(1)
            .checked_next_multiple_of(granule)
            .filter(|&rounded| isize::try_from(rounded).is_ok())
            .ok_or_else(|| {
                Error::usage("map", what, format!("{len} bytes exceed the address space")).way_out("use a smaller ring")
            })?;
        if !huge_pages {
            check_available(rounded, what, "use a smaller --ring or --frame-size")?;
        }
        if huge_pages {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE | libc::MAP_HUGETLB;
            return Self::map(rounded, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0).map_err(|error| {
                Error::os("map", format!("{what} ({} MiB)", rounded >> 20), &error).way_out(format!(
                    "reserve huge pages: sysctl vm.nr_hugepages={}, or leave out --huge-pages",
                    rounded / HUGE_PAGE
                ))
            });
        }
        let mapped = if cfg!(miri) {
            // Which knows neither advice nor inaccessible mappings.
            Self::map(rounded, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        } else {
            Self::transparent(rounded)
        };
        mapped.map(Self::not_dumped).map_err(|error| {
            Error::os("map", format!("{what} ({} MiB)", rounded >> 20), &error).way_out("use a smaller --ring")
        })
    }

    /// As [`Region::anonymous`], but the same memory for this process and those it forks: of private memory that the kernel
    /// writes to, a forked process gets a copy that stands still. Transparent huge pages are rarely allowed for it.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn shared(len: usize, what: &str) -> Result<Self> {
        check_available(len, what, "use a smaller ring")?;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let mapped = Self::map(len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        mapped.map(Self::not_dumped).map_err(|error| {
            Error::os("map", format!("{what} ({} MiB)", len >> 20), &error).way_out("use a smaller ring")
        })
    }

    /// Shared memory of `ring` bytes that goes on at its own beginning: the `tail` bytes mapped behind it are its first ones
    /// once more, so that what runs over its end is one piece. Behind both lie `beyond` bytes of their own. All three are
    /// multiples of the page size; processes that are forked share it.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn endless(ring: usize, tail: usize, beyond: usize, what: &str) -> Result<Self> {
        let len = ring + beyond;
        check_available(len, what, "use a smaller --ring")?;
        if cfg!(miri) {
            // Which maps nothing twice: what writes here writes twice (`FarSide`).
            return Self::anonymous(ring + tail + beyond, false, what);
        }
        Self::map_endless(ring, tail, beyond).map(Self::not_dumped).map_err(|error| {
            Error::os("map", format!("{what} ({} MiB)", len >> 20), &error).way_out("use a smaller --ring")
        })
    }

    fn map_endless(ring: usize, tail: usize, beyond: usize) -> io::Result<Self> {
        // Growing a file beyond this limit would end the process (SIGXFSZ, setrlimit(2)).
        if file_size_limit().is_some_and(|limit| (ring + beyond) as u64 > limit) {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        // SAFETY: a name that lives as long as the call; the result is checked and owned once.
        let file = unsafe {
            let fd = libc::memfd_create(c"ringtap".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: plain system call on a descriptor that is owned here.
        if unsafe { libc::ftruncate(file.as_raw_fd(), (ring + beyond) as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let reserved = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let this = Self::map(ring + tail + beyond, libc::PROT_NONE, reserved, -1, 0)?;
        let mut parts = vec![(0, 0, ring)];
        // A ring shorter than the tail goes round more than once.
        parts.extend((0..tail).step_by(ring).map(|at| (ring + at, 0, ring.min(tail - at))));
        parts.extend((beyond > 0).then_some((ring + tail, ring, beyond)));
        for (at, offset, len) in parts {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE | libc::MAP_FIXED);
            // SAFETY: the range is a part of the mapping just made, which nothing refers to: replacing it is what MAP_FIXED
            // is for.
            let mapped = unsafe {
                let place = this.base.as_ptr().add(at).cast();
                libc::mmap(place, len, protection, flags, file.as_raw_fd(), offset as libc::off_t)
            };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(this)
    }

    /// Prefaulted memory in transparent huge pages as far as the kernel has some (madvise(2), MADV_HUGEPAGE): with pages of
    /// 4 KiB every frame of a large ring costs a walk of the page tables.
    ///
    /// Inaccessible at first, so that nothing (a lock on future mappings, mlockall(2)) fills it with small pages before the
    /// advice is given.
    fn transparent(len: usize) -> io::Result<Self> {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let padded = if len >= HUGE_PAGE { len + HUGE_PAGE } else { len };
        let mut this = Self::map(padded, libc::PROT_NONE, private, -1, 0)?;
        if padded > len {
            this.trim(len);
        }
        let base = this.base.as_ptr().cast();
        // SAFETY: the range is this mapping; the advice changes no contents, and its refusal means small pages.
        unsafe { libc::madvise(base, len, libc::MADV_HUGEPAGE) };
        // SAFETY: the range is this mapping, which nothing refers to yet.
        if unsafe { libc::mprotect(base, len, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above; MADV_POPULATE_WRITE (Linux 5.14) faults every page in, or says why it can't.
        if unsafe { libc::madvise(base, len, libc::MADV_POPULATE_WRITE) } != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(error);
            }
            for offset in (0..len).step_by(4096) {
                // SAFETY: inside the mapping; writing to a page is what faults it in on older kernels.
                unsafe { this.base.as_ptr().add(offset).write_volatile(0) };
            }
        }
        Ok(this)
    }

    /// Gives back what lies before the first huge-page boundary and beyond `len` bytes from there.
    fn trim(&mut self, len: usize) {
        let start = self.base.as_ptr() as usize;
        let skip = start.next_multiple_of(HUGE_PAGE) - start;
        let tail = self.len - skip - len;
        // SAFETY: both ranges are parts of this mapping that nothing refers to; both begin and end on page boundaries.
        unsafe {
            if skip > 0 {
                libc::munmap(self.base.as_ptr().cast(), skip);
            }
            if tail > 0 {
                libc::munmap(self.base.as_ptr().add(skip + len).cast(), tail);
            }
            self.base = self.base.add(skip);
        }
        self.len = len;
    }

    /// Maps `len` bytes of the ring behind `fd` at page offset `offset` (mmap(2), a socket's ring areas), prefaulted.
    pub(super) fn of_fd(fd: BorrowedFd<'_>, len: usize, offset: libc::off_t) -> io::Result<Self> {
        Self::map(
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            fd.as_raw_fd(),
            offset,
        )
        .map(Self::not_dumped)
    }

    /// As [`Region::of_fd`] from the start of `fd`'s rings, followed by `tail` bytes of our own, which are not prefaulted.
    pub(super) fn of_fd_with_tail(fd: BorrowedFd<'_>, len: usize, tail: usize) -> io::Result<Self> {
        if tail == 0 {
            return Self::of_fd(fd, len, 0);
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let this = Self::map(len + tail, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)?;
        let over = libc::MAP_SHARED | libc::MAP_POPULATE | libc::MAP_FIXED;
        // SAFETY: the first `len` bytes are part of the mapping just made, which nothing refers to: replacing them is what
        // MAP_FIXED is for.
        let ring = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(this.base.as_ptr().cast(), len, protection, over, fd.as_raw_fd(), 0)
        };
        if ring == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(this.not_dumped()) }
    }

    fn map(
        len: usize,
        protection: libc::c_int,
        flags: libc::c_int,
        fd: libc::c_int,
        offset: libc::off_t,
    ) -> io::Result<Self> {
        // SAFETY: no fixed address is asked for, so no existing mapping is touched; the result is checked.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned a null mapping"))?;
        Ok(Self { base, len, is_lent: false })
    }

    /// The `len` bytes at `base` that a library keeps packets in; slots in it are made by the module that knows the library.
    ///
    /// # Safety
    /// They stay mapped as long as this region, and the bytes of a slot are not written to until it is given back.
    pub(super) unsafe fn lent(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len, is_lent: true }
    }

    /// Leaves it out of core dumps (madvise(2), MADV_DONTDUMP): packets are others' words, and a ring is large. Given once all parts of the
    /// mapping are in their places, as what replaces a part has no advice.
    fn not_dumped(self) -> Self {
        if !cfg!(miri) {
            // SAFETY: the range is this mapping; the advice changes no contents, and its refusal means that it is dumped.
            unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_DONTDUMP) };
        }
        self
    }

    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Start of the mapping; for registering it with the kernel and for ring fields.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Asks the CPU for a packet's first cache lines.
    pub(super) fn prefetch(&self, slot: &Slot) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            const LINE: usize = 64;
            // SAFETY: prefetching is a hint: it never faults and changes no memory; the address is inside the mapping.
            unsafe {
                let at = self.base.as_ptr().add(slot.offset & !(LINE - 1));
                _mm_prefetch(at.cast(), _MM_HINT_T0);
                _mm_prefetch(at.wrapping_add(LINE).cast(), _MM_HINT_T0);
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = slot;
    }

    /// The bytes that `slot` names.
    pub(crate) fn bytes(&self, slot: &Slot) -> &[u8] {
        debug_assert!(slot.offset + slot.len as usize <= self.len);
        // SAFETY: `Slot::new` checked the range against this region's length, the mapping lives as long as `self`, and
        // the slot's existence says that user space owns the bytes, so the kernel does not write to them meanwhile.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(slot.offset), slot.len as usize) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        // SAFETY: the mapping was made by `map` with this length and nothing can refer to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn check_available(len: usize, what: &str, way_out: &'static str) -> Result<()> {
    if cfg!(miri) {
        // No kernel's memory is asked for.
        return Ok(());
    }
    match available_memory_bytes() {
        Some(available) if len as u64 > available => {
            let cause = format!("{} MiB asked for, {} MiB available", len >> 20, available >> 20);
            Err(Error::failed("map", what, cause).way_out(way_out))
        }
        _ => Ok(()),
    }
}

/// The largest file this process may write, in bytes; `None`: no limit.
fn file_size_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of the expected type, written by the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Packet memory that user space alone writes (the file and socket sources): equal frames, filled one after another.
#[derive(Debug)]
pub(crate) struct Arena {
    region: Region,
    frame_size: usize,
    frames: usize,
}

impl Arena {
    /// `frames` frames of `frame_size` bytes, prefaulted.
    pub(crate) fn new(frames: usize, frame_size: usize, what: &str) -> Result<Self> {
        let len = frames
            .checked_mul(frame_size)
            .ok_or_else(|| Error::usage("map", what, "size exceeds the address space").way_out("use a smaller ring"))?;
        Ok(Self { region: Region::anonymous(len, false, what)?, frame_size, frames })
    }

    /// The whole memory, for reading the slots' bytes.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Frame `index`, to write into; panics on an index out of range, as a slice does.
    ///
    /// `&mut self` proves that no slot of this arena is being read.
    pub(crate) fn frame_mut(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.frames, "frame {index} of {}", self.frames);
        // SAFETY: the index was checked, frames × frame_size fits the region, the memory is private to this process and
        // `&mut self` excludes every other reference into it.
        unsafe {
            std::slice::from_raw_parts_mut(self.region.base.as_ptr().add(index * self.frame_size), self.frame_size)
        }
    }

    /// A slot for the first `len` bytes of frame `index`, or `None` when they exceed the frame.
    pub(crate) fn slot(&self, index: usize, len: u32) -> Option<Slot> {
        self.slot_within(index, 0, len)
    }

    /// A slot for the `len` bytes at `start` of frame `index`, or `None` when they exceed the frame.
    pub(crate) fn slot_within(&self, index: usize, start: usize, len: u32) -> Option<Slot> {
        if index >= self.frames || start.checked_add(len as usize)? > self.frame_size {
            return None;
        }
        let mut slot = Slot::new(&self.region, index * self.frame_size + start, len)?;
        slot.token = index as u64;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_outside_the_region_are_refused() {
        let region = Region::anonymous(4096, false, "test memory").unwrap();
        assert!(Slot::new(&region, 0, 4096).is_some());
        assert!(Slot::new(&region, 1, 4096).is_none());
        assert!(Slot::new(&region, usize::MAX, 1).is_none());
    }

    #[test]
    fn large_memory_begins_on_a_huge_page_and_is_whole() {
        let region = Region::anonymous(2 * HUGE_PAGE + 4096, false, "test memory").unwrap();
        assert_eq!(region.base().as_ptr() as usize % HUGE_PAGE, 0);
        assert_eq!(region.len(), 2 * HUGE_PAGE + 4096);
        let last = Slot::new(&region, region.len() - 8, 8).unwrap();
        assert_eq!(region.bytes(&last), [0; 8]);
    }

    /// Whether each of the mappings that a region is made of is left out of core dumps: `dd` among its flags in smaps (proc(5)).
    fn is_left_out_of_dumps(region: &Region) -> bool {
        let (start, end) = (region.base().as_ptr() as usize, region.base().as_ptr() as usize + region.len());
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut is_in, mut parts, mut left_out) = (false, 0, 0);
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let hex = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((from, to)) = range.and_then(|(from, to)| Some((hex(from)?, hex(to)?))) {
                is_in = from < end && to > start;
                parts += usize::from(is_in);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_in) {
                left_out += usize::from(flags.split_whitespace().any(|flag| flag == "dd"));
            }
        }
        parts > 0 && parts == left_out
    }

    #[test]
    #[cfg_attr(miri, ignore = "advice is a system call")]
    fn rings_are_left_out_of_core_dumps() {
        assert!(is_left_out_of_dumps(&Region::anonymous(3 * 4096, false, "test memory").unwrap()));
        assert!(is_left_out_of_dumps(&Region::anonymous(2 * HUGE_PAGE, false, "test memory").unwrap()));
        assert!(is_left_out_of_dumps(&Region::shared(4096, "test memory").unwrap()));
        assert!(is_left_out_of_dumps(&Region::endless(2 * 4096, 3 * 4096, 4096, "test memory").unwrap()));
        let plain = Region::map(4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0).unwrap();
        assert!(!is_left_out_of_dumps(&plain), "the test sees the difference");
    }

    #[test]
    fn endless_memory_goes_on_at_its_beginning() {
        let page = 4096;
        for tail in [page, 5 * page] {
            let region = Region::endless(2 * page, tail, page, "test memory").unwrap();
            assert_eq!(region.len(), 3 * page + tail);
            // SAFETY: inside the mapping, which only this test knows.
            unsafe {
                region.base().add(5).write(7);
                region.base().add(2 * page + tail).write(9);
            }
            let byte = |at| region.bytes(&Slot::new(&region, at, 1).unwrap())[0];
            assert!((2 * page + 5..2 * page + tail).step_by(2 * page).all(|at| byte(at) == 7), "{tail}");
            assert_eq!((byte(5), byte(0), byte(2 * page + tail)), (7, 0, 9), "{tail}");
        }
    }

    #[test]
    fn arena_frames_keep_what_was_written() {
        let mut arena = Arena::new(4, 64, "test arena").unwrap();
        for index in 0..4 {
            arena.frame_mut(index)[..2].copy_from_slice(&[index as u8, 0xee]);
        }
        for index in 0..4 {
            let slot = arena.slot(index, 2).unwrap();
            assert_eq!(arena.region().bytes(&slot), &[index as u8, 0xee]);
        }
        assert!(arena.slot(4, 1).is_none());
        assert!(arena.slot(0, 65).is_none());
    }

    #[test]
    fn slots_within_a_frame_stay_inside_it() {
        let mut arena = Arena::new(1, 100, "test arena").unwrap();
        arena.frame_mut(0)[98..].copy_from_slice(&[1, 2]);
        assert_eq!(arena.region().bytes(&arena.slot_within(0, 98, 2).unwrap()), &[1, 2]);
        assert!(arena.slot_within(0, 98, 3).is_none());
        assert!(arena.slot_within(0, usize::MAX, 2).is_none());
    }

    #[test]
    fn more_memory_than_there_is_is_an_error_not_a_killed_process() {
        let error = Region::anonymous(1 << 45, false, "UMEM").unwrap_err().to_string();
        assert!(error.contains("UMEM") && error.contains("--ring"), "{error}");
    }
}
