//! `ringtap topology`: the network that the station's root causes are found in, checked, shown, and gathered from elsewhere.
//!
//! Owns the options and where results go; files are read by `ringtap_station::topology`, agents asked by `ringtap_station::discover`; both
//! are shown and imported by `ringtap_rootcause`.

use std::collections::HashSet;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, ExitCode, Stdio};
use std::time::Duration;

use clap::Subcommand;
use ringtap::{Error, Result};
use ringtap_rootcause::topology::draft::Draft;
use ringtap_rootcause::topology::{draw, netbox};
use ringtap_run::{notes, units};
use ringtap_station::discover::{self, Names, Patience};
use ringtap_station::topology;

use crate::correlate::ended;

/// Check, show, import and discover the topology of `ringtap trap --topology`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ringtap topology check network.toml                       each fault with its line
  ringtap topology show network.toml                        as a tree from the station on
  ringtap topology show network.toml --svg > network.svg    drawn by Graphviz's dot
  ringtap topology import --netbox devices.json interfaces.json cables.csv > network.toml
  ringtap topology discover --config ringtap.toml 192.0.2.1 192.0.2.2 > network.toml   what agents tell by SNMP

docs/root-cause.md tells what is in a topology, and which alarms are about what of it.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what is in a file, or each of its faults with its line
    Check {
        /// Topology (TOML)
        file: PathBuf,
    },
    /// Show a network as a tree from the station on, or as a graph
    Show {
        /// Topology (TOML)
        file: PathBuf,
        /// In Graphviz's DOT language
        #[arg(long, conflicts_with = "svg")]
        dot: bool,
        /// As SVG, drawn by Graphviz's dot, which must be installed
        #[arg(long)]
        svg: bool,
    },
    /// Make a topology file of what another program exports
    Import {
        /// Exports of NetBox: devices, interfaces, IP addresses and cables, as JSON of its REST API or as CSV
        #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
        netbox: Vec<PathBuf>,
    },
    /// Make a topology file of what agents tell of their interfaces and neighbours (IF-MIB, IP-MIB, LLDP-MIB)
    #[command(after_help = "\
The configuration names as whom agents are asked; nobody else may read it (chmod 600):
  [discover]
  communities = [\"public\"]            v2c
  [[discover.user]]                     v3; users are tried first, in this order
  name = \"reader\"
  auth = \"SHA-256\"                    MD5, SHA, SHA-224, SHA-256, SHA-384, SHA-512
  auth-password = \"…\"
  privacy = \"AES\"                     DES, AES, AES-192, AES-256, AES-192-C, AES-256-C
  privacy-password = \"…\"
No agent is asked for longer than 300 s. The file is written when all are done; where agents told nothing, it is written
without them, and the command fails.")]
    Discover {
        /// Agents: addresses, with another port than 161 as ADDRESS:PORT or [ADDRESS]:PORT
        #[arg(value_name = "AGENT", required_unless_present = "agents", value_parser = agent)]
        agent: Vec<SocketAddr>,
        /// More of them, one a line; lines that begin with # are passed over
        #[arg(long, value_name = "FILE")]
        agents: Option<PathBuf>,
        /// Configuration (TOML) with [discover]
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// How long each answer is waited for
        #[arg(long, value_name = "T", default_value = "1s", value_parser = units::duration)]
        timeout: Duration,
        /// How often a question without an answer is sent again
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=20))]
        retries: u32,
        /// Agents asked at once
        #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
        at_once: u16,
    },
}

/// Runs the command.
///
/// # Errors
/// A file can't be read or has faults; dot is missing or fails.
pub fn run(args: Args) -> Result<ExitCode> {
    let written = match args.command {
        Command::Check { file } => check(&file)?,
        Command::Show { file, svg: true, .. } => print(&svg(&draw::dot(&topology::read(&file)?))?),
        Command::Show { file, dot: true, .. } => print(shown(&draw::dot(&topology::read(&file)?)).as_bytes()),
        Command::Show { file, .. } => print(shown(&draw::tree(&topology::read(&file)?)).as_bytes()),
        Command::Import { netbox } => print(import(&netbox)?.as_bytes()),
        Command::Discover { agent, agents, config, timeout, retries, at_once } => {
            let patience = Patience { timeout, retries, at_once: at_once.into() };
            return ask(listed(agent, agents.as_deref())?, &Names::read(&config)?, patience);
        }
    };
    ended(written)
}

