//! The arguments of DPDK's EAL: which there are, and what is added to what the user said.
//!
//! Owns the table of options. EAL's own answer to one that it does not know is its usage on standard output, without the name of
//! what it did not like; to some it ends the process. So they are looked at here first.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::error::{Error, Result};

/// Options that can be passed on, as of DPDK 22.11 and 24.11 (doc: guides/linux_gsg/linux_eal_parameters).
const OPTIONS: &[(&[&str], Takes, About)] = &[
    (&["-a", "--allow"], Takes::Value, About::Devices),
    (&["-b", "--block"], Takes::Value, About::Devices),
    (&["--vdev"], Takes::Value, About::Devices),
    (&["--no-pci"], Takes::Nothing, About::Devices),
    (&["-c"], Takes::Value, About::Cores),
    (&["-l"], Takes::Value, About::Cores),
    (&["--lcores"], Takes::Value, About::Cores),
    (&["-m"], Takes::Value, About::Memory),
    (&["--no-huge"], Takes::Nothing, About::SmallPages),
    (&["--huge-dir"], Takes::Value, About::HugePages),
    (&["--huge-unlink"], Takes::MaybeValue, About::HugePages),
    (&["--huge-worker-stack"], Takes::MaybeValue, About::HugePages),
    (&["--in-memory"], Takes::Nothing, About::HugePages),
    (&["--legacy-mem"], Takes::Nothing, About::HugePages),
    (&["--match-allocations"], Takes::Nothing, About::HugePages),
    (&["--single-file-segments"], Takes::Nothing, About::HugePages),
    (&["--socket-limit"], Takes::Value, About::HugePages),
    (&["--socket-mem"], Takes::Value, About::HugePages),
    (&["-d"], Takes::Value, About::Other),
    (&["-n"], Takes::Value, About::Other),
    (&["-r"], Takes::Value, About::Other),
    (&["--base-virtaddr"], Takes::Value, About::Other),
    (&["--file-prefix"], Takes::Value, About::Other),
    (&["--force-max-simd-bitwidth"], Takes::Value, About::Other),
    (&["--iova-mode"], Takes::Value, About::Other),
    (&["--log-level"], Takes::Value, About::Other),
    (&["--main-lcore"], Takes::Value, About::Other),
    (&["--mbuf-pool-ops-name"], Takes::Value, About::Other),
    (&["--no-hpet"], Takes::Nothing, About::Other),
    (&["--no-shconf"], Takes::Nothing, About::Other),
    (&["--no-telemetry"], Takes::Nothing, About::Other),
    (&["--syslog"], Takes::Value, About::Other),
    (&["--telemetry"], Takes::Nothing, About::Other),
    (&["--vfio-intr"], Takes::Value, About::Other),
    (&["--vfio-vf-token"], Takes::Value, About::Other),
];

/// Bytes of memory that a packet's buffer takes among small pages: some 2.5 KB (the frame, DPDK's head room and head), none of which lies
/// across a page's end (rte_mempool_op_populate_helper).
const BUFFER_BYTES: u64 = 4096;
/// Memory of rings, heaps and drivers beside that, MiB.
const BESIDE_MIB: u64 = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// Only behind an equals sign.
    MaybeValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Devices,
    Cores,
    Memory,
    SmallPages,
    HugePages,
    Other,
}

/// What EAL is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// All of them, without the program's name.
    pub(crate) all: Vec<String>,
    /// The same without devices: what can be tried without touching one.
    pub(crate) without_devices: Vec<String>,
    /// Memory that EAL will map at once, MiB; 0 where it takes huge pages as it needs them.
    pub(crate) mib: u64,
}

/// What the receiver that starts EAL needs of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants<'a> {
    /// The port's name.
    pub(crate) port: &'a str,
    /// CPUs its threads may use.
    pub(crate) cpus: &'a [usize],
    /// Buffers of all its queues; the others that are named have as many.
    pub(crate) buffers: u64,
    /// Ports that will be opened at least.
    pub(crate) ports: u64,
    /// Keep them in huge pages.
    pub(crate) huge_pages: bool,
}

