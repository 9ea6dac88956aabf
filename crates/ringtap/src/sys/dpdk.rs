//! libringtap-dpdk.so, loaded at run time: DPDK's EAL, once in this process, and open ports of it.
//!
//! Owns the C interface (dpdk/ringtap_dpdk.h) and the bounds of what comes through it. Packets are looked at where the driver laid
//! them, in memory that DPDK maps.

mod sender;

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

use super::loaded::{cause, file_of, functions, text};
use super::memory::{Region, Slot};
use crate::burst::BURST_MAX;
use crate::error::{Error, Result};

pub(crate) use sender::Sender;

/// What the dynamic linker is asked for.
const NAME: &str = "libringtap-dpdk.so";
/// RINGTAP_DPDK_ABI.
const ABI: u32 = 2;
/// Room for what DPDK says.
const SAID_ROOM: usize = 1024;
/// Lines of it that are told.
const SAID_LINES: usize = 2;

/// struct ringtap_dpdk: only pointers to it exist.
#[repr(C)]
struct RawPort {
    _private: [u8; 0],
}

/// struct ringtap_dpdk_request.
#[repr(C)]
struct RawRequest {
    name: *const c_char,
    queues: u32,
    slots: u32,
    lent: u32,
    send_slots: u32,
    held: u32,
    promiscuous: u32,
}

/// struct ringtap_dpdk_facts.
#[repr(C)]
struct RawFacts {
    memory: *mut c_void,
    memory_bytes: u64,
    slots: u32,
    spreads: u32,
    promiscuous: u32,
    has_link: u32,
    is_virtual: u32,
    driver: [c_char; 32],
}

/// struct ringtap_dpdk_limits.
#[repr(C)]
struct RawLimits {
    queues: u32,
    spreads: u32,
    driver: [c_char; 32],
}

/// struct ringtap_dpdk_packet.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct RawPacket {
    offset: u64,
    token: u64,
    len: u32,
    wire_len: u32,
}

/// struct ringtap_dpdk_counts: packets since the port was opened.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Taken off the device; where the card counts, those that are still in the ring, too.
    pub(crate) received: u64,
    /// Refused by the device, whose ring was full.
    pub(crate) missed: u64,
    /// Came damaged.
    pub(crate) errors: u64,
}

functions! {
    fn ringtap_dpdk_abi() -> u32;
    fn ringtap_dpdk_version() -> *const c_char;
    fn ringtap_dpdk_try(c_int, *mut *mut c_char, *mut c_char, usize) -> c_int;
    fn ringtap_dpdk_start(c_int, *mut *mut c_char, *mut c_char, usize) -> c_int;
    fn ringtap_dpdk_ports(*mut c_char, usize);
    fn ringtap_dpdk_limits(*const c_char, *mut RawLimits) -> c_int;
    fn ringtap_dpdk_open(*const RawRequest, *mut RawFacts, *mut c_char, usize) -> *mut RawPort;
    fn ringtap_dpdk_close(*mut RawPort);
    fn ringtap_dpdk_receive(*mut RawPort, u32, *mut RawPacket, u32) -> u32;
    fn ringtap_dpdk_give_back(*mut RawPort, *const u64, u32);
    fn ringtap_dpdk_arm(*mut RawPort, u32) -> c_int;
    fn ringtap_dpdk_mask(*mut RawPort, u32);
    fn ringtap_dpdk_fd(*mut RawPort, u32) -> c_int;
    fn ringtap_dpdk_clear(*mut RawPort, u32);
    fn ringtap_dpdk_pending(*mut RawPort, u32) -> c_int;
    fn ringtap_dpdk_buffer(*mut RawPort, u32, *mut RawPacket) -> c_int;
    fn ringtap_dpdk_send(*mut RawPort, u32, *const RawPacket, u32) -> u32;
    fn ringtap_dpdk_counts(*mut RawPort, *mut Counts) -> c_int;
}

/// DPDK in this process, started for good: it can't be started twice, and its threads go on in the library's code.
pub(crate) struct Eal {
    library: Library,
    /// Version and file.
    name: String,
    told: String,
    /// What DPDK complained of when it looked for devices.
    said: String,
    /// Held where DPDK lets one thread in at a time: opening, closing, counting.
    control: Mutex<()>,
}

/// The one of this process.
static EAL: Mutex<Option<&'static Eal>> = Mutex::new(None);

/// What a port has, before it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Most receive queues.
    pub(crate) queues: u32,
    /// It spreads flows over them.
    pub(crate) spreads: bool,
    /// The driver's name.
    pub(crate) driver: String,
}

