//! `ringtap doctor`: what works on this host and its interfaces, what does not, and the way out.
//!
//! Owns how findings are shown. What is looked at is `ringtap_run::doctor`'s.

use std::io::{self, Write};
use std::process::ExitCode;

use ringtap::Result;
use ringtap_run::doctor::{Finding, State, findings};
use serde_json::json;

/// Show what works here: kernel, privileges, clocks, CPUs, and each interface; with the way out where something does not.
///
/// Looks only: no setting is changed and no packet is taken. Whether AF_XDP can be bound is tried for a moment, without a
/// steering program. Exits with 1 when nothing could be captured at all.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only this interface [default: all but loopback]
    #[arg(value_name = "IF")]
    interface: Option<String>,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  ringtap doctor
  ringtap doctor eth1
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
/// There is no such interface.
pub fn run(args: Args) -> Result<ExitCode> {
    let findings = findings(args.interface.as_deref())?;
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
