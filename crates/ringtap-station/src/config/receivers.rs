//! `[trap.webhook]` and `[trap.alertmanager]`: who gets what is announced by HTTP.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_output::http::{self, Http};
use ringtap_run::secrets::read_private;
use ringtap_run::units;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Config;
use crate::posts::Alertmanager;

/// Between two tellings of what is raised, unless it is said.
const RESEND: Duration = Duration::from_secs(60);

/// Changes of alarms are posted there as a JSON array
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct WebhookTable {
    /// http:// or https://; it may hold a token, so it is not shown
    #[schemars(extend("writeOnly" = true))]
    url: String,
    /// A file with a bearer token, readable by its owner only
    token_file: Option<PathBuf>,
    /// Who signed its certificate (PEM); left out: whom this host trusts
    ca: Option<PathBuf>,
}

/// An Alertmanager of Prometheus
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AlertmanagerTable {
    /// http:// or https://; it may hold a token, so it is not shown
    #[schemars(extend("writeOnly" = true))]
    url: String,
    /// A file with a bearer token, readable by its owner only
    token_file: Option<PathBuf>,
    /// Who signed its certificate (PEM); left out: whom this host trusts
    ca: Option<PathBuf>,
    /// What is raised is told so often; 1s at least
    #[schemars(extend("default" = "60s"))]
    resend: Option<Time>,
    /// Labels that each alert has beside its own
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// A time with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
struct Time(Duration);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        units::duration(&text).map(Self)
    }
}

/// Who gets what is announced by HTTP, once their files are read.
#[derive(Default)]
pub(crate) struct Receivers {
    pub(crate) webhook: Option<Http>,
    pub(crate) alertmanager: Option<AlertmanagerParts>,
}

/// What an Alertmanager is made of.
pub(crate) struct AlertmanagerParts {
    pub(crate) http: Http,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) resend: Duration,
}

impl Receivers {
    /// Their names in the store.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let webhook = self.webhook.iter().map(|_| "webhook");
        webhook.chain(self.alertmanager.iter().map(|_| "alertmanager")).collect()
    }
}

impl Config {
    /// Whether anything is posted.
    pub(crate) fn posts(&self) -> bool {
        self.trap.webhook.is_some() || self.trap.alertmanager.is_some()
    }

    /// Refuses receivers that can't be posted to.
    pub(super) fn check_receivers(&self) -> Result<()> {
        let wrong = |object: &str, cause: &str| self.wrong(&format!("[trap.alertmanager] {object}"), cause);
        if let Some(table) = &self.trap.webhook {
            http::check(&table.url)?;
        }
        if let Some(table) = &self.trap.alertmanager {
            http::check(&table.url)?;
            // Prometheus' label names.
            let is_one = |name: &str| {
                let mut bytes = name.bytes();
                bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
                    && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            if let Some(name) = table.labels.keys().find(|name| !is_one(name)) {
                return Err(wrong("labels", &format!("{name:?} is no name of a label: letters, digits and _ are")));
            }
            if table.resend.is_some_and(|Time(time)| time < Duration::from_secs(1)) {
                return Err(wrong("resend", "more than once a second is too often"));
            }
        }
        Ok(())
    }

    /// Reads their tokens and certificates.
    ///
    /// # Errors
    /// A file can't be read, others may read a token, or the host trusts nobody.
    pub(crate) fn receivers(&self) -> Result<Receivers> {
        let open = |url: &str, token_file: Option<&PathBuf>, ca: Option<&PathBuf>| -> Result<Http> {
            let token = token_file.map(|path| read_private("token", path)).transpose()?;
            if let (Some(path), Some(token)) = (token_file, &token)
                && token.trim().bytes().any(|byte| !byte.is_ascii_graphic())
            {
                return Err(Error::usage("use the token in", path.display().to_string(), "it has more than one word"));
            }
            Http::new(url, token.as_deref(), ca.map(PathBuf::as_path))
        };
        let webhook = self.trap.webhook.as_ref();
        let webhook = webhook.map(|it| open(&it.url, it.token_file.as_ref(), it.ca.as_ref())).transpose()?;
        let alertmanager = |it: &AlertmanagerTable| -> Result<AlertmanagerParts> {
            let http = open(&Alertmanager::url(&it.url), it.token_file.as_ref(), it.ca.as_ref())?;
            Ok(AlertmanagerParts {
                http,
                labels: it.labels.clone(),
                resend: it.resend.map_or(RESEND, |Time(time)| time),
            })
        };
        Ok(Receivers { webhook, alertmanager: self.trap.alertmanager.as_ref().map(alertmanager).transpose()? })
    }
}