/// What was got when it was opened.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Descriptors of each queue, as far as the driver tells.
    pub(crate) slots: u32,
    /// Both directions of a flow come by the same queue.
    pub(crate) spreads: bool,
    /// Frames that are addressed to others come.
    pub(crate) promiscuous: bool,
    /// It has a link.
    pub(crate) has_link: bool,
    /// No card, but a device whose other end is a program.
    pub(crate) is_virtual: bool,
}

/// How to open a port.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Receive queues.
    pub(crate) queues: u32,
    /// Descriptors of each.
    pub(crate) slots: u32,
    /// Descriptors to send by of each, and packets that wait for one; 0: nothing is sent.
    pub(crate) send_slots: u32,
    /// Ask for frames that are addressed to others.
    pub(crate) promiscuous: bool,
}

/// An open port.
pub(crate) struct Port {
    eal: &'static Eal,
    handle: NonNull<RawPort>,
    region: Region,
}

// SAFETY: the shim lets the ways of the packets be used by one thread for each queue, which `Queue` sees to by `&mut self`, and the
// others by one at a time, which `Eal::control` sees to.
unsafe impl Send for Port {}
// SAFETY: as above.
unsafe impl Sync for Port {}

/// One receive queue of a port, and what is lent of it.
pub(crate) struct Queue {
    port: Arc<Port>,
    number: u32,
    packets: [RawPacket; BURST_MAX],
    tokens: [u64; BURST_MAX],
    /// Packets that did not lie in the port's memory.
    pub(crate) invalid: u64,
}

/// Version and file of the library that would be used.
///
/// # Errors
/// There is none, or it is of another version of the interface.
pub(crate) fn version(path: Option<&Path>) -> Result<String> {
    Library::load(path).map(|library| library.name())
}

impl Library {
    fn load(path: Option<&Path>) -> Result<Self> {
        let name = path.unwrap_or(Path::new(NAME));
        let object = name.display().to_string();
        let way_out = "install DPDK 22.11 or later (Debian: libdpdk-dev), then make build-dpdk install-dpdk, \
                       or name its file: --dpdk-library FILE";
        let failed = |error: &libloading::Error| {
            Error::failed("load the library for DPDK", &object, cause(&object, error)).way_out(way_out)
        };
        // SAFETY: loading runs the library's constructors and those of DPDK: it is the system's, or one the user named.
        let loaded = unsafe { Loaded::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| failed(&error))?;
        // Asked before all else: of another version other functions may be missing.
        // SAFETY: the function takes nothing and returns a number, in every version.
        let abi = unsafe {
            let abi = loaded.get::<unsafe extern "C" fn() -> u32>(b"ringtap_dpdk_abi\0");
            abi.map_err(|error| failed(&error))?()
        };
        if abi != ABI {
            let cause = format!("it is of version {abi} of the interface, and version {ABI} is needed");
            return Err(Error::failed("load the library for DPDK", object, cause)
                .way_out("build it from the same sources as this program: make build-dpdk install-dpdk"));
        }
        Self::of(loaded).map_err(|error| failed(&error))
    }

    fn name(&self) -> String {
        // SAFETY: the function takes nothing and returns a string that stays.
        let version = unsafe { text((self.ringtap_dpdk_version)()) };
        format!("{version}, {}", file_of(self.ringtap_dpdk_abi as *const c_void))
    }
}

/// Strings as main() gets them: the pointers live as long as this.
struct Argv {
    _strings: Vec<CString>,
    pointers: Vec<*mut c_char>,
}

impl Argv {
    fn new(arguments: &[String]) -> Result<Self> {
        let strings: Vec<_> = std::iter::once("ringtap")
            .chain(arguments.iter().map(String::as_str))
            .map(|word| {
                CString::new(word).map_err(|_| Error::usage("pass to DPDK's EAL", word, "it has a zero byte in it"))
            })
            .collect::<Result<_>>()?;
        let ended = strings.iter().map(|string| string.as_ptr().cast_mut()).chain([std::ptr::null_mut()]);
        Ok(Self { pointers: ended.collect(), _strings: strings })
    }

    /// Calls one of the functions that start EAL: its result, and what was said.
    fn call(
        &mut self,
        function: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut c_char, usize) -> c_int,
    ) -> (c_int, String) {
        let mut said = [0; SAID_ROOM];
        let count = (self.pointers.len() - 1) as c_int;
        // SAFETY: as many strings as are counted, with a null pointer behind them, whose order EAL may change; room of the size told.
        let result = unsafe { function(count, self.pointers.as_mut_ptr(), said.as_mut_ptr(), said.len()) };
        (result, plain(&said))
    }
}

