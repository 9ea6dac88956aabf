//! Any sequence of calls to the C functions of Ringtap's libpcap, on null, on handles of no device, of files made of the
//! input, not yet activated, and live: libpcap's codes, no crash, no call that never returns, no descriptor left.
//!
//! As root it makes itself a network namespace in which there is only `lo`; without, no handle is activated. One input in
//! sixteen may activate, as a live handle takes the kernel some 30 ms. Freed handles are not used: that is the caller's error.
#![no_main]

#[path = "../pcap_calls.rs"]
mod calls;

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_uchar, c_uint};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use calls::*;
use libfuzzer_sys::fuzz_target;
// Brings the exported functions in.
use ringtap_pcap as _;

/// Whether there is a namespace of our own to capture in.
static LIVE: OnceLock<bool> = OnceLock::new();

fn prepare() {
    // SAFETY: plain system call; this is the process's only thread so far.
    let own = unsafe { unshare(CLONE_NEWNET) } == 0;
    let up = || Command::new("ip").args(["link", "set", "lo", "up"]).status().is_ok_and(|status| status.success());
    LIVE.get_or_init(|| own && up());
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Nothing,
    Created,
    Active,
    /// Of a file or of no device.
    Fixed,
}

#[derive(Clone, Copy)]
struct Slot {
    p: *mut Pcap,
    state: State,
    nonblocking: bool,
    activated: bool,
}

const EMPTY: Slot = Slot { p: std::ptr::null_mut(), state: State::Nothing, nonblocking: false, activated: false };

/// Choices, taken from the input; zeros once it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = (usize::from(self.byte()) * 4).min(most).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> c_int {
        self.one_of(&[-1, 0, 1, 2, 3, 5, 64, 96, 143, 4096, 65_535, 262_144, 1 << 20, c_int::MAX, c_int::MIN])
    }
}

fuzz_target!(init: prepare(), |bytes: &[u8]| {
    let mut input = Input(bytes);
    let live = input.byte() & 15 == 0 && LIVE.get() == Some(&true);
    let mut slots = [EMPTY; 3];
    while !input.0.is_empty() {
        let slot = input.below(slots.len());
        call(&mut slots[slot], &mut input, live);
    }
    for slot in slots {
        // SAFETY: null or an open handle, which nobody uses afterwards.
        unsafe { pcap_close(slot.p) };
    }
    thread_local!(static RUNS: Cell<(u64, usize)> = const { Cell::new((0, 0)) });
    let (runs, before) = RUNS.get();
    if runs % 256 == 1 {
        let open = descriptors();
        // The first run loads what stays.
        assert!(runs == 1 || open.len() <= before, "{before} descriptors, then {open:?}");
        RUNS.set((runs + 1, open.len()));
    } else {
        RUNS.set((runs + 1, before));
    }
});

/// Sockets, events and the like that are open; libFuzzer has pipes of its own.
fn descriptors() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links
        .filter(|link| ["socket:", "anon_inode:"].iter().any(|kind| link.to_string_lossy().starts_with(kind)))
        .collect()
}

extern "C" fn deliver(user: *mut c_uchar, header: *const Header, data: *const c_uchar) {
    // SAFETY: libpcap promises a header and `caplen` bytes; `user` is the handle that delivers.
    unsafe {
        let caplen = (*header).caplen as usize;
        if let Some(&last) = std::slice::from_raw_parts(data, caplen).last() {
            std::hint::black_box(last);
            match last & 31 {
                0 => pcap_breakloop(user.cast()),
                1 => _ = pcap_stats(user.cast(), &mut Stat::default()),
                _ => {}
            }
        }
    }
}

/// A device that is there only where `live` is told.
fn device(input: &mut Input<'_>, live: bool) -> Option<CString> {
    const OPTIONS: [&str; 10] = [
        "",
        "?backend=packet",
        "?backend=socket",
        "?backend=xdp",
        "?backend=system",
        "?max_latency=100us&ring=64",
        "?ring=1",
        "?napi_pacing=x",
        "?=&&==",
        "?max_latency=1e400s",
    ];
    match input.below(6) {
        0 if live => None,
        1 => {
            Some(CString::new(input.bytes(40).split(|byte| *byte == 0).next().unwrap_or_default()).unwrap_or_default())
        }
        2 => Some(c"ringtap:".to_owned()),
        3 if live => Some(input.one_of(&[c"lo", c"any"]).to_owned()),
        _ => {
            let name = if live { "lo" } else { "no-such-device" };
            CString::new(format!("ringtap:{name}{}", input.one_of(&OPTIONS))).ok()
        }
    }
}

