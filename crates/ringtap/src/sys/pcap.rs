//! libpcap, loaded at run time, and one open device of it.
//!
//! Owns the C interface and the packets' memory: what pcap_dispatch(3PCAP) lends for the length of a callback is copied into
//! an arena. Loaded, not linked: a patched libpcap (netmap, PF_RING, DPDK) is chosen by its file, and the core is itself part
//! of a libpcap (the crate ringtap-pcap), where a linked one would be that same library again.

use std::ffi::{CString, c_char, c_int, c_uchar, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

use super::loaded::{cause, file_of, functions, text};
use super::memory::{Arena, Region, Slot};
use crate::burst::BURST_MAX;
use crate::error::{Error, Result};

/// Where the dynamic linker is asked to look: Debian's name and everybody else's.
const NAMES: [&str; 2] = ["libpcap.so.0.8", "libpcap.so.1"];
/// PCAP_ERRBUF_SIZE.
const ERRBUF_SIZE: usize = 256;
/// Codes and values of pcap/pcap.h.
const PCAP_WARNING: c_int = 1;
const PCAP_ERROR: c_int = -1;
const PCAP_ERROR_NO_SUCH_DEVICE: c_int = -5;
const PCAP_ERROR_PERM_DENIED: c_int = -8;
const PCAP_ERROR_PROMISC_PERM_DENIED: c_int = -11;
const PCAP_D_IN: c_int = 1;
const PCAP_TSTAMP_PRECISION_NANO: c_int = 1;
/// Packets begin on a line of the CPU's cache.
const LINE: usize = 64;

/// pcap_t: only pointers to it exist.
#[repr(C)]
struct RawPcap {
    _private: [u8; 0],
}

/// The beginning of struct pcap_if; what follows is not looked at.
#[repr(C)]
struct RawDevice {
    next: *mut RawDevice,
    name: *const c_char,
}

/// struct pcap_pkthdr.
#[repr(C)]
struct Header {
    /// Microseconds, or nanoseconds in `tv_usec`, by the precision chosen.
    ts: libc::timeval,
    caplen: c_uint,
    len: c_uint,
}

/// struct pcap_stat.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) received: c_uint,
    pub(crate) dropped: c_uint,
    pub(crate) dropped_by_interface: c_uint,
}

type Callback = unsafe extern "C" fn(*mut c_uchar, *const Header, *const c_uchar);

functions! {
    fn pcap_activate(*mut RawPcap) -> c_int;
    fn pcap_close(*mut RawPcap);
    fn pcap_create(*const c_char, *mut c_char) -> *mut RawPcap;
    fn pcap_datalink(*mut RawPcap) -> c_int;
    fn pcap_dispatch(*mut RawPcap, c_int, Callback, *mut c_uchar) -> c_int;
    fn pcap_findalldevs(*mut *mut RawDevice, *mut c_char) -> c_int;
    fn pcap_freealldevs(*mut RawDevice);
    fn pcap_get_required_select_timeout(*mut RawPcap) -> *const libc::timeval;
    fn pcap_get_selectable_fd(*mut RawPcap) -> c_int;
    fn pcap_get_tstamp_precision(*mut RawPcap) -> c_int;
    fn pcap_geterr(*mut RawPcap) -> *mut c_char;
    fn pcap_lib_version() -> *const c_char;
    fn pcap_set_buffer_size(*mut RawPcap, c_int) -> c_int;
    fn pcap_set_immediate_mode(*mut RawPcap, c_int) -> c_int;
    fn pcap_set_promisc(*mut RawPcap, c_int) -> c_int;
    fn pcap_set_snaplen(*mut RawPcap, c_int) -> c_int;
    fn pcap_set_timeout(*mut RawPcap, c_int) -> c_int;
    fn pcap_set_tstamp_precision(*mut RawPcap, c_int) -> c_int;
    fn pcap_setdirection(*mut RawPcap, c_int) -> c_int;
    fn pcap_setnonblock(*mut RawPcap, c_int, *mut c_char) -> c_int;
    fn pcap_stats(*mut RawPcap, *mut Statistics) -> c_int;
    fn pcap_statustostr(c_int) -> *const c_char;
}

/// What to open.
#[derive(Debug, Clone)]
pub(crate) struct DeviceConfig {
    /// The device, as the library calls it.
    pub(crate) device: String,
    /// Bytes kept of a packet; a multiple of 64.
    pub(crate) snaplen: u32,
    /// Bytes of the library's own buffer.
    pub(crate) buffer_bytes: u32,
    /// Ask for frames that are addressed to others.
    pub(crate) promiscuous: bool,
    /// Leave out what the host sends.
    pub(crate) incoming_only: bool,
}

