//! Owns: asking a running program what it serves: its metrics, and the lists of its page.
//! Does not: trust it: what answers may be anything, so texts are bounded here and made printable where they are drawn.

use std::path::Path;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_run::secrets::read_private;
use ringtap_web::{Figures, History};
use serde_json::Value;

/// How long an answer may take, and the most bytes of it.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST: u64 = 8 << 20;

/// A running program, as it was seen.
pub(crate) struct Source {
    agent: ureq::Agent,
    address: String,
    token: Option<String>,
    pub(crate) history: History,
    /// The command that it is.
    pub(crate) program: String,
    /// What its page shows beside its metrics; `Null`: there is no page.
    pub(crate) page: Value,
    /// Why it did not answer last.
    pub(crate) silence: Option<String>,
}

impl Source {
    pub(crate) fn new(address: &str, token: Option<&Path>) -> Result<Self> {
        let address = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/').to_owned();
        if address.contains('/') || !address.contains(':') {
            return Err(Error::usage("look at", &address, "it is no HOST:PORT")
                .way_out("name what --web or --metrics of the running program names"));
        }
        let token = token.map(|path| read_private("token", path)).transpose()?.map(|text| text.trim().to_owned());
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
        Ok(Self {
            agent: config.into(),
            address,
            token,
            history: History::default(),
            program: String::new(),
            page: Value::Null,
            silence: None,
        })
    }

    /// Looks again; what does not answer is said on the screen.
    pub(crate) fn again(&mut self) {
        self.silence = self.look().err().map(|error| error.to_string());
    }

    pub(crate) fn look(&mut self) -> Result<()> {
        let text = self.ask("metrics")?;
        let Some(program) = program(&text) else {
            return Err(Error::failed("look at", &self.address, "what answers is no program of Ringtap's"));
        };
        self.history.add(Instant::now(), Figures::read(&text, program));
        program.clone_into(&mut self.program);
        // Where only metrics are served there is no page.
        self.page = self.ask("now.json").ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(())
    }

    /// Its lists.
    pub(crate) fn lists(&self) -> &[Value] {
        self.page["lists"].as_array().map_or(&[], Vec::as_slice)
    }

    fn ask(&self, path: &str) -> Result<String> {
        let failed = |cause: String| Error::failed("look at", &self.address, cause);
        let ask = self.agent.get(format!("http://{}/{path}", self.address));
        let ask = self.token.iter().fold(ask, |ask, token| ask.header("Authorization", format!("Bearer {token}")));
        let mut answer = ask.call().map_err(|error| failed(error.to_string()))?;
        match answer.status().as_u16() {
            200 => {
                answer.body_mut().with_config().limit(MOST).read_to_string().map_err(|error| failed(error.to_string()))
            }
            401 => Err(failed("it asks for a token".to_owned()).way_out("name its file: --token FILE")),
            status => Err(failed(format!("it answers {status}"))),
        }
    }
}

/// The program whose metrics these are.
fn program(text: &str) -> Option<&str> {
    let name = text.lines().find_map(|line| line.strip_prefix("# HELP ringtap_"))?;
    name.split_once('_').map(|(program, _)| program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_what_is_none() {
        for address in ["127.0.0.1:9301", "http://[::1]:9301/", "host.example:80"] {
            assert!(Source::new(address, None).is_ok(), "{address}");
        }
        for address in ["eth1", "127.0.0.1:9301/metrics", "https://a.example:1", ""] {
            assert!(Source::new(address, None).is_err(), "{address}");
        }
    }

    #[test]
    fn whose_metrics_they_are() {
        assert_eq!(program("# HELP ringtap_trap_delivered Datagrams.\n"), Some("trap"));
        assert_eq!(program("# HELP node_load1 1m load average.\n"), None);
    }
}