impl Arguments {
    /// What the user `told`, and what is missing in it.
    ///
    /// # Errors
    /// An option that EAL does not know or that would end the process, or one without its value.
    pub(crate) fn new(told: &str, wants: Wants<'_>) -> Result<Self> {
        let mut words = told.split_whitespace();
        let (mut devices, mut others) = (Vec::new(), Vec::new());
        let (mut about, mut names) = (Vec::new(), Vec::new());
        let mut mib = None;
        while let Some(word) = words.next() {
            let (name, value) = divide(word);
            let (takes, kind) = find(name)?;
            let refuse = |cause: &str| Err(refused(word, cause.to_owned()));
            let list = if kind == About::Devices { &mut devices } else { &mut others };
            list.push(word.to_owned());
            let value = match (takes, value) {
                (Takes::Nothing, Some(_)) => return refuse("this option takes no value"),
                (Takes::Value, Some("")) => return refuse("its value is missing"),
                (Takes::Value, None) => match words.next() {
                    Some(value) if !value.starts_with('-') => {
                        list.push(value.to_owned());
                        Some(value)
                    }
                    _ => return refuse("its value is missing"),
                },
                (_, value) => value,
            };
            if kind == About::Memory {
                mib = value.and_then(|value| value.parse().ok());
            }
            about.push(kind);
            names.push(name);
        }
        let has = |kind| about.contains(&kind);
        if !has(About::Devices) {
            // No card but the one that was asked for.
            devices.extend(if is_pci(wants.port) {
                vec!["-a".to_owned(), wants.port.to_owned()]
            } else {
                vec!["--no-pci".to_owned()]
            });
        } else if !names.iter().any(|name| ["-a", "--allow", "-b", "--block", "--no-pci"].contains(name)) {
            devices.push("--no-pci".to_owned());
        }
        if !has(About::Cores) {
            let cpus: Vec<_> = wants.cpus.iter().map(ToString::to_string).collect();
            others.push(format!("--lcores=0@({})", cpus.join(",")));
        }
        let is_huge = has(About::HugePages) || (wants.huge_pages && !has(About::SmallPages));
        if is_huge {
            // Pages without a name: none stays behind when the process is killed.
            let has_own_way = names.iter().any(|name| OWN_WAYS.contains(name));
            others.extend((!has_own_way).then(|| "--in-memory".to_owned()));
        } else {
            others.extend((!has(About::SmallPages)).then(|| "--no-huge".to_owned()));
            others.extend((!names.contains(&"--no-shconf")).then(|| "--no-shconf".to_owned()));
            if !has(About::Memory) {
                let named = names.iter().filter(|name| ["--vdev", "-a", "--allow"].contains(name)).count();
                let enough = ((wants.ports.max(named as u64) * wants.buffers * BUFFER_BYTES) >> 20) + BESIDE_MIB;
                others.push(format!("-m{enough}"));
                mib = Some(enough);
            }
        }
        if !names.contains(&"--telemetry") && !names.contains(&"--no-telemetry") {
            others.push("--no-telemetry".to_owned());
        }
        let without_devices = others.iter().cloned().chain(["--no-pci".to_owned()]).collect();
        Ok(Self { all: others.into_iter().chain(devices).collect(), without_devices, mib: mib.unwrap_or(0) })
    }
}

/// Ways to keep huge pages in files, which `--in-memory` excludes.
const OWN_WAYS: [&str; 6] =
    ["--in-memory", "--huge-dir", "--huge-unlink", "--legacy-mem", "--single-file-segments", "--file-prefix"];

/// Sockets that virtual devices among the arguments listen on: those of net_vhost, and of virtio_user as a server.
pub fn listening_sockets(told: &str) -> impl Iterator<Item = &Path> {
    told.split_whitespace().filter_map(|word| {
        let device = word.strip_prefix("--vdev=").unwrap_or(word);
        let value = |name: &str| device.split(',').find_map(|part| part.strip_prefix(name));
        let path = match () {
            () if device.starts_with("net_vhost") => value("iface="),
            () if device.starts_with("virtio_user") && value("server=") == Some("1") => value("path="),
            () => None,
        };
        path.map(Path::new).filter(|path| path.is_absolute())
    })
}