/// An activated device, non-blocking, and the packets last taken from it.
pub(crate) struct Device {
    // Dropped by hand, before the library.
    handle: NonNull<RawPcap>,
    library: Library,
    arena: Arena,
    snaplen: usize,
    nanoseconds: bool,
}

// SAFETY: libpcap lets a handle be used from any thread, by one at a time, which `&mut self` sees to.
unsafe impl Send for Device {}

impl Library {
    /// Loads the library at `path`, or the one the dynamic linker finds.
    fn load(path: Option<&Path>) -> Result<Self> {
        // A library named by its file shall find its own functions first, not those of another libpcap in this program.
        #[cfg(target_env = "gnu")]
        const FLAGS: c_int = RTLD_NOW | RTLD_LOCAL | libc::RTLD_DEEPBIND;
        #[cfg(not(target_env = "gnu"))]
        const FLAGS: c_int = RTLD_NOW | RTLD_LOCAL;
        // SAFETY: loading runs the library's constructors: it is the system's, or one the user named.
        let open = |name: &Path| unsafe { Loaded::open(Some(name), FLAGS) };
        let failed = |name: &Path, error: libloading::Error| {
            let name = name.display().to_string();
            let cause = cause(&name, &error);
            Error::failed("load libpcap", name, cause)
        };
        let loaded = match path {
            Some(path) => open(path).map_err(|error| failed(path, error).way_out("name a libpcap's shared library")),
            None => NAMES.iter().map(Path::new).find_map(|name| open(name).ok()).ok_or_else(|| {
                Error::failed("load libpcap", NAMES.join(" or "), "the dynamic linker finds neither")
                    .way_out("install libpcap, or name its file: --pcap-library FILE")
            }),
        }?;
        Self::of(loaded).map_err(|error| {
            failed(path.unwrap_or(Path::new("of the system")), error).way_out("use libpcap 1.9 or later")
        })
    }

    /// Its version in its own words, and its file.
    fn name(&self) -> String {
        // SAFETY: the function takes nothing and returns a string that stays.
        let version = unsafe { text((self.pcap_lib_version)()) };
        format!("{version}, {}", file_of(self.pcap_lib_version as *const libc::c_void))
    }

    /// The devices it offers, for messages.
    fn devices(&self) -> Vec<String> {
        let mut list = std::ptr::null_mut();
        let mut errbuf = [0; ERRBUF_SIZE];
        let mut names = Vec::new();
        // SAFETY: the list's elements are valid until it is freed, once; the buffer has its required size.
        unsafe {
            if (self.pcap_findalldevs)(&mut list, errbuf.as_mut_ptr()) == 0 {
                let mut next = list;
                while let Some(device) = next.as_ref() {
                    names.push(text(device.name));
                    next = device.next;
                }
                (self.pcap_freealldevs)(list);
            }
        }
        names
    }
}

impl Device {
    /// Loads the library, opens and activates the device.
    ///
    /// # Errors
    /// No library, no such device, no privilege, no memory; in libpcap's words.
    pub(crate) fn open(
        library: Option<&Path>,
        config: &DeviceConfig,
        warnings: &mut Vec<String>,
    ) -> Result<(Self, String)> {
        let library = Library::load(library)?;
        let name = library.name();
        let operation = "open through libpcap";
        let failed = |cause: String| Error::failed(operation, &config.device, cause);
        let arena = Arena::new(1, config.snaplen as usize * BURST_MAX, "libpcap's packets")?;
        let device = CString::new(config.device.as_str())
            .map_err(|_| Error::usage(operation, format!("{:?}", config.device), "no name has a zero byte in it"))?;
        let mut errbuf = [0; ERRBUF_SIZE];
        // SAFETY: a string and a buffer of the required size.
        let handle = unsafe { (library.pcap_create)(device.as_ptr(), errbuf.as_mut_ptr()) };
        // SAFETY: the library ends its message with a zero, and ours is at the end of the buffer.
        let said = || unsafe { text(errbuf.as_ptr()) };
        let handle = NonNull::new(handle).ok_or_else(|| failed(said()))?;
        let mut this = Self { handle, library, arena, snaplen: config.snaplen as usize, nanoseconds: false };
        let warning = this.activate(config)?;
        warnings.extend(warning.map(|warning| format!("{} through libpcap: {warning}", config.device)));
        Ok((this, name))
    }