/// Arguments as a message has them: a token for a virtual function is as good as a password.
fn shown<'w>(words: impl Iterator<Item = &'w str>) -> String {
    const TOKEN: &str = "--vfio-vf-token";
    let mut is_token = false;
    let shown = words.map(|word| match (std::mem::replace(&mut is_token, word == TOKEN), word.split_once('=')) {
        (true, _) => "***".to_owned(),
        (false, Some((TOKEN, _))) => format!("{TOKEN}=***"),
        (false, _) => word.to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// What DPDK said, on one line: its first words, which say why; those that follow tell what came of it.
fn plain(said: &[c_char]) -> String {
    // SAFETY: the shim ends what it writes by a zero, and our last byte is never written to by anyone else.
    let said = unsafe { text(said.as_ptr()) };
    let lines = said.lines().map(|line| line.trim().trim_start_matches("EAL: ")).filter(|line| !line.is_empty());
    lines.take(SAID_LINES).collect::<Vec<_>>().join("; ")
}

impl Eal {
    /// Starts it, or gives the one that runs. `told`: what the user said; `all`: what EAL is given, on a thread of its own, as it binds its
    /// caller to a CPU. `trial` goes first to a process that is made for it, since EAL ends its process where it likes.
    ///
    /// # Errors
    /// The library is not there or of another version; EAL refuses the arguments or finds no memory; it runs with other arguments.
    pub(crate) fn start(library: Option<&Path>, told: &str, all: &[String], trial: &[String]) -> Result<&'static Self> {
        let mut started = lock(&EAL);
        if let Some(eal) = *started {
            if eal.told == told {
                return Ok(eal);
            }
            let [now, then] = [told, &eal.told].map(|told| shown(told.split_whitespace()));
            let cause = format!("it was started in this process with {then:?}");
            return Err(Error::usage("start DPDK's EAL with", format!("{now:?}"), cause)
                .way_out("give all ports the same arguments"));
        }
        let library = Library::load(library)?;
        let failed = |words: &[String], cause: String| {
            Error::failed("start DPDK's EAL with", shown(words.iter().map(String::as_str)), cause)
                .way_out("correct --dpdk-args (docs/dpdk.md)")
        };
        let (result, said) = Argv::new(trial)?.call(library.ringtap_dpdk_try);
        let or = |said: String, cause: &str| if said.is_empty() { cause.to_owned() } else { said };
        match -result {
            0 => {}
            libc::ECHILD => return Err(failed(trial, or(said, "EAL ended the process it was tried in"))),
            libc::ETIMEDOUT => return Err(failed(trial, or(said, "EAL was not ready within a minute"))),
            _ => return Err(failed(trial, or(said, "EAL refuses them"))),
        }
        let mut argv = Argv::new(all)?;
        let start = library.ringtap_dpdk_start;
        let (result, said) = std::thread::scope(|scope| {
            let argv = SendArgv(&mut argv);
            let thread = std::thread::Builder::new().name("ringtap-eal".to_owned());
            // EAL keeps its own copies of what it needs of them.
            let thread = thread.spawn_scoped(scope, move || argv.start(start));
            let thread = thread.map_err(|error| Error::os("start", "the thread of DPDK's EAL", &error))?;
            thread.join().map_err(|_| failed(all, "its thread ended early".to_owned()))
        })?;
        if result != 0 {
            return Err(failed(all, or(said, "EAL refuses them")));
        }
        let eal = Self { name: library.name(), library, told: told.to_owned(), said, control: Mutex::new(()) };
        Ok(started.insert(Box::leak(Box::new(eal))))
    }

    /// Whether it was started in this process.
    pub(crate) fn runs() -> bool {
        lock(&EAL).is_some()
    }

    /// Version and file of what it is taken through.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What DPDK complained of when it looked for devices.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// Names of all ports.
    pub(crate) fn ports(&self) -> Vec<String> {
        let _alone = lock(&self.control);
        let mut names = [0; 4096];
        // SAFETY: room of the size told, which is ended by a zero.
        let names = unsafe {
            (self.library.ringtap_dpdk_ports)(names.as_mut_ptr(), names.len());
            text(names.as_ptr())
        };
        names.lines().map(str::to_owned).collect()
    }

    /// What the port called `name` has; `None` where there is none.
    pub(crate) fn limits(&self, name: &str) -> Option<Limits> {
        let name = CString::new(name).ok()?;
        let _alone = lock(&self.control);
        let mut limits = RawLimits { queues: 0, spreads: 0, driver: [0; 32] };
        // SAFETY: a string, and a structure for the answer, whose name the shim ends by a zero.
        unsafe {
            ((self.library.ringtap_dpdk_limits)(name.as_ptr(), &mut limits) == 0).then(|| Limits {
                queues: limits.queues,
                spreads: limits.spreads != 0,
                driver: text(limits.driver.as_ptr()),
            })
        }
    }

    /// Opens a port; packets come from here on.
    ///
    /// # Errors
    /// DPDK's words.
    pub(crate) fn open(&'static self, request: &Request<'_>) -> Result<(Arc<Port>, Vec<Queue>, Facts)> {
        let failed = |cause: String| Error::failed("open through DPDK", request.name, cause);
        let name = CString::new(request.name).map_err(|_| failed("no name has a zero byte in it".to_owned()))?;
        let raw = RawRequest {
            name: name.as_ptr(),
            queues: request.queues,
            slots: request.slots,
            lent: BURST_MAX as u32,
            send_slots: request.send_slots,
            // And one that is lent out to be written.
            held: request.send_slots + 1,
            promiscuous: request.promiscuous.into(),
        };
        let mut said = [0; SAID_ROOM];
        // SAFETY: all zeroes are valid numbers, a null pointer and an empty string.
        let mut facts: RawFacts = unsafe { std::mem::zeroed() };
        let handle = {
            let _alone = lock(&self.control);
            // SAFETY: a request whose name lives through the call, a structure for the answer, and room of the size told.
            unsafe { (self.library.ringtap_dpdk_open)(&raw, &mut facts, said.as_mut_ptr(), said.len()) }
        };
        let handle = NonNull::new(handle).ok_or_else(|| {
            let cause = plain(&said);
            match cause.as_str() {
                // ENOMEM and ENOBUFS.
                "Cannot allocate memory" | "No buffer space available" => failed(cause)
                    .way_out("use a smaller --ring or --out-ring, or give DPDK more memory with -m MIB in --dpdk-args"),
                _ => failed(cause),
            }
        })?;
        let memory = NonNull::new(facts.memory.cast()).unwrap_or(NonNull::dangling());
        let len = usize::try_from(facts.memory_bytes).unwrap_or(0);
        // SAFETY: the shim says so of the port's memory; it is closed with the port, and slots are packets it has lent.
        let region = unsafe { Region::lent(memory, len) };
        let port = Arc::new(Port { eal: self, handle, region });
        let queue = |number| Queue {
            port: Arc::clone(&port),
            number,
            packets: [RawPacket::default(); BURST_MAX],
            tokens: [0; BURST_MAX],
            invalid: 0,
        };
        let facts = Facts {
            slots: facts.slots,
            spreads: facts.spreads != 0,
            promiscuous: facts.promiscuous != 0,
            has_link: facts.has_link != 0,
            is_virtual: facts.is_virtual != 0,
        };
        let queues = (0..request.queues).map(queue).collect();
        Ok((port, queues, facts))
    }
}

/// Pointers into strings that live on the thread that waits for this one.
struct SendArgv<'a>(&'a mut Argv);

// SAFETY: the strings are not touched by their owner while the other thread has the only reference to them.
unsafe impl Send for SendArgv<'_> {}

impl SendArgv<'_> {
    fn start(
        self,
        start: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut c_char, usize) -> c_int,
    ) -> (c_int, String) {
        self.0.call(start)
    }
}