/// Removes the sockets that a killed process has left: nobody listens on them, and DPDK would refuse to.
pub(super) fn remove_dead_sockets(told: &str) {
    for path in listening_sockets(told) {
        let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
        let is_dead = || UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if is_socket && is_dead() {
            // DPDK says what is wrong where this does not succeed.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether it is a PCI address, as 0000:02:00.0 or 02:00.0.
pub(super) fn is_pci(name: &str) -> bool {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((rest, function)) = name.rsplit_once('.') else { return false };
    let parts: Vec<_> = rest.split(':').collect();
    is_hex(function) && (2..=3).contains(&parts.len()) && parts.into_iter().all(is_hex)
}

/// An option's name and its value, where that is in the same word: `--name=value`, `-nvalue`.
fn divide(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--") {
        return word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    }
    match word.char_indices().nth(2) {
        Some((end, _)) if word.starts_with('-') => (&word[..end], Some(&word[end..])),
        _ => (word, None),
    }
}

fn find(name: &str) -> Result<(Takes, About)> {
    match name {
        "-h" | "--help" | "-v" | "--version" => {
            return Err(refused(name, "EAL would only print something".to_owned()));
        }
        "--proc-type" | "--create-uio-dev" => {
            return Err(refused(name, "a capture is a process of its own, with its own ports".to_owned()));
        }
        _ => {}
    }
    let found = OPTIONS.iter().find(|(names, ..)| names.contains(&name));
    found.map(|&(_, takes, about)| (takes, about)).ok_or_else(|| {
        let is_option = name.starts_with('-');
        let cause = if is_option { "EAL has no such option, or none to pass on" } else { "it is no option" };
        refused(name, cause.to_owned())
    })
}

fn refused(word: &str, cause: String) -> Error {
    Error::usage("pass to DPDK's EAL", word, cause).way_out(
        "correct --dpdk-args: \"--vdev=virtio_user0,path=SOCKET\", \"-a 0000:02:00.0\"; docs/dpdk.md lists all",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(port: &str, told: &str) -> Result<String> {
        let wants = Wants { port, cpus: &[0, 1], buffers: 1024, ports: 1, huge_pages: false };
        Arguments::new(told, wants).map(|arguments| arguments.all.join(" "))
    }

    #[test]
    fn what_is_missing_is_added() {
        let fixed = "--lcores=0@(0,1) --no-huge --no-shconf -m28 --no-telemetry";
        assert_eq!(of("0000:02:00.0", "").unwrap(), format!("{fixed} -a 0000:02:00.0"));
        assert_eq!(of("net_null0", "").unwrap(), format!("{fixed} --no-pci"));
        let vdev = "--vdev=virtio_user0,path=/s";
        assert_eq!(of("virtio_user0", vdev).unwrap(), format!("{fixed} {vdev} --no-pci"));
        // Two ports have twice the memory.
        let fixed = fixed.replace("28", "32");
        assert_eq!(of("virtio_user0", &format!("{vdev} -a 02:00.0")).unwrap(), format!("{fixed} {vdev} -a 02:00.0"));
    }

    #[test]
    fn what_was_told_is_not_told_again() {
        let told = "-l 1 -m 99 --no-huge --no-shconf --telemetry --no-pci";
        assert_eq!(of("net_null0", told).unwrap(), "-l 1 -m 99 --no-huge --no-shconf --telemetry --no-pci");
    }

    #[test]
    fn how_much_memory_is_taken_at_once_is_known() {
        let wants = Wants { port: "a", cpus: &[0], buffers: 1 << 20, ports: 1, huge_pages: false };
        for (told, mib) in [("", 4120), ("-m 7", 7), ("-m7", 7), ("-m x", 0), ("--in-memory", 0)] {
            assert_eq!(Arguments::new(told, wants).unwrap().mib, mib, "{told}");
        }
    }

    #[test]
    fn huge_pages_have_no_names_unless_told() {
        let told = |told: &str| of("net_null0", told).unwrap();
        assert!(told("--socket-mem 64").contains("--in-memory") && !told("--socket-mem 64").contains("--no-huge"));
        assert!(!told("--huge-dir /mnt/huge").contains("--in-memory"));
        let wants = Wants { port: "net_null0", cpus: &[0], buffers: 1, ports: 1, huge_pages: true };
        assert!(Arguments::new("", wants).unwrap().all.contains(&"--in-memory".to_owned()));
    }

    #[test]
    fn a_trial_touches_no_device() {
        let wants = Wants { port: "a", cpus: &[0], buffers: 1, ports: 1, huge_pages: false };
        let arguments = Arguments::new("--vdev net_null0 -a 02:00.0 -l0", wants).unwrap();
        assert_eq!(
            arguments.without_devices,
            ["-l0", "--no-huge", "--no-shconf", "-m24", "--no-telemetry", "--no-pci"]
        );
    }

    #[test]
    fn what_eal_would_not_take_is_named() {
        for (told, words) in [
            ("--no-such", "--no-such: EAL has no such option"),
            ("-Q", "-Q: EAL has no such option"),
            ("--help", "--help: EAL would only print"),
            ("--proc-type=secondary", "--proc-type: a capture is a process of its own"),
            ("virtio_user0", "virtio_user0: it is no option"),
            ("--vdev", "--vdev: its value is missing"),
            ("--vdev=", "its value is missing"),
            ("-l --no-huge", "-l: its value is missing"),
            ("--no-huge=1", "--no-huge=1: this option takes no value"),
            ("-é", "-é: EAL has no such option"),
        ] {
            let error = of("a", told).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("--dpdk-args") && !error.contains('\n'), "{told}: {error}");
        }
    }

    #[test]
    fn sockets_that_are_listened_on_are_found_and_dead_ones_removed() {
        let told = "-l 1 --vdev=net_vhost0,iface=/run/a,queues=1 --vdev virtio_user0,path=/run/b,server=1 \
                    --vdev=virtio_user1,path=/run/c --vdev=net_af_packet0,iface=eth1 --vdev=net_vhost1,iface=here";
        assert_eq!(listening_sockets(told).collect::<Vec<_>>(), [Path::new("/run/a"), Path::new("/run/b")]);
        let folder = tempfile::tempdir().unwrap();
        let [alive, dead, file] = ["alive", "dead", "file"].map(|name| folder.path().join(name));
        let _listens = std::os::unix::net::UnixListener::bind(&alive).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        std::fs::write(&file, "").unwrap();
        for path in [&alive, &dead, &file, &folder.path().join("none")] {
            remove_dead_sockets(&format!("--vdev=net_vhost0,iface={}", path.display()));
        }
        assert_eq!([alive.exists(), dead.exists(), file.exists()], [true, false, true]);
    }

    #[test]
    fn addresses_are_told_from_names() {
        for (name, wanted) in
            [("0000:02:00.0", true), ("02:00.1", true), ("virtio_user0", false), ("a.b", false), ("net:x.0", false)]
        {
            assert_eq!(is_pci(name), wanted, "{name}");
        }
    }
}
