//! `ringtap topology`: the network that the station's root causes are found in, checked, shown, and gathered from elsewhere.
//!
//! Owns the options and where results go; files are read by `ringtap_station::topology`, shown and imported by `ringtap_rootcause`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, ExitCode, Stdio};

use clap::Subcommand;
use ringtap::{Error, Result};
use ringtap_rootcause::topology::draft::Draft;
use ringtap_rootcause::topology::{draw, netbox};
use ringtap_run::notes;
use ringtap_station::topology;

use crate::correlate::ended;

/// Check, show and import the topology of `ringtap trap --topology`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ringtap topology check network.toml                       each fault with its line
  ringtap topology show network.toml                        as a tree from the station on
  ringtap topology show network.toml --svg > network.svg    drawn by Graphviz's dot
  ringtap topology import --netbox devices.json interfaces.json cables.csv > network.toml

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
}

/// Runs the command.
///
/// # Errors
/// A file can't be read or has faults; dot is missing or fails.
pub fn run(args: Args) -> Result<ExitCode> {
    let written = match args.command {
        Command::Check { file } => check(&file)?,
        Command::Show { file, svg: true, .. } => print(&svg(&draw::dot(&topology::read(&file)?))?),
        Command::Show { file, dot: true, .. } => print(draw::dot(&topology::read(&file)?).as_bytes()),
        Command::Show { file, .. } => print(draw::tree(&topology::read(&file)?).as_bytes()),
        Command::Import { netbox } => print(import(&netbox)?.as_bytes()),
    };
    ended(written)
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
    draft.notes.iter().for_each(|note| notes::say(&ringtap_output::printable(note)));
    let unknown = draft.without_index();
    notes::say(&format!("{} nodes, {} links", draft.nodes.len(), draft.links()));
    if unknown > 0 {
        let what = "ends of links without an ifIndex: traps name interfaces by it";
        notes::say(&format!("{unknown} {what}; give it in NetBox's custom field ifindex, or add it to the file"));
    }
    Ok(draft.toml())
}
