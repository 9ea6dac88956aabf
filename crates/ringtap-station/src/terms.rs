//! What a station judges by, as configured: replaced whole when the configuration is read again, while what it has learnt stays.
//!
//! Owns how alarms of before are seen by it, and what is said when it is read again. What is in the file is `config`'s.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use ringtap::Result;
use ringtap_run::notes;
use ringtap_snmp::names::Names;
use ringtap_snmp::usm::{SecurityLevel, User};

use crate::admission::Senders;
use crate::alarm::{Origin, Shown};
use crate::config::Config;
use crate::expiry::Expiry;
use crate::pipeline::Pipeline;
use crate::rules::Rules;

/// What a station judges by.
#[derive(Debug)]
pub struct Terms {
    /// Who may send, and how much.
    pub senders: Senders,
    /// Communities of v1 and v2c; none: any is taken.
    pub communities: Vec<Vec<u8>>,
    /// Whether v1 and v2c are taken.
    pub takes_v1_v2c: bool,
    /// Whether syslog within TLS must come with a certificate.
    pub asks_for_certificate: bool,
    /// Users of v3.
    pub users: Vec<User>,
    /// What notifications mean.
    pub rules: Rules,
    /// Syslog of this severity or worse (0–7, lower is worse) becomes an alarm.
    pub syslog_severity: u8,
    /// When alarms expire.
    pub expiry: Expiry,
}

impl Terms {
    /// Who raised an alarm, as these terms see it: what nobody can show any more must not be asked of who clears it.
    pub fn see(&self, origin: Origin) -> Origin {
        let best = self.users.iter().map(User::level).max().unwrap_or_default();
        let security = origin.security.min(best);
        let is_shown = match origin.shown {
            Shown::Nothing => false,
            Shown::Community => self.takes_v1_v2c && !self.communities.is_empty(),
            Shown::Certificate => self.asks_for_certificate,
        };
        let is_listed = origin.source.is_some_and(|source| self.senders.know(source));
        let is_known = security > SecurityLevel::NoAuthNoPriv || is_shown || is_listed;
        Origin { security, is_known, ..origin }
    }
}

/// The configuration that terms are read from.
pub(crate) struct TermsFile {
    pub(crate) path: Option<PathBuf>,
    /// As it is in use.
    pub(crate) config: Config,
    /// For rules that name notifications.
    pub(crate) names: Arc<Names>,
    /// For who accepts connections.
    pub(crate) senders: Arc<RwLock<Senders>>,
}

impl TermsFile {
    /// Reads the file again, and has it judged by what is there; with a fault what there was stays.
    pub(crate) fn read(&mut self, pipeline: &Pipeline) {
        let Some(path) = &self.path else { return };
        let read = || -> Result<(Config, Terms)> {
            let config = Config::read(path)?;
            let terms = config.terms(&self.names)?;
            Ok((config, terms))
        };
        let (config, terms) = match read() {
            Ok(both) => both,
            Err(error) => return notes::say(&format!("{error}; the configuration there was stays in use")),
        };
        *self.senders.write().unwrap_or_else(PoisonError::into_inner) = terms.senders.clone();
        pipeline.replace_terms(terms);
        notes::say(&format!("{}: users, communities, senders and rules are in use", path.display()));
        let waits = self.config.waits_for_restart(&config);
        if !waits.is_empty() {
            let verb = if waits.len() == 1 { "waits" } else { "wait" };
            notes::say(&format!("{}: what changed in {} {verb} for a restart", path.display(), waits.join(", ")));
        }
        self.config = config.started_as(&self.config);
    }
}
