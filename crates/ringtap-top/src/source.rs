//! Owns: asking a running program's page what it shows.
//! Does not: trust it: what answers may be anything, so it is bounded here and made printable where it is drawn.

use std::path::Path;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_run::secrets::read_private;
use serde_json::Value;

/// How long an answer may take, and the most bytes of it.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST: u64 = 8 << 20;

/// A running program, as it was seen.
pub(crate) struct Source {
    agent: ureq::Agent,
    address: String,
    token: Option<String>,
    /// What its page showed last.
    pub(crate) page: Value,
    /// Why it did not answer since.
    pub(crate) silence: Option<String>,
}

impl Source {
    pub(crate) fn new(address: &str, token: Option<&Path>) -> Result<Self> {
        let address = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/').to_owned();
        if address.contains('/') || !address.contains(':') {
            return Err(Error::usage("look at", &address, "it is no HOST:PORT")
                .way_out("name what --web of the running program names"));
        }
        let token = token.map(|path| read_private("token", path)).transpose()?.map(|text| text.trim().to_owned());
        // Nobody in between is handed the token.
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        let config = config.proxy(None).max_redirects(0).build();
        Ok(Self { agent: config.into(), address, token, page: Value::Null, silence: None })
    }

    /// Looks again; what does not answer is said on the screen, over what was seen last.
    pub(crate) fn again(&mut self) {
        self.silence = self.look().err().map(|error| error.to_string());
    }

    pub(crate) fn look(&mut self) -> Result<()> {
        let failed = |cause: String| Error::failed("look at", &self.address, cause);
        let ask = self.agent.get(format!("http://{}/now.json", self.address));
        let ask = self.token.iter().fold(ask, |ask, token| ask.header("Authorization", format!("Bearer {token}")));
        let mut answer = ask.call().map_err(|error| failed(error.to_string()))?;
        match answer.status().as_u16() {
            200 => {}
            401 => return Err(failed("it asks for a token".to_owned()).way_out("name its file: --token FILE")),
            404 => return Err(failed("there is no page".to_owned()).way_out("start the program with --web")),
            status => return Err(failed(format!("it answers {status}"))),
        }
        let text = answer.body_mut().with_config().limit(MOST).read_to_string();
        let text = text.map_err(|error| failed(error.to_string()))?;
        let page: Value = serde_json::from_str(&text).unwrap_or_default();
        if !page["program"].is_string() || !page["account"].is_object() {
            return Err(failed("what answers is no program of Ringtap's".to_owned()));
        }
        self.page = page;
        Ok(())
    }

    /// Its lists.
    pub(crate) fn lists(&self) -> &[Value] {
        self.page["lists"].as_array().map_or(&[], Vec::as_slice)
    }
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
}
