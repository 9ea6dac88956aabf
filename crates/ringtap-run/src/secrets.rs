//! Files that nobody else may read, and numbers that nobody can foresee.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ringtap::{Error, Result};

use crate::one_file;

/// Reads a file that may hold secrets; `what` it is goes into errors: "configuration" or "key".
///
/// # Errors
/// It can't be read, or others may read it too.
pub fn read_private(what: &str, path: &Path) -> Result<String> {
    let (operation, name) = (format!("read the {what}"), path.display().to_string());
    let failed = |error: std::io::Error| Error::os(&operation, &name, &error);
    let mut file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    let mode = found.mode();
    if found.is_file() && mode & 0o077 != 0 {
        return Err(Error::failed(&operation, &name, format!("its mode is {:04o}", mode & 0o7777))
            .way_out(format!("it may hold secrets: chmod 600 {name}")));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Reads a file whose words become options of this program: nobody may write it but root and who runs this, or they would choose what
/// root loads and writes. A pipe is whoever started this one's.
///
/// # Errors
/// It can't be read; others may write it.
pub fn read_options(path: &Path) -> Result<String> {
    let (operation, name) = ("read the configuration", path.display().to_string());
    let failed = |error: std::io::Error| Error::os(operation, &name, &error);
    let mut file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    let (owner, mode) = (found.uid(), found.mode());
    let is_ours = owner == 0 || owner == nix::unistd::geteuid().as_raw();
    if found.is_file() && (!is_ours || mode & 0o022 != 0) {
        let cause = if is_ours {
            format!("its mode is {:04o}: others may write it", mode & 0o7777)
        } else {
            format!("user {owner} owns it and may write it")
        };
        return Err(Error::usage(operation, &name, cause)
            .way_out("it says what this program does: let it be root's or yours alone, or copy it"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Where a configuration is wrong (line) and why, without what stands there: that may be a secret.
#[must_use]
pub fn fault(text: &str, error: &toml::de::Error) -> (usize, String) {
    (error.span().map_or(0, |span| line(text, span.start)), without_values(error.message()))
}

/// The line of a text in which a position is.
#[must_use]
pub fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// What is wrong in a configuration, as its reader says it, without the values that it has found there: one of them may be
/// a secret.
fn without_values(message: &str) -> String {
    if let Some((unknown, known)) = unknown_field(message) {
        let shown = ringtap_output::printable(unknown);
        return format!("unknown field `{shown}`, {}", one_file::expected(unknown, &known));
    }
    let shows = ["invalid type", "invalid value", "invalid length", "unknown variant"];
    let Some(kind) = shows.into_iter().find(|kind| message.starts_with(kind)) else { return message.to_owned() };
    let expected = message.rfind(", expected").map_or("", |at| &message[at..]);
    format!("{kind}{expected}")
}

/// A key that is not known, and those that are: serde says "expected `a`", "expected `a` or `b`" or "expected one of `a`, `b`".
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let (unknown, rest) = message.strip_prefix("unknown field `")?.rsplit_once("`, expected ")?;
    Some((unknown, rest.split('`').skip(1).step_by(2).collect()))
}

/// A number that nobody can foresee, by getrandom(2).
///
/// # Errors
/// The kernel has none yet or refuses the call.
pub fn random() -> Result<u64> {
    getrandom::u64().map_err(|error| Error::failed("take a random number from", "the kernel", error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_called_what_it_is_and_read_by_its_owner_alone() {
        let folder = std::env::temp_dir().join(format!("ringtap-secrets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("o.key");
        let refused = |path: &Path| read_private("key", path).unwrap_err().to_string();
        assert!(refused(&file).contains("read the key") && refused(&file).contains("ENOENT"), "{}", refused(&file));
        assert!(refused(&folder).contains("EISDIR"), "{}", refused(&folder));
        std::fs::write(&file, "1:00").unwrap();
        for (mode, is_private) in [(0o644, false), (0o640, false), (0o600, true), (0o400, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            match read_private("key", &file) {
                Ok(text) => assert!(is_private && text == "1:00"),
                Err(error) => assert!(!is_private && error.to_string().contains("chmod 600"), "{error}"),
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn options_are_read_of_files_that_others_cannot_write() {
        let folder = std::env::temp_dir().join(format!("ringtap-options-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("ringtap.toml");
        std::fs::write(&file, "[capture]").unwrap();
        for (mode, is_read) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            match read_options(&file) {
                Ok(text) => assert!(is_read && text == "[capture]", "{mode:o}"),
                Err(error) => assert!(!is_read && error.to_string().contains("others may write"), "{error}"),
            }
        }
        if nix::unistd::geteuid().is_root() {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            let error = read_options(&file).unwrap_err().to_string();
            assert!(error.contains("user 65534"), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn values_are_not_told() {
        let secret = "invalid type: string \"s3cret, expected x\", expected a sequence";
        assert_eq!(without_values(secret), "invalid type, expected a sequence");
        assert_eq!(
            without_values("unknown variant `s3cret`, expected `a` or `b`"),
            "unknown variant, expected `a` or `b`"
        );
        for (said, told) in [
            ("unknown field `x`, expected `yes`", "unknown field `x`, expected `yes`"),
            ("unknown field `yse`, expected `yes` or `no`", "unknown field `yse`, the nearest known name is `yes`"),
            (
                "unknown field `x`, expected one of `a`, `b1`, `c1`",
                "unknown field `x`, expected one of `a`, `b1`, `c1`",
            ),
            ("unknown field `x`, there are no fields", "unknown field `x`, there are no fields"),
            ("unknown field `\u{1b}[2J`, expected `yes`", "unknown field `\u{fffd}[2J`, expected `yes`"),
        ] {
            assert_eq!(without_values(said), told);
        }
    }
}