    /// Sets the options and activates; a warning in libpcap's words.
    fn activate(&mut self, config: &DeviceConfig) -> Result<Option<String>> {
        let (p, library) = (self.handle.as_ptr(), &self.library);
        let bytes = |bytes: u32| c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: a created handle that is not activated takes these options (pcap_create(3PCAP)).
        let status = unsafe {
            (library.pcap_set_snaplen)(p, bytes(config.snaplen));
            (library.pcap_set_promisc)(p, c_int::from(config.promiscuous));
            // Each packet at once: when to look is the pacer's business.
            (library.pcap_set_immediate_mode)(p, 1);
            (library.pcap_set_timeout)(p, 1);
            (library.pcap_set_buffer_size)(p, bytes(config.buffer_bytes));
            // Not every device has nanoseconds; what was agreed is asked for below.
            (library.pcap_set_tstamp_precision)(p, PCAP_TSTAMP_PRECISION_NANO);
            (library.pcap_activate)(p)
        };
        let said = self.message(status);
        let failed = |cause: String| Error::failed("open through libpcap", &config.device, cause);
        match status {
            0.. => {}
            PCAP_ERROR_NO_SUCH_DEVICE => {
                let devices = self.library.devices();
                return Err(failed(said).way_out(format!("it offers: {}", devices.join(", "))));
            }
            PCAP_ERROR_PERM_DENIED | PCAP_ERROR_PROMISC_PERM_DENIED => {
                return Err(failed(said).way_out("run as root, or give the program CAP_NET_RAW"));
            }
            _ => return Err(failed(said)),
        }
        let mut errbuf = [0; ERRBUF_SIZE];
        // SAFETY: an activated handle, and a buffer of the required size.
        unsafe {
            self.nanoseconds = (self.library.pcap_get_tstamp_precision)(p) == PCAP_TSTAMP_PRECISION_NANO;
            if (self.library.pcap_setnonblock)(p, 1, errbuf.as_mut_ptr()) != 0 {
                return Err(
                    failed(text(errbuf.as_ptr())).way_out("this device can only be waited on by libpcap itself")
                );
            }
            if config.incoming_only && (self.library.pcap_setdirection)(p, PCAP_D_IN) != 0 {
                return Err(failed(self.message(PCAP_ERROR)).way_out("use --direction inout"));
            }
        }
        Ok((status > 0).then_some(said))
    }

    /// What the library says of `status`.
    fn message(&self, status: c_int) -> String {
        // SAFETY: a valid handle; both strings are ended by a zero and copied at once.
        let (meaning, said) = unsafe {
            (text((self.library.pcap_statustostr)(status)), text((self.library.pcap_geterr)(self.handle.as_ptr())))
        };
        match status {
            _ if said.is_empty() || said == meaning => meaning,
            PCAP_ERROR | PCAP_WARNING => said,
            _ => format!("{meaning} ({said})"),
        }
    }

    /// Whether a dispatch may be asked for without waiting. Some modules (libpcap's for netmap) take no notice of non-blocking
    /// mode and return only with a packet; what they wait on is the descriptor they give. Where there is none, or the
    /// library wants to be asked after a time all the same, the descriptor does not tell everything.
    fn is_ready(&self) -> bool {
        let (Some(fd), None) = self.wait_on() else { return true };
        let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry. An error of the descriptor's is the library's to tell.
        unsafe { libc::poll(&mut entry, 1, 0) != 0 }
    }

    /// Up to `most` packets that are there now, into `slots` (which has room for them and is empty); returns how many the
    /// library gave beyond that, which are lost.
    ///
    /// # Errors
    /// The device gives no more packets, in libpcap's words.
    pub(crate) fn receive(&mut self, most: usize, slots: &mut Vec<Slot>) -> std::result::Result<u64, String> {
        if !self.is_ready() {
            return Ok(0);
        }
        let Self { handle, library, arena, snaplen, nanoseconds } = self;
        let most = most.min(BURST_MAX);
        let (snaplen, nanoseconds) = (*snaplen, *nanoseconds);
        let mut intake = Intake { arena, slots, start: 0, most, beyond: 0, snaplen, nanoseconds };
        // SAFETY: an activated handle; the callback gets the intake, which lives through the call and is not used otherwise
        // meanwhile.
        let status = unsafe {
            let user = (&raw mut intake).cast();
            (library.pcap_dispatch)(handle.as_ptr(), most as c_int, take, user)
        };
        let beyond = intake.beyond;
        if status < 0 { Err(self.message(PCAP_ERROR)) } else { Ok(beyond) }
    }

    /// pcap_stats(3PCAP); `None` where the device has none.
    pub(crate) fn statistics(&mut self) -> Option<Statistics> {
        let mut statistics = Statistics::default();
        // SAFETY: an activated handle and a structure for its answer.
        let status = unsafe { (self.library.pcap_stats)(self.handle.as_ptr(), &mut statistics) };
        (status == 0).then_some(statistics)
    }

