//! Owns: how a connection is protected: TLS with which certificates, SASL with which name and password.
//! Does not: read files, or show a password.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, crypto};

/// How to talk to brokers; the default is in the clear, as nobody.
#[derive(Clone, Debug, Default)]
pub struct Security {
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) sasl: Option<Sasl>,
}

/// A SASL mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Name and password as they are: within TLS only (RFC 4616).
    Plain,
    /// SCRAM-SHA-256 (RFC 5802, RFC 7677).
    ScramSha256,
    /// SCRAM-SHA-512.
    ScramSha512,
}

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl FromStr for Mechanism {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Plain, Self::ScramSha256, Self::ScramSha512]
            .into_iter()
            .find(|mechanism| mechanism.name() == text)
            .ok_or_else(|| "expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512".to_owned())
    }
}

/// Who we are to a broker.
#[derive(Clone)]
pub struct Sasl {
    /// How it is proven.
    pub mechanism: Mechanism,
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {:?}", self.mechanism.name(), self.user)
    }
}

impl Security {
    /// TLS with brokers whose certificates one of `authorities` (PEM) has signed, showing `own` (certificate chain and key, PEM) where
    /// brokers ask for one; and SASL.
    ///
    /// # Errors
    /// No certificate or key is in the texts, or they don't belong together.
    pub fn new(authorities: Option<&[u8]>, own: Option<(&[u8], &[u8])>, sasl: Option<Sasl>) -> Result<Self, String> {
        let Some(authorities) = authorities else { return Ok(Self { tls: None, sasl }) };
        let mut roots = RootCertStore::empty();
        for root in certificates(authorities)? {
            roots.add(root).map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key: {error}"))?;
                builder.with_client_auth_cert(certificates(chain)?, key).map_err(|error| error.to_string())?
            }
        };
        Ok(Self { tls: Some(Arc::new(config)), sasl })
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err("there is no certificate (PEM) in it".to_owned()),
        Err(error) => Err(format!("a certificate: {error}")),
    }
}
