//! Who has an interface's XDP hook: the program, the processes that hold it, and whether it feeds AF_XDP sockets.
//!
//! Owns looking; what follows from it is decided by those who ask.

use std::fmt;
use std::time::{Duration, Instant};

use aya::maps::{MapInfo, MapType};
use aya::programs::loaded_programs;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::sys::netlink;

/// How long a program of ours may take to go once nobody uses it.
const RELEASE: Duration = Duration::from_millis(500);

/// The XDP program on an interface.
#[derive(Debug, Clone, Serialize)]
pub struct Occupant {
    /// The kernel's number of the program.
    pub id: u32,
    /// Its name, as far as the kernel lets us see it.
    pub name: String,
    /// Whether it has a map of AF_XDP sockets, so that packets it gives to one reach no packet socket. False where the kernel
    /// does not let us see.
    pub feeds_sockets: bool,
    /// Processes that hold the program or its link: `NAME (pid N)`. Those of other users only root can see.
    pub holders: Vec<String>,
    /// Whether somebody means to keep it: it is not ours, or held by more than children of this process that have yet to run a
    /// program of their own (execve(2) closes what they were forked with).
    #[serde(skip)]
    is_kept: bool,
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = if self.holders.is_empty() { "no process holds it" } else { "held by " };
        write!(f, "XDP program {:?} (id {}), {held}{}", self.name, self.id, self.holders.join(", "))
    }
}

/// The XDP program on an interface, if there is one.
///
/// # Errors
/// The interface can't be looked at.
pub fn occupant(interface: &str, ifindex: u32) -> Result<Option<Occupant>> {
    let link = netlink::link_by_index(ifindex).map_err(|error| Error::os("look at", interface, &error))?;
    let Some(id) = link.xdp_program else { return Ok(None) };
    let info = loaded_programs().filter_map(std::result::Result::ok).find(|info| info.id() == id);
    let name = info.as_ref().and_then(|info| info.name_as_str()).unwrap_or("unnamed").to_owned();
    let maps = info.and_then(|info| info.map_ids().ok().flatten()).unwrap_or_default();
    let is_sockets =
        |&map: &u32| MapInfo::from_id(map).and_then(|map| map.map_type()).is_ok_and(|it| it == MapType::XskMap);
    let feeds_sockets = maps.iter().any(is_sockets);
    let holders = holders_of_program(id);
    let is_kept = name != super::PROGRAM || holders.iter().any(|&pid| !is_child(pid));
    let holders = holders.into_iter().map(|pid| format!("{} (pid {pid})", comm(pid))).collect();
    Ok(Some(Occupant { id, name, feeds_sockets, holders, is_kept }))
}

/// As [`occupant`], once a program of ours that is about to go has gone.
pub(crate) fn lasting_occupant(interface: &str, ifindex: u32) -> Result<Option<Occupant>> {
    let since = Instant::now();
    loop {
        let found = occupant(interface, ifindex)?;
        if found.as_ref().is_none_or(|found| found.is_kept) || since.elapsed() > RELEASE {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Occupant {
    /// How to be rid of it.
    pub(crate) fn way_out(&self, interface: &str) -> String {
        match self.holders.is_empty() {
            true => format!("detach it (ip link set dev {interface} xdp off)"),
            false => "stop that process first".to_owned(),
        }
    }
}

/// Processes with a file descriptor of the program or of its link (proc_pid_fdinfo(5) shows `prog_id`).
fn holders_of_program(id: u32) -> Vec<u32> {
    let wanted = format!("prog_id:\t{id}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_string_lossy().parse().ok());
    pids.filter(|pid| {
        std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten().any(|entry| {
            std::fs::read_to_string(entry.path()).is_ok_and(|text| text.lines().any(|line| line == wanted))
        })
    })
    .collect()
}

fn comm(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Whether the process was forked by this one (proc_pid_status(5)).
fn is_child(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.and_then(|parent| parent.trim().parse().ok()) == Some(std::process::id())
}
