//! The station's side of TLS (RFC 5425): its certificate, and whose certificates it asks for.
//!
//! Owns the reading of the files. Handshakes and records are rustls', with the cryptography of ring.

use std::path::Path;
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_run::secrets::read_private;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, crypto};

/// With this certificate (its chain, PEM) and its key; where `clients` (certificates, PEM) is given, peers must show a certificate that one
/// of these has signed.
///
/// # Errors
/// A file can't be read or holds nothing of the kind, others may read the key, or key and certificate do not belong together.
pub(crate) fn server(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Arc<ServerConfig>> {
    let chain = certificates(certificate)?;
    let text = read_private("key", key)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| wrong("key", key, &error))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let failed = |error: rustls::Error| wrong("certificate", certificate, &error);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(|error| wrong("certificate", path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong("certificate", path, &error))?)
        }
    };
    Ok(Arc::new(builder.with_single_cert(chain, key).map_err(failed)?))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let failed = |error: &std::io::Error| Error::os("read the certificate", path.display().to_string(), error);
    let text = std::fs::read(path).map_err(|error| failed(&error))?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| wrong("certificate", path, &error))?;
    if found.is_empty() {
        return Err(wrong("certificate", path, &"there is none in it"));
    }
    Ok(found)
}

fn wrong(what: &str, path: &Path, cause: &impl std::fmt::Display) -> Error {
    Error::failed(format!("use the {what}"), path.display().to_string(), cause)
        .way_out("PEM is wanted: see [trap.tls] in `ringtap trap --help`")
}
