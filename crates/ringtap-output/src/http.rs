//! HTTP POST of JSON, one try at a time, plain or within TLS, with a token where one is asked for.
//!
//! Owns what becomes of a try: taken, refused for good, or to be tried again. When that is done is the caller's, and so are threads: it
//! blocks. Secrets are not told: neither the token, nor what of the URL may be one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringtap::{Error, Result};
use rustls::crypto;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Longest wait for a receiver's answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// Where distributions keep the certificates that they trust: Debian, Arch and Alpine; Fedora; openSUSE.
const TRUSTED: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// One receiver of POSTs.
pub struct Http {
    agent: ureq::Agent,
    url: String,
    authorization: Option<String>,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Http({}, secrets not shown)", self.name())
    }
}

/// What became of a POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// The receiver has it.
    Taken,
    /// The receiver never takes this; why.
    Refused(String),
    /// It may take it later; why it did not.
    Failed(String),
}

/// Refuses what can't be posted to.
///
/// # Errors
/// Another scheme than `http://` and `https://`.
pub fn check(url: &str) -> Result<()> {
    if is_https(url) || url.starts_with("http://") {
        return Ok(());
    }
    // Without the rest, which may hold a token.
    let scheme = url.split_once("://").map_or("what has no scheme", |(scheme, _)| scheme);
    Err(Error::usage("post to", format!("{scheme:?}"), "only http:// and https:// are spoken")
        .way_out("give the receiver's URL"))
}

fn is_https(url: &str) -> bool {
    url.starts_with("https://")
}

impl Http {
    /// Posts to `url`, with `token` as a bearer token (RFC 6750). Within TLS the receiver must show a certificate that one of `authorities`
    /// (PEM) has signed; without these, one that this host trusts.
    ///
    /// # Errors
    /// The scheme is another one, or there are no authorities.
    pub fn new(url: &str, token: Option<&str>, authorities: Option<&Path>) -> Result<Self> {
        check(url)?;
        let mut config = ureq::Agent::config_builder().timeout_global(Some(ANSWER)).max_redirects(0);
        if is_https(url) {
            let provider = Arc::new(crypto::ring::default_provider());
            let roots = RootCerts::Specific(Arc::new(roots(authorities)?));
            let tls = TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider);
            config = config.tls_config(tls.build());
        }
        let authorization = token.map(|token| format!("Bearer {}", token.trim()));
        Ok(Self { agent: config.build().into(), url: url.to_owned(), authorization })
    }

    /// Where it posts to, for messages: without user, path and query.
    pub fn name(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("", &self.url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        format!("{scheme}://{host}")
    }

    /// Posts one JSON text, once.
    pub fn post(&self, body: &str) -> Posted {
        let mut request = self.agent.post(&self.url).header("content-type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        match request.send(body) {
            Ok(response) if response.status().is_success() => Posted::Taken,
            // Followed, the token would go to whomever the answer names.
            Ok(response) => {
                Posted::Failed(format!("it answered {}, and is not followed elsewhere", response.status().as_u16()))
            }
            // What is wrong with this body, and no other; of the rest (who we are, where it is, when) another day may tell otherwise.
            Err(ureq::Error::StatusCode(code @ (400 | 405 | 406 | 409..=424 | 431 | 451))) => {
                Posted::Refused(format!("it answered {code}"))
            }
            Err(ureq::Error::StatusCode(code)) => Posted::Failed(format!("it answered {code}")),
            Err(error) => Posted::Failed(error.to_string()),
        }
    }
}

/// The certificates of authorities.
fn roots(authorities: Option<&Path>) -> Result<Vec<Certificate<'static>>> {
    let read = |path: &Path| -> Result<Vec<Certificate<'static>>> {
        let name = path.display().to_string();
        let text = std::fs::read(path).map_err(|error| Error::os("read the certificates", &name, &error))?;
        // The host's own file may have one that nobody can read.
        let found = CertificateDer::pem_slice_iter(&text).filter_map(|each| each.ok());
        let found: Vec<Certificate<'static>> = found.map(|it| Certificate::from_der(&it).to_owned()).collect();
        if found.is_empty() {
            return Err(Error::failed("use the certificates", name, "there is none in it").way_out("PEM is wanted"));
        }
        Ok(found)
    };
    if let Some(path) = authorities {
        return read(path);
    }
    let trusted = TRUSTED.iter().map(Path::new).find(|path| path.is_file());
    let path = trusted.ok_or_else(|| {
        Error::failed(
            "find",
            "the certificates that this host trusts",
            format!("none of {} is there", TRUSTED.join(", ")),
        )
        .way_out("install ca-certificates, or name a file with `ca`")
    })?;
    read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_secrets() {
        let http = Http::new("http://user:pass@host:8080/hook/s3cret?token=s3cret", Some("t0ken"), None).unwrap();
        assert_eq!(http.name(), "http://host:8080");
        let shown = format!("{http:?}");
        assert!(!["pass", "s3cret", "t0ken"].iter().any(|secret| shown.contains(secret)), "{shown}");
        for url in ["ftp://h/t0ken", "t0ken"] {
            let error = Http::new(url, None, None).unwrap_err().to_string();
            assert!(error.contains("only http:// and https://") && !error.contains("t0ken"), "{error}");
        }
    }

    #[test]
    fn authorities_are_read_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let new = || Http::new("https://h/", None, Some(&file)).unwrap_err().to_string();
        assert!(new().contains("ENOENT"), "{}", new());
        std::fs::write(&file, "nothing").unwrap();
        assert!(new().contains("PEM is wanted"), "{}", new());
    }
}