impl Port {
    /// The memory the slots are in.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// The device's counters; `None` where they can't be read.
    pub(crate) fn counts(&self) -> Option<Counts> {
        let _alone = lock(&self.eal.control);
        let mut counts = Counts::default();
        // SAFETY: an open port, and a structure for its answer.
        let result = unsafe { (self.eal.library.ringtap_dpdk_counts)(self.handle.as_ptr(), &mut counts) };
        (result == 0).then_some(counts)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _alone = lock(&self.eal.control);
        // SAFETY: ours, and closed once; all queues, which have a share in it, are gone.
        unsafe { (self.eal.library.ringtap_dpdk_close)(self.handle.as_ptr()) };
    }
}

impl Queue {
    /// Its number, from 0.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Up to `most` packets that are there now, into `slots` (which has room for them), stamped with the time `now_ns` that is asked for
    /// once. How many came, those included that did not lie in the port's memory.
    pub(crate) fn receive(&mut self, most: usize, slots: &mut Vec<Slot>, now_ns: impl FnOnce() -> u64) -> usize {
        let most = most.min(BURST_MAX).min(slots.capacity() - slots.len());
        let Self { port, number, packets, invalid, .. } = self;
        // SAFETY: an open port, one of its queues, which `&mut self` keeps others from, and room for as many as are asked for.
        let got = unsafe {
            (port.eal.library.ringtap_dpdk_receive)(port.handle.as_ptr(), *number, packets.as_mut_ptr(), most as u32)
        };
        let got = (got as usize).min(most);
        if got == 0 {
            return 0;
        }
        let arrival_ns = now_ns();
        for packet in &packets[..got] {
            let offset = usize::try_from(packet.offset).unwrap_or(usize::MAX);
            let Some(mut slot) = Slot::new(&port.region, offset, packet.len) else {
                *invalid += 1;
                // SAFETY: as below, for a packet that nobody else knows.
                unsafe { (port.eal.library.ringtap_dpdk_give_back)(port.handle.as_ptr(), &packet.token, 1) };
                continue;
            };
            slot.wire_len = packet.wire_len.max(packet.len);
            slot.arrival_ns = arrival_ns;
            slot.token = packet.token;
            slots.push(slot);
        }
        got
    }

