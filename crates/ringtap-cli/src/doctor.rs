//! `ringtap doctor`: what works on this host and its interfaces, what does not, and the way out.
//!
//! Owns the findings' shape and how they are shown. What is looked at is in `system` and `interfaces`; nothing is changed.

mod interfaces;
mod system;

use std::io::{self, Write};
use std::process::ExitCode;

use ringtap::Result;
use serde::Serialize;
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

/// How a finding is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// As it should be.
    Good,
    /// To be known; Ringtap works.
    Note,
    /// Ringtap works, but not at its best.
    Limit,
    /// Nothing can be captured.
    Broken,
}

impl State {
    fn mark(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "-",
            Self::Limit => "!",
            Self::Broken => "NO",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    /// `system`, or the interface's name.
    scope: String,
    /// What was looked at.
    name: &'static str,
    state: State,
    /// What was found.
    value: String,
    /// What follows from it, and the way out.
    consequence: Option<String>,
}

impl Finding {
    fn new(scope: &str, name: &'static str, state: State, value: impl Into<String>) -> Self {
        Self { scope: scope.to_owned(), name, state, value: value.into(), consequence: None }
    }

    fn because(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = Some(consequence.into());
        self
    }
}

/// Runs the command.
///
/// # Errors
/// There is no such interface.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut findings = system::findings();
    findings.extend(interfaces::findings(args.interface.as_deref())?);
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
        writeln!(out, "  {:<3} {:<16} {}", finding.state.mark(), finding.name, finding.value)?;
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
