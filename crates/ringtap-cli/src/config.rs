//! `ringtap config`: whether `ringtap.toml` is right, and what is in effect by it.
//!
//! Owns the list of programs and where results go. What a table may hold is its program's; options of commands that have a table are
//! in [`options`].

pub mod options;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use ringtap::{Error, Result};
use ringtap_run::one_file::{self, Keys};
use ringtap_run::{kafka, notes};

use crate::live::tell;

/// Where one reads what may be in it.
const WAY_OUT: &str = "docs/configuration.md has all tables and keys";

/// Check ringtap.toml, the configuration of all programs, and show what is in effect by it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ringtap config check /etc/ringtap/ringtap.toml     each fault with its line; before a restart or a reload
  ringtap config show                                what each program gets by it, defaults among it, secrets as ***
  ringtap config schema > ringtap.schema.json        for editors that complete and check TOML

[trap] is the station's table, [correlate] the correlator's; [variables], [rules], [iprep], [bounds], [overlap], [snmp], [alarms] and
[blinding] are the sensor's, [kafka] is for all three. [discover] is for `ringtap topology discover`. The keys of [capture], [split]
and [forward] are the names of these commands' options, most keys of [correlate] those of its command's; an option that is given on
the command line goes before the key.

A program reads the file that is named by --config, and none unless told. Files with secrets must be readable by their owner alone.
docs/configuration.md has all tables and keys.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say each fault with its line and what was expected, and exit with 1 if there is one
    Check {
        /// Configuration (TOML)
        #[arg(default_value = one_file::USUAL_PATH)]
        file: PathBuf,
    },
    /// Show what is in effect for each program, as TOML, with secrets as ***
    Show {
        /// Configuration (TOML)
        #[arg(default_value = one_file::USUAL_PATH)]
        file: PathBuf,
    },
    /// Print what may be in it, as a JSON Schema
    Schema {
        /// As docs/configuration.md has it, in Markdown
        #[arg(long)]
        markdown: bool,
    },
}

/// A reader of the file.
struct Program {
    /// What is typed to start it, or to use it.
    name: &'static str,
    keys: fn() -> Keys,
    check: fn(&Path) -> Vec<Error>,
}

const PROGRAMS: [Program; 8] = [
    Program { name: "ringtap trap", keys: ringtap_station::config::keys, check: ringtap_station::config::check },
    Program { name: "ringtap sensor", keys: ringtap_sensor::config::keys, check: ringtap_sensor::config::check },
    Program {
        name: "ringtap correlate",
        keys: || options::keys("correlate").and(ringtap_correlator::config::keys()),
        check: |path| match options::check("correlate", path) {
            faults if faults.is_empty() => ringtap_correlator::config::check(path),
            faults => faults,
        },
    },
    Program { name: "outputs to Kafka, and inputs from there", keys: kafka::keys, check: kafka::check },
    Program {
        name: "ringtap topology discover",
        keys: ringtap_station::discover::keys,
        check: ringtap_station::discover::check,
    },
    Program {
        name: "ringtap capture",
        keys: || options::keys("capture"),
        check: |path| options::check("capture", path),
    },
    Program { name: "ringtap split", keys: || options::keys("split"), check: |path| options::check("split", path) },
    Program {
        name: "ringtap forward",
        keys: || options::keys("forward"),
        check: |path| options::check("forward", path),
    },
];

/// Runs the command.
///
/// # Errors
/// The file can't be read, or is no TOML.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Check { file } => {
            let Some(table) = sound(&file)? else { return Ok(ExitCode::from(crate::FAILED)) };
            let of = PROGRAMS.iter().filter(|program| program.has_tables(&table)).map(|program| program.name);
            let of: Vec<&str> = of.collect();
            let of = if of.is_empty() { "no program".to_owned() } else { of.join(", ") };
            tell(&format!("{}: right; it has tables for {of}\n", file.display()), false);
        }
        Command::Show { file } => {
            let Some(table) = sound(&file)? else { return Ok(ExitCode::from(crate::FAILED)) };
            tell(&in_effect(&table), false);
        }
        Command::Schema { markdown: true } => tell(&page(), false),
        Command::Schema { markdown: false } => {
            let schema = Keys::schema(PROGRAMS.iter().map(|program| (program.keys)()));
            tell(&format!("{schema:#}\n"), false);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is in effect by a file, with secrets as `***`.
///
/// # Errors
/// It can't be read, or has a fault.
pub fn shown(file: &Path) -> Result<String> {
    match sound(file)? {
        Some(table) => Ok(in_effect(&table)),
        None => Err(Error::usage("show", file.display().to_string(), "it has faults")
            .way_out("`ringtap config check` tells each")),
    }
}

impl Program {
    fn has_tables(&self, file: &toml::Table) -> bool {
        (self.keys)().tables().any(|table| file.contains_key(table))
    }
}

/// The tables of a file in which nothing is wrong, for all programs that it has tables for. What is wrong is said.
fn sound(file: &Path) -> Result<Option<toml::Table>> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| Error::os("read the configuration", &name, &error))?;
    let mut faults = one_file::frame(&name, &text, WAY_OUT);
    // What is no TOML is among the faults already.
    let tables = toml::from_str::<toml::Table>(&text).unwrap_or_default();
    let readers = PROGRAMS.iter().filter(|program| program.has_tables(&tables));
    faults.extend(readers.flat_map(|program| (program.check)(file)));
    faults.iter().for_each(|fault| notes::say(&fault.to_string()));
    Ok(faults.is_empty().then_some(tables))
}

fn in_effect(file: &toml::Table) -> String {
    let of = |program: &Program| {
        let text = (program.keys)().in_effect(file);
        let is_used = program.has_tables(file);
        is_used.then(|| format!("# {}\n\n{text}", program.name))
    };
    PROGRAMS.iter().filter_map(of).collect()
}

/// The page of all tables.
fn page() -> String {
    let mut text = "\
# Configuration: ringtap.toml

One file for all programs. A program reads the one that `--config FILE` names, and none unless told; packages put it at
`/etc/ringtap/ringtap.toml`, and the station's unit names it.
Each program reads its own tables and passes the others' over; a table or key that no program knows is an error, told with its line
and the nearest name that is known. Options go before what the file says.

    ringtap config check FILE       # each fault with its line; exit code 1 if there is one
    ringtap config show FILE        # what each program gets by it, secrets as ***
    ringtap config schema           # a JSON Schema, for editors

A file with passwords, communities or keys must be readable by its owner alone (mode 0600), and by the user that the program becomes.
What `check` finds is what the programs would find at their start: it reads the files that are named, too, so run it as that user.
Examples: [a mirror port](../packaging/examples/mirror-port.toml), [a station](../packaging/examples/station.toml), a sensor of a pair
([sensor](../packaging/examples/sensor.toml)) and [their correlator](../packaging/examples/correlator.toml).

This page is written by `ringtap config schema --markdown`.
"
    .to_owned();
    for program in PROGRAMS {
        let name = program.name;
        let name = if name.starts_with("ringtap") { format!("`{name}`") } else { name.to_owned() };
        text.push_str(&format!("\n## {name}\n\n{}", (program.keys)().page().trim_end()));
        text.push('\n');
    }
    text
}
