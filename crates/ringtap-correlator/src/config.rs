//! Owns: the `[correlate]` table of ringtap.toml.
//! Does not: hold secrets, but the file may hold those of others.

use std::path::Path;

use ringtap::{Error, Result};
use ringtap_run::secrets::read_private;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    correlate: Correlate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Correlate {
    webhook: Option<Webhook>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Webhook {
    url: String,
}

/// Where announcements are posted, if the file says so.
///
/// # Errors
/// The file can't be read, others may read it, or something in it is not understood (with its line).
pub fn webhook(path: &Path) -> Result<Option<String>> {
    let name = path.display().to_string();
    let text = read_private(path)?;
    let file: File = toml::from_str(&text).map_err(|error| {
        // The message alone: the lines around the place may hold a secret.
        let at = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Error::usage("read the configuration", format!("{name}:{at}"), error.message())
    })?;
    let url = file.correlate.webhook.map(|webhook| webhook.url);
    match url {
        Some(url) if !url.starts_with("http://") => {
            Err(Error::usage("use", format!("{url:?} as webhook"), "only http:// is spoken")
                .way_out("post to a relay on this host that speaks TLS"))
        }
        url => Ok(url),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_table_beside_others() {
        let read = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
            webhook(file.path()).map_err(|error| error.to_string())
        };
        let url = "[trap]\ncommunities = [\"x\"]\n[correlate.webhook]\nurl = \"http://127.0.0.1:1/a\"\n";
        assert_eq!(read(url).unwrap().as_deref(), Some("http://127.0.0.1:1/a"));
        assert_eq!(read("[trap]\n").unwrap(), None);
        assert!(read("[correlate]\nweb = 1\n").unwrap_err().contains(":2"));
        assert!(read(&url.replace("http:", "https:")).unwrap_err().contains("only http://"));
    }
}
