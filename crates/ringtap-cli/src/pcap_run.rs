//! `ringtap pcap-run`: one program with Ringtap's libpcap instead of the system's.
//!
//! Owns the options and the environment they become. Where the library is found is `ringtap_run::pcap_library`'s.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ringtap::{Error, Result};
use ringtap_run::{pcap_library, units};

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
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Error::usage("run", "pcap-run", "no command").way_out("name one after --"));
    };
    args.check()?;
    let mut command = Command::new(program);
    command.args(arguments).env(pcap_library::SEARCH_PATH, pcap_library::search_path()?);
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

impl Args {
    /// Refuses what the back end has no use for.
    fn check(&self) -> Result<()> {
        let backend = self.backend.as_deref().unwrap_or("auto");
        let (of_rings, of_xdp) = (["auto", "xdp", "packet", "socket"], ["auto", "xdp"]);
        let options: [(&str, bool, &[&str]); 4] = [
            ("--max-latency", self.max_latency.is_some(), &of_rings),
            ("--ring", self.ring.is_some(), &of_rings),
            ("--take", self.take, &of_xdp),
            ("--napi-pacing", self.napi_pacing.is_some(), &of_xdp),
        ];
        match options.iter().find(|(_, is_given, backends)| *is_given && !backends.contains(&backend)) {
            Some((option, ..)) => Err(Error::usage("use", *option, format!("--backend {backend} has no use for it"))
                .way_out("leave it out, or choose another --backend")),
            None => Ok(()),
        }
    }
}