/// A filter made of words, so that many are sound and none looks a name up.
fn expression(input: &mut Input<'_>) -> CString {
    const WORDS: [&str; 16] = [
        "udp",
        "vlan 5",
        "(",
        ")",
        " and ",
        " or ",
        "not ",
        "port 80",
        "inbound",
        "ip[0] & 15 = 5",
        "less 100",
        "ether[70000] = 1",
        "host 192.0.2.1",
        "proto 47",
        "]",
        "mpls",
    ];
    let count = input.below(8);
    CString::new((0..count).map(|_| input.one_of(&WORDS)).collect::<String>()).unwrap_or_default()
}

fn open(slot: &mut Slot, input: &mut Input<'_>, live: bool) {
    let mut errbuf = [0 as c_char; 256];
    let errbuf = errbuf.as_mut_ptr();
    // SAFETY: strings and buffers live through the calls; what is made is kept in the slot.
    let (p, state) = unsafe {
        match input.below(4) {
            0 => (pcap_open_dead(input.number(), input.number()), State::Fixed),
            1 => {
                // Of the input, which outlives the handle; fmemopen(3) takes no empty file.
                let bytes = Some(input.bytes(1000)).filter(|bytes| !bytes.is_empty()).unwrap_or(&[0]);
                let file = fmemopen(bytes.as_ptr().cast_mut().cast(), bytes.len(), c"r".as_ptr());
                let p = pcap_fopen_offline_with_tstamp_precision(file, input.below(3) as c_uint, errbuf);
                if p.is_null() && !file.is_null() {
                    fclose(file);
                }
                (p, State::Fixed)
            }
            _ => {
                let name = device(input, live);
                let p = pcap_create(name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()), errbuf);
                assert!(!p.is_null() || *errbuf != 0, "a reason");
                pcap_set_timeout(p, 1);
                (p, State::Created)
            }
        }
    };
    *slot = Slot { p, state: if p.is_null() { State::Nothing } else { state }, ..EMPTY };
}