    /// What to wait on, where there is something; and after what time to look all the same, where the library wants that.
    pub(crate) fn wait_on(&self) -> (Option<BorrowedFd<'_>>, Option<Duration>) {
        let p = self.handle.as_ptr();
        // SAFETY: an activated handle; the descriptor is its own and open as long as it is; the time is null or valid.
        unsafe {
            let fd = (self.library.pcap_get_selectable_fd)(p);
            let time = (self.library.pcap_get_required_select_timeout)(p).as_ref();
            let time = time.map(|t| Duration::new(t.tv_sec.max(0) as u64, t.tv_usec.clamp(0, 999_999) as u32 * 1000));
            ((fd >= 0).then(|| BorrowedFd::borrow_raw(fd)), time)
        }
    }

    /// The device's DLT_ value (pcap-linktype(7)).
    pub(crate) fn link_type(&self) -> c_int {
        // SAFETY: an activated handle.
        unsafe { (self.library.pcap_datalink)(self.handle.as_ptr()) }
    }

    /// The memory the slots are in.
    pub(crate) fn region(&self) -> &Region {
        self.arena.region()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once; the library goes after it.
        unsafe { (self.library.pcap_close)(self.handle.as_ptr()) };
    }
}

/// Where a dispatch's packets go.
struct Intake<'a> {
    arena: &'a mut Arena,
    slots: &'a mut Vec<Slot>,
    /// Where the next packet begins in the arena's one frame.
    start: usize,
    most: usize,
    beyond: u64,
    snaplen: usize,
    nanoseconds: bool,
}

/// The callback: copies one packet behind the one before.
///
/// # Safety
/// As pcap_dispatch(3PCAP) calls it: a header, and as many bytes as its caplen says; `user` is an [`Intake`].
unsafe extern "C" fn take(user: *mut c_uchar, header: *const Header, data: *const c_uchar) {
    // SAFETY: by contract.
    let (intake, header) = unsafe { (&mut *user.cast::<Intake<'_>>(), &*header) };
    let len = (header.caplen as usize).min(intake.snaplen);
    // SAFETY: by contract; the arena's memory is another.
    let data = unsafe { std::slice::from_raw_parts(data, len) };
    intake.take(header, data);
}

impl Intake<'_> {
    fn take(&mut self, header: &Header, data: &[u8]) {
        let room = self.arena.frame_mut(0).get_mut(self.start..self.start + data.len());
        let (Some(room), true) = (room, self.slots.len() < self.most) else {
            self.beyond += 1;
            return;
        };
        room.copy_from_slice(data);
        let Some(mut slot) = self.arena.slot_within(0, self.start, data.len() as u32) else { return };
        let fraction_ns = header.ts.tv_usec as u64 * if self.nanoseconds { 1 } else { 1000 };
        slot.arrival_ns = (header.ts.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(fraction_ns);
        slot.wire_len = header.len.max(data.len() as u32);
        self.slots.push(slot);
        self.start += data.len().next_multiple_of(LINE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(seconds: i64, fraction: i64, caplen: u32, len: u32) -> Header {
        Header { ts: libc::timeval { tv_sec: seconds, tv_usec: fraction }, caplen, len }
    }

    #[test]
    fn packets_lie_one_behind_the_other_and_are_cut_and_bounded() {
        let mut arena = Arena::new(1, 256, "test").unwrap();
        let mut slots = Vec::new();
        let mut intake = Intake {
            arena: &mut arena,
            slots: &mut slots,
            start: 0,
            most: 3,
            beyond: 0,
            snaplen: 128,
            nanoseconds: true,
        };
        let packet = [7u8; 200];
        for (seconds, caplen) in [(1, 60), (2, 200), (3, 1), (4, 1)] {
            // SAFETY: a header, as many bytes as it says, and the intake.
            unsafe {
                take((&raw mut intake).cast(), &header(seconds, 5, caplen, 300), packet.as_ptr());
            }
        }
        assert_eq!(intake.beyond, 1, "the fourth was not asked for");
        let lens: Vec<usize> = slots.iter().map(|slot| arena.region().bytes(slot).len()).collect();
        assert_eq!(lens, [60, 128, 1]);
        assert!(slots.iter().all(|slot| slot.wire_len == 300 && arena.region().bytes(slot)[0] == 7));
        assert_eq!((slots[0].arrival_ns, slots[0].offset(), slots[1].offset()), (1_000_000_005, 0, 64));
    }

    #[test]
    fn a_file_that_is_no_libpcap_is_named_with_the_linkers_words() {
        for (path, words) in
            [("/no/such/library.so", "/no/such/library.so"), ("/proc/self/exe", "cannot"), ("libc.so.6", "pcap_")]
        {
            let error = Library::load(Some(Path::new(path))).err().unwrap().to_string();
            assert!(error.starts_with("load libpcap") && error.contains(words), "{error}");
        }
    }
}
