//! What works on this host and its interfaces, what does not, and the way out.
//!
//! Owns the findings' shape. What is looked at is in `system`, `cpus`, `interfaces`, `hardware` and `dpdk`; a bundle for a
//! bug report is in [`bundle`]; nothing is changed, and no packet is taken. How
//! findings are shown is the command's.

pub mod bundle;
mod cpus;
mod dpdk;
mod hardware;
mod interfaces;
mod system;

use ringtap::Result;
use serde::Serialize;

use crate::dpdk::DpdkOptions;

/// How a finding is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Good,
    /// To be known; Ringtap works.
    Note,
    /// Ringtap works, but not at its best.
    Limit,
    /// Nothing can be captured.
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// `system`, `DPDK`, or the interface's name.
    pub scope: String,
    /// What was looked at.
    pub name: &'static str,
    /// How it is to be taken.
    pub state: State,
    /// What was found.
    pub value: String,
    /// What follows from it, and the way out.
    pub consequence: Option<String>,
}

impl Finding {
    /// What was found, without a consequence.
    pub fn new(scope: &str, name: &'static str, state: State, value: impl Into<String>) -> Self {
        Self { scope: scope.to_owned(), name, state, value: value.into(), consequence: None }
    }

    /// The same with what follows from it.
    pub fn because(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = Some(consequence.into());
        self
    }
}

/// Looks at the host, and at one interface or all but loopback, in the latter case also at DPDK's ports. Whether AF_XDP can be bound is
/// tried for a moment, without a steering program; a port of DPDK's that is named is opened for a moment. Once in a process, as EAL can be started once.
///
/// # Errors
/// There is no such interface.
pub fn findings(interface: Option<&str>, dpdk: &DpdkOptions) -> Result<Vec<Finding>> {
    let mut findings = system::findings();
    findings.extend(cpus::findings());
    findings.extend(interfaces::findings(interface)?);
    if interface.is_none() {
        findings.extend(dpdk::findings(dpdk));
    }
    Ok(findings)
}