    /// The packets may be reused.
    pub(crate) fn give_back(&mut self, slots: &[Slot]) {
        for part in slots.chunks(BURST_MAX) {
            for (token, slot) in self.tokens.iter_mut().zip(part) {
                *token = slot.token;
            }
            let port = &self.port;
            // SAFETY: tokens of packets that this port lent, each given back once: their slots end here.
            unsafe {
                let give_back = port.eal.library.ringtap_dpdk_give_back;
                give_back(port.handle.as_ptr(), self.tokens.as_ptr(), part.len() as u32);
            }
        }
    }

    /// Lets the interrupt through, as if it had not come yet. `false`: there is none.
    pub(crate) fn arm(&mut self) -> bool {
        let (library, handle) = (&self.port.eal.library, self.port.handle.as_ptr());
        // SAFETY: an open port, one of its queues, which `&mut self` keeps others from.
        unsafe {
            (library.ringtap_dpdk_clear)(handle, self.number);
            (library.ringtap_dpdk_arm)(handle, self.number) == 0
        }
    }

    /// Holds the interrupt back.
    pub(crate) fn mask(&mut self) {
        // SAFETY: as above.
        unsafe { (self.port.eal.library.ringtap_dpdk_mask)(self.port.handle.as_ptr(), self.number) };
    }

    /// What the interrupt makes readable; `None`: there is none.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: an open port and one of its queues; the descriptor is the port's, and open as long as it is.
        unsafe {
            let fd = (self.port.eal.library.ringtap_dpdk_fd)(self.port.handle.as_ptr(), self.number);
            (fd >= 0).then(|| BorrowedFd::borrow_raw(fd))
        }
    }

    /// Packets that wait; `None` where the driver can't tell.
    pub(crate) fn pending(&mut self) -> Option<u64> {
        // SAFETY: an open port, one of its queues, which `&mut self` keeps others from.
        let count = unsafe { (self.port.eal.library.ringtap_dpdk_pending)(self.port.handle.as_ptr(), self.number) };
        u64::try_from(count).ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown() {
        for (told, wanted) in [
            ("-l 1 --vfio-vf-token 14d6 -l 99", "-l 1 --vfio-vf-token *** -l 99"),
            ("--vfio-vf-token=14d6 -m 64", "--vfio-vf-token=*** -m 64"),
            ("-a 0000:02:00.0 --vfio-vf-token", "-a 0000:02:00.0 --vfio-vf-token"),
        ] {
            assert_eq!(shown(told.split_whitespace()), wanted);
        }
    }

    #[test]
    fn what_is_no_library_of_ours_is_named() {
        for (path, words) in [("/no/such.so", "No such file"), ("libc.so.6", "ringtap_dpdk_abi")] {
            let error = Library::load(Some(Path::new(path))).err().unwrap().to_string();
            assert!(error.starts_with("load the library for DPDK") && error.contains(words), "{error}");
            assert!(error.contains("--dpdk-library"), "{error}");
        }
    }

    #[test]
    fn what_dpdk_says_becomes_one_line() {
        let said: Vec<c_char> =
            b"EAL: first\n\nvhost: second \nEAL: third\n\0".iter().map(|&byte| byte as c_char).collect();
        assert_eq!(plain(&said), "first; vhost: second");
        assert_eq!(plain(&[0]), "");
    }
}
