//! `ringtap pcap-run`: one program with Ringtap's libpcap instead of the system's.
//!
//! Owns where the library is looked for and the environment of the program. The library itself is the crate ringtap-pcap.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use ringtap::{Error, Result};

use ringtap_run::units;

/// Names under which programs look for libpcap: Debian's, and everybody else's.
const NAMES: [&str; 2] = ["libpcap.so.0.8", "libpcap.so.1"];
/// What cargo calls the library.
const BUILT: &str = "libringtap_pcap.so";

const AFTER_HELP: &str = "\
Examples:
  ringtap pcap-run -- tcpdump -i eth1 -w storm.pcap
  ringtap pcap-run --max-latency 250us -- suricata --pcap=eth1 -c suricata.yaml
  ringtap pcap-run --backend xdp -- tshark -i eth1
  tcpdump -i 'ringtap:eth1?max_latency=100us'         once the library is the system's

Live capture on Ethernet interfaces is Ringtap's, everything else the libpcap's that Ringtap was built with. The options set
RINGTAP_BACKEND, RINGTAP_MAX_LATENCY, RINGTAP_RING, RINGTAP_TAKE and RINGTAP_NAPI_PACING, which work without this command too,
as does a device name such as ringtap:eth1?backend=packet.

By default (backend auto) packets are taken by AF_XDP from an interface that the host uses in no way that `ringtap doctor` names
(addresses, link-local ones too; bridges, VLANs, routes, tc, IPsec, PPPoE), if the program asks for promiscuous mode; then no
other program sees them. From every other interface they are copied beside the host.

The library is looked for beside this command, in ../lib/ringtap and where RINGTAP_PCAP_LIBRARY says. Programs that change
users at their start (set-user-ID, file capabilities) ignore the search path this command sets.";

/// Run one program on Ringtap's libpcap
///
/// The program is not changed: it finds Ringtap's library in place of the system's libpcap.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// How packets are taken: auto, xdp, packet, socket, or system (the real libpcap)
    #[arg(long, value_name = "BACKEND", value_parser = ["auto", "xdp", "packet", "socket", "system"])]
    backend: Option<String>,

    /// Longest time from a packet's arrival to its delivery; 1ms where the program does not ask for immediate delivery
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    max_latency: Option<std::time::Duration>,

    /// Slots of each ring, 64 to 1048576
    #[arg(long, value_name = "SLOTS", value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    ring: Option<u32>,

    /// Take packets away from the host's own interface with AF_XDP
    #[arg(long)]
    take: bool,

    /// Pause between polls of the kernel's NAPI (AF_XDP); 0us leaves it alone; without it: by the bound, see ringtap-pcap(7)
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    napi_pacing: Option<std::time::Duration>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command: becomes the program.
///
/// # Errors
/// The library or the program is not there.
pub fn run(args: Args) -> Result<ExitCode> {
    let library = library()?;
    let folder = search_folder(&library)?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Error::usage("run", "pcap-run", "no command").way_out("name one after --"));
    };
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", search_path(&folder, std::env::var_os("LD_LIBRARY_PATH")));
    let micros = |time: std::time::Duration| format!("{}us", time.as_nanos() as f64 / 1e3);
    let settings = [
        ("RINGTAP_BACKEND", args.backend),
        ("RINGTAP_MAX_LATENCY", args.max_latency.map(micros)),
        ("RINGTAP_RING", args.ring.map(|slots| slots.to_string())),
        ("RINGTAP_TAKE", args.take.then(|| "1".to_owned())),
        ("RINGTAP_NAPI_PACING", args.napi_pacing.map(micros)),
    ];
    command.envs(settings.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let error = command.exec();
    Err(Error::os("run", program.display().to_string(), &error).way_out("check its name and that it may be run"))
}

/// The library: as told, installed, or just built.
fn library() -> Result<PathBuf> {
    if let Some(told) = std::env::var_os("RINGTAP_PCAP_LIBRARY") {
        let told = PathBuf::from(told);
        return if told.is_file() {
            Ok(told)
        } else {
            Err(Error::failed("find library", told.display().to_string(), "there is no such file")
                .way_out("correct RINGTAP_PCAP_LIBRARY"))
        };
    }
    let own = std::env::current_exe().map_err(|error| Error::os("find", "this command's own file", &error))?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let candidates = [beside.join("../lib/ringtap").join(NAMES[0]), beside.join(BUILT)];
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        Error::failed("find library", "libpcap of Ringtap", format!("it is not at {}", list(&candidates)))
            .way_out("install it: make install-pcap, or build it: cargo build --release -p ringtap-pcap")
    })
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" nor at ")
}

/// A folder in which the library has the names that programs look for: its own, or one of links beside a fresh build.
fn search_folder(library: &Path) -> Result<PathBuf> {
    let failed = |path: &Path, error: &std::io::Error| {
        Error::os("link library into", path.display().to_string(), error).way_out("install it: make install-pcap")
    };
    let library = library.canonicalize().map_err(|error| failed(library, &error))?;
    let own = library.parent().unwrap_or(Path::new("/"));
    if NAMES.iter().all(|name| own.join(name).exists()) {
        return Ok(own.to_owned());
    }
    let folder = own.join("ringtap-pcap-run");
    std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    for name in NAMES {
        let link = folder.join(name);
        if std::fs::canonicalize(&link).is_ok_and(|target| target == library) {
            continue;
        }
        // Made beside and renamed, so that several runs at once find a link that is there.
        let fresh = folder.join(format!("{name}.{}", std::process::id()));
        std::os::unix::fs::symlink(&library, &fresh)
            .and_then(|()| std::fs::rename(&fresh, &link))
            .map_err(|error| failed(&link, &error))?;
    }
    Ok(folder)
}

/// Ours first, then what was searched anyway.
fn search_path(folder: &Path, before: Option<OsString>) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        path.push(":");
        path.push(before);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_searched_first() {
        assert_eq!(search_path(Path::new("/a"), None), "/a");
        assert_eq!(search_path(Path::new("/a"), Some("".into())), "/a");
        assert_eq!(search_path(Path::new("/a"), Some("/b:/c".into())), "/a:/b:/c");
    }

    #[test]
    fn a_fresh_build_gets_links_by_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join(BUILT);
        std::fs::write(&built, "").unwrap();
        for _ in 0..2 {
            let found = search_folder(&built).unwrap();
            for name in NAMES {
                assert_eq!(found.join(name).canonicalize().unwrap(), built.canonicalize().unwrap());
            }
        }
        let installed = tempfile::tempdir().unwrap();
        for name in NAMES {
            std::fs::write(installed.path().join(name), "").unwrap();
        }
        let found = search_folder(&installed.path().join(NAMES[0])).unwrap();
        assert_eq!(found, installed.path().canonicalize().unwrap());
    }
}