fn call(slot: &mut Slot, input: &mut Input<'_>, live: bool) {
    let (p, was) = (slot.p, slot.state);
    let mut errbuf = [0 as c_char; 256];
    let errbuf = errbuf.as_mut_ptr();
    let frame = [0x5a_u8; 60];
    let choice = input.below(30);
    // A blocking call is made only where something ends it.
    if (7..=10).contains(&choice) && was == State::Active && !slot.nonblocking {
        // SAFETY: an open handle.
        unsafe { pcap_breakloop(p) };
    }
    // SAFETY: null or an open handle; strings and buffers live through the calls, which keep none of them.
    unsafe {
        match choice {
            0 if p.is_null() => open(slot, input, live),
            1 => {
                pcap_close(p);
                *slot = EMPTY;
            }
            2 | 3 if live || was != State::Created => {
                // Once per handle and input: it takes time.
                if was == State::Created && std::mem::replace(&mut slot.activated, true) {
                    return;
                }
                let result = pcap_activate(p);
                assert!(was == State::Created || result < 0, "{result}");
                if was == State::Created && result >= 0 {
                    slot.state = State::Active;
                }
            }
            4 => {
                let result = pcap_set_snaplen(p, input.number());
                assert!((result == 0) == (was == State::Created), "{result}");
            }
            5 => {
                let value = input.number();
                match input.below(8) {
                    0 => pcap_set_promisc(p, value),
                    1 => pcap_set_immediate_mode(p, value),
                    // Larger ones are lawful and take the memory of the machine.
                    2 => pcap_set_buffer_size(p, value.min(1 << 20)),
                    3 => pcap_set_tstamp_type(p, value),
                    4 => pcap_set_tstamp_precision(p, value),
                    5 => pcap_set_protocol_linux(p, value),
                    6 => pcap_set_rfmon(p, value),
                    _ => pcap_can_set_rfmon(p),
                };
            }
            6 => slot.nonblocking |= pcap_setnonblock(p, 1, errbuf) == 0,
            7 | 8 => {
                let result = pcap_dispatch(p, input.number(), Some(deliver), p.cast());
                assert!(was != State::Nothing || result == PCAP_ERROR, "{result}");
                assert!(was != State::Created || slot.activated || result == PCAP_ERROR_NOT_ACTIVATED, "{result}");
            }
            9 => {
                let (mut header, mut data) = (std::ptr::null_mut(), std::ptr::null());
                let result = pcap_next_ex(p, &mut header, &mut data);
                assert!(was != State::Nothing || result == PCAP_ERROR, "{result}");
                if result == 1 {
                    deliver(p.cast(), header, data);
                }
            }
            10 => {
                let mut header = Header::default();
                let data = pcap_next(p, &mut header);
                assert!(matches!(was, State::Active | State::Fixed) || data.is_null());
            }
            // The system's spins on a nonblocking live one, and so does this.
            11 if was != State::Active => _ = pcap_loop(p, input.number(), Some(deliver), p.cast()),
            12 => {
                let mut program = Program { len: 0, instructions: std::ptr::null_mut() };
                if pcap_compile(p, &mut program, expression(input).as_ptr(), input.number(), 0) == 0 {
                    pcap_setfilter(p, &mut program);
                    pcap_freecode(&mut program);
                }
            }
            13 => {
                let bytes = input.bytes(64);
                let mut code: Vec<u64> = bytes
                    .chunks_exact(8)
                    .map(|eight| u64::from_ne_bytes(eight.try_into().unwrap_or_default()))
                    .collect();
                let mut program = Program { len: code.len() as c_uint, instructions: code.as_mut_ptr().cast() };
                pcap_setfilter(p, &mut program);
            }
            14 => assert!(pcap_setfilter(p, std::ptr::null_mut()) < 0),
            15 => _ = pcap_setdirection(p, input.number()),
            16 => {
                let result = pcap_stats(p, &mut Stat::default());
                assert!(was != State::Nothing || result < 0, "{result}");
            }
            17 => _ = pcap_inject(p, frame.as_ptr().cast(), input.below(frame.len() + 1)),
            18 => _ = pcap_sendpacket(p, frame.as_ptr(), input.one_of(&[-1, 0, 14, 60])),
            19 => {
                let mut list = std::ptr::null_mut();
                if pcap_list_datalinks(p, &mut list) > 0 {
                    pcap_free_datalinks(list);
                }
                _ = pcap_set_datalink(p, input.number());
            }
            20 => {
                let mut list = std::ptr::null_mut();
                if pcap_list_tstamp_types(p, &mut list) > 0 {
                    pcap_free_tstamp_types(list);
                }
            }
            21 => pcap_breakloop(p),
            22 => {
                pcap_fileno(p);
                pcap_get_selectable_fd(p);
                pcap_get_required_select_timeout(p);
                pcap_getnonblock(p, errbuf);
            }
            23 => {
                for ask in [
                    pcap_datalink,
                    pcap_datalink_ext,
                    pcap_snapshot,
                    pcap_bufsize,
                    pcap_is_swapped,
                    pcap_major_version,
                    pcap_minor_version,
                    pcap_get_tstamp_precision,
                ] {
                    ask(p);
                }
                assert!(!pcap_geterr(p).is_null());
            }
            24 => {
                let dumper = pcap_dump_open(p, c"/dev/null".as_ptr());
                if !dumper.is_null() {
                    let header = Header { caplen: 60, len: 60, ..Header::default() };
                    pcap_dump(dumper.cast(), &header, frame.as_ptr());
                    pcap_dump_close(dumper);
                }
            }
            25 => {
                let name = device(input, live);
                let (mut net, mut mask) = (0, 0);
                pcap_lookupnet(
                    name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
                    &mut net,
                    &mut mask,
                    errbuf,
                );
            }
            26 if live => {
                let name = device(input, live).unwrap_or_default();
                let made = pcap_open_live(name.as_ptr(), input.number(), 0, 1, errbuf);
                pcap_close(made);
            }
            _ => {}
        }
    }
}
