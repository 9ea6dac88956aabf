//! Asks agents by SNMP for their interfaces and neighbours: the topology as the network tells it.
//!
//! Owns whom to ask, as whom, and how long; what the answers mean is `ringtap_rootcause::topology::lldp`'s. One thread asks one agent at a
//! time, so that many are asked at once and a silent one keeps nobody up.

mod agent;
mod columns;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_rootcause::topology::draft::Draft;
use ringtap_rootcause::topology::lldp::{self, AgentReport};
use ringtap_run::one_file::{self, Keys};
use ringtap_run::secrets::{random, read_private};
use ringtap_snmp::config::{InvalidUser, Secret, UserTable};
use ringtap_snmp::usm::{Correspondent, User};
use schemars::JsonSchema;
use serde::Deserialize;

pub use agent::Fault;
use agent::{Access, Agent};

/// What is asked for of an agent at the longest, whatever it answers.
pub const LONGEST: Duration = Duration::from_secs(300);

const WAY_OUT: &str = "`ringtap topology discover --help` shows what is in it";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct File {
    discover: Table,
}

/// As whom `ringtap topology discover` asks agents: users first, then communities, until one is answered
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Table {
    /// Communities of v2c
    communities: Vec<Secret>,
    /// Users of SNMPv3
    user: Vec<UserTable>,
}

/// As whom agents are asked: users of v3, then communities of v2c, until one is answered.
#[derive(Debug)]
pub struct Names {
    table: Table,
    path: String,
}

/// The keys of `[discover]`.
#[must_use]
pub fn keys() -> Keys {
    Keys::of::<File>()
}

/// What is wrong in the `[discover]` of a file.
#[must_use]
pub fn check(path: &Path) -> Vec<Error> {
    one_file::check::<File>(path, WAY_OUT, || Names::read(path).map(drop))
}

impl Names {
    /// Reads `[discover]` of a configuration that nobody else may read.
    ///
    /// # Errors
    /// It can't be read, others may read it, something in it is not understood, or it names nobody.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_private("configuration", path)?;
        let table = one_file::parse::<File>(&name, &text, WAY_OUT)?.discover;
        if table.communities.is_empty() && table.user.is_empty() {
            let cause = "there is no [[discover.user]] in it, and no `communities` in [discover]";
            return Err(Error::usage("ask agents with", name, cause).way_out(WAY_OUT));
        }
        let this = Self { table, path: name };
        this.users()?;
        Ok(this)
    }

    fn users(&self) -> Result<Vec<User>> {
        let wrong =
            |error: InvalidUser| Error::usage("use", format!("user {:?} of {}", error.name, self.path), error.cause);
        self.table.user.iter().map(|table| table.user().map_err(wrong)).collect()
    }

    fn accesses(&self) -> Result<Vec<Access>> {
        let mut accesses = Vec::new();
        for user in self.users()? {
            accesses.push(Access::User(Box::new(Correspondent::new(user, random()?))));
        }
        let communities = self.table.communities.iter().map(|secret| secret.0.clone().into_bytes());
        accesses.extend(communities.map(Access::Community));
        Ok(accesses)
    }
}

/// How long an agent is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For each answer.
    pub timeout: Duration,
    /// Questions that are sent again, at most so often each.
    pub retries: u32,
    /// Agents asked at once.
    pub at_once: usize,
}

/// Asks all of them; `say` hears of each when it is done: its address and interfaces, neighbours, or why it told nothing.
///
/// # Errors
/// A user that makes no sense; no random numbers.
pub fn discover(
    agents: &[SocketAddr],
    names: &Names,
    patience: Patience,
    say: &(dyn Fn(SocketAddr, &std::result::Result<AgentReport, Fault>) + Sync),
) -> Result<(Draft, usize)> {
    let next = AtomicUsize::new(0);
    let told = Mutex::new(vec![None; agents.len()]);
    let failed = Mutex::new(None);
    let ask = || {
        while let Some(&address) = agents.get(next.fetch_add(1, Ordering::Relaxed)) {
            let accesses = match names.accesses() {
                Ok(accesses) => accesses,
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            };
            let answer = Agent::ask_all(address, accesses, patience);
            say(address, &answer);
            let Some(place) = agents.iter().position(|it| *it == address) else { continue };
            told.lock().unwrap_or_else(PoisonError::into_inner)[place] = answer.ok();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..patience.at_once.min(agents.len()) {
            scope.spawn(ask);
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    // In the order of the question, so that the same network gives the same file.
    let told: Vec<AgentReport> =
        told.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect();
    let count = told.len();
    let mut draft = Draft::default();
    lldp::gather(told, &mut draft);
    Ok((draft, count))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn who_asks_is_named_in_a_private_file() {
        let read = |text: &str, mode: u32| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            Names::read(file.path())
        };
        let both = "[discover]\ncommunities = [\"hushhush\"]\n[[discover.user]]\nname = \"reader\"\nauth = \"SHA\"\n\
                    auth-password = \"long enough\"\n";
        let names = read(both, 0o600).unwrap();
        assert_eq!(names.accesses().unwrap().len(), 2);
        assert!(!format!("{names:?}").contains("hushhush") && !format!("{names:?}").contains("long enough"));
        for (text, mode, part) in [
            (both, 0o644, "chmod 600"),
            ("[discover]\n", 0o600, "no [[discover.user]]"),
            ("[trap]\ncommunities = [\"x\"]\n", 0o600, "no [[discover.user]]"),
            ("[[discover.user]]\nname = \"reader\"\nauth = \"SHA\"\n", 0o600, "go together"),
            ("[discover]\ncommunity = \"x\"\n", 0o600, "community"),
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