/// Names are from a file that strangers may have written: no line of it steers a terminal.
fn shown(text: &str) -> String {
    text.lines().map(|line| ringtap_output::printable(line) + "\n").collect()
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

fn check(path: &Path) -> Result<io::Result<()>> {
    let name = path.display();
    match topology::check(path)? {
        Ok(topology) => Ok(print(format!("{}\n", topology::size(&topology)).as_bytes())),
        Err(faults) => {
            for fault in &faults {
                println!("{}", ringtap_output::printable(&format!("{name}:{fault}")));
            }
            let count = if faults.len() == 1 { "one fault".to_owned() } else { format!("{} faults", faults.len()) };
            Err(Error::failed("use", name.to_string(), format!("it has {count}")).way_out("see the lines above"))
        }
    }
}

/// Drawn by Graphviz.
fn svg(graph: &str) -> Result<Vec<u8>> {
    let failed = |error: io::Error| {
        let way_out = "install Graphviz (Debian: graphviz), or draw what --dot gives elsewhere";
        Error::os("run", "dot", &error).way_out(way_out)
    };
    let dot = Program::new("dot").arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut dot = dot.map_err(failed)?;
    let mut input = dot.stdin.take();
    let graph = graph.to_owned();
    // It may write before it has read all.
    let writer = std::thread::spawn(move || input.as_mut().map_or(Ok(()), |input| input.write_all(graph.as_bytes())));
    let output = dot.wait_with_output().map_err(failed)?;
    let _ = writer.join();
    if !output.status.success() {
        return Err(Error::failed("draw by", "dot", format!("it ended with {}", output.status)));
    }
    Ok(output.stdout)
}

fn import(files: &[PathBuf]) -> Result<String> {
    let mut draft = Draft::default();
    for path in files {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Error::os("import", &name, &error))?;
        let used = netbox::read(&text, &mut draft).map_err(|cause| {
            Error::failed("import", &name, cause)
                .way_out("export devices, interfaces, IP addresses or cables of NetBox as JSON or CSV")
        })?;
        notes::say(&format!("{name}: {used} rows used"));
    }
    Ok(finished(&draft))
}

/// An agent's address, with its port.
fn agent(text: &str) -> std::result::Result<SocketAddr, String> {
    let alone = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 161));
    alone
        .or_else(|_| text.parse())
        .map_err(|_| "an address is 192.0.2.1, 192.0.2.1:1161 or [2001:db8::1]:1161".to_owned())
}

/// Those of the arguments and those of a file, each once, in order.
fn listed(mut agents: Vec<SocketAddr>, file: Option<&Path>) -> Result<Vec<SocketAddr>> {
    if let Some(path) = file {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Error::os("read agents from", &name, &error))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let wrong = |cause| Error::usage("read agents from", format!("{name}:{}", number + 1), cause);
                agents.push(agent(line).map_err(wrong)?);
            }
        }
        if agents.is_empty() {
            return Err(Error::usage("read agents from", name, "there is none in it"));
        }
    }
    let mut seen = HashSet::new();
    agents.retain(|agent| seen.insert(*agent));
    Ok(agents)
}

/// Asks agents, and writes what they told.
fn ask(agents: Vec<SocketAddr>, names: &Names, patience: Patience) -> Result<ExitCode> {
    let (draft, told) = discover::discover(&agents, names, patience, &|agent, answer| match answer {
        Ok(told) => notes::say(&ringtap_output::printable(&format!(
            "{agent}: {}: {} interfaces, {} neighbours",
            told.name,
            told.interfaces.len(),
            told.neighbours.len()
        ))),
        Err(fault) => notes::say(&format!("{agent}: {fault}")),
    })?;
    let text = finished(&draft);
    if told > 0
        && let Err(error) = print(text.as_bytes())
    {
        return ended(Err(error));
    }
    if told < agents.len() {
        let silent = agents.len() - told;
        let cause = format!("{silent} of {} told nothing, or not all", agents.len());
        return Err(Error::failed("discover", "agents", cause).way_out("see above; the file is without them"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The file of a draft, after what there is to say of it.
fn finished(draft: &Draft) -> String {
    draft.notes.iter().for_each(|note| notes::say(&ringtap_output::printable(note)));
    let unknown = draft.without_index();
    notes::say(&format!("{} nodes, {} links", draft.nodes.len(), draft.links()));
    if unknown > 0 {
        let what = "ends of links without an ifIndex: traps name interfaces by it";
        notes::say(&format!(
            "{unknown} {what}; add it to the file, or where that comes from (NetBox: custom field ifindex)"
        ));
    }
    draft.toml()
}
