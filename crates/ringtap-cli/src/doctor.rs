//! `ringtap doctor`: what works on this host and its interfaces, what does not, and the way out.
//!
//! Owns how findings are shown. What is looked at is `ringtap_run::doctor`'s.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use ringtap::Result;
use ringtap_run::doctor::{Finding, State, bundle, findings};
use ringtap_run::notes;
use serde_json::json;

use crate::config;
use crate::live::DpdkArgs;

/// Show what works here: kernel, privileges, clocks, CPUs, and each interface; with the way out where something does not.
///
/// Looks only: no setting is changed and no packet is taken. Whether AF_XDP can be bound is tried for a moment, without a
/// steering program. Ports of DPDK's that --dpdk-args names are opened for a moment, which resets a card. Exits with 1 when
/// nothing could be captured at all.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_args(|option| match option.get_id().as_str() {
    "dpdk_args" | "dpdk_library" => option.conflicts_with("interface"),
    _ => option,
}))]
pub struct Args {
    /// Only this interface [default: all but loopback]
    #[arg(value_name = "IF")]
    interface: Option<String>,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
    /// Also write a new tar file for a bug report: what was found, the kernel's counters, versions; no packets, addresses or secrets
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Configuration (TOML) that goes into the bundle as `ringtap config show` has it, with secrets as ***
    #[arg(long, value_name = "FILE", requires = "bundle")]
    config: Option<PathBuf>,
    #[command(flatten)]
    dpdk: DpdkArgs,
}

const EXAMPLES: &str = "\
Examples:
  ringtap doctor
  ringtap doctor eth1
  ringtap doctor --dpdk-args --vdev=net_vhost0,iface=/run/ringtap/port
  ringtap doctor --bundle report.tar --config /etc/ringtap/ringtap.toml
  ringtap doctor --json eth1 | jq '.findings[] | select(.state != \"good\")'";

/// What stands in front of a finding.
fn mark(state: State) -> &'static str {
    match state {
        State::Good => "ok",
        State::Note => "-",
        State::Limit => "!",
        State::Broken => "NO",
    }
}

/// Runs the command.
///
/// # Errors
/// There is no such interface; the bundle can't be written, or the configuration has a fault.
pub fn run(args: Args) -> Result<ExitCode> {
    let findings = findings(args.interface.as_deref(), &args.dpdk.options())?;
    if let Some(file) = &args.bundle {
        let mut shown = Vec::new();
        // Memory takes all.
        let _ = show(&mut shown, &findings);
        let mut texts = vec![
            ("version", concat!("ringtap ", env!("CARGO_PKG_VERSION"), "\n").to_owned()),
            ("findings.txt", String::from_utf8_lossy(&shown).into_owned()),
            ("findings.json", format!("{:#}\n", json!({ "findings": findings }))),
        ];
        let config = args.config.as_deref().map(config::shown).transpose()?;
        texts.extend(config.map(|text| ("ringtap.toml", text)));
        bundle::write(file, &texts)?;
        notes::say(&format!("{} holds what was found here: look into it before you send it", file.display()));
    }
    let is_broken = findings.iter().any(|finding| finding.state == State::Broken);
    let mut out = io::stdout().lock();
    // Nobody may be left to read it.
    let _ = if args.json { writeln!(out, "{}", json!({ "findings": findings })) } else { show(&mut out, &findings) };
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    let mut scope = "";
    for finding in findings {
        if finding.scope != scope {
            let gap = if scope.is_empty() { "" } else { "\n" };
            scope = &finding.scope;
            writeln!(out, "{gap}{scope}")?;
        }
        writeln!(out, "  {:<3} {:<16} {}", mark(finding.state), finding.name, finding.value)?;
        if let Some(consequence) = &finding.consequence {
            writeln!(out, "{:23}{consequence}", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_shown_by_scope_with_what_follows() {
        let findings = [
            Finding::new("system", "kernel", State::Good, "6.1"),
            Finding::new("eth0", "state", State::Limit, "down").because("bring it up"),
        ];
        let mut out = Vec::new();
        show(&mut out, &findings).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "system\n  ok  kernel           6.1\n\neth0\n  !   state            down\n                       bring it up\n"
        );
    }
}
