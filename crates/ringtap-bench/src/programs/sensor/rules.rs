//! Owns: the rules of a measurement: 160 plain contents, alone or behind all rules of a folder that the sensor takes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use ringtap::{Error, Result};
use ringtap_detect::Program;
use ringtap_detect::rules::{Classes, RuleSet, Variables};

/// Own rules.
const OWN: u64 = 160;
/// Number of the first of them.
pub(crate) const FIRST_SID: u64 = 9_000_000;
/// Where attacks go; the flood goes to another port.
pub(crate) const ATTACKED_PORT: u16 = 9_001;
/// The receiving host of the testbed, as HOME_NET.
pub(crate) const HOME_NET: &str = "198.18.0.2/32";

/// Payload number `number`: one of the own rules' contents in 22 bytes.
pub(crate) fn attack(number: u64) -> Vec<u8> {
    format!("..attack-{:03}-.........", number % OWN).into_bytes()
}

/// Writes the rules into one file that both programs read; `own`: with the 160. Their number.
///
/// # Errors
/// A folder that can't be read, or a file that can't be written.
pub(crate) fn write(to: &Path, folder: Option<&Path>, costly: u32, own: bool) -> Result<usize> {
    let mut text = String::new();
    let mut count = costly as usize;
    for sid in 1..=costly {
        // For the flood's port alone: no content that says beforehand that it can't match.
        let _ = writeln!(
            text,
            "alert udp any any -> any 9000 (pcre:\"/x[a-w]+{sid}y/\"; sid:{};)",
            FIRST_SID - u64::from(sid)
        );
    }
    if let Some(folder) = folder {
        let taken = taken(folder, &mut text)?;
        if taken == 0 {
            return Err(Error::failed("take rules from", folder.display().to_string(), "no file there has any")
                .way_out("name the folder in which the rule files are"));
        }
        count += taken;
    }
    let own = if own { OWN } else { 0 };
    for number in 0..own {
        let sid = FIRST_SID + number;
        let _ = writeln!(
            text,
            "alert udp any any -> any any (msg:\"attack {number}\"; content:\"attack-{number:03}-\"; sid:{sid};)"
        );
    }
    std::fs::write(to, text).map_err(|error| Error::os("write", to.display().to_string(), &error))?;
    Ok(count + own as usize)
}

/// Writes the own rules for the attacked port alone, to go first.
///
/// # Errors
/// The file can't be written.
pub(crate) fn write_first(to: &Path) -> Result<()> {
    let rule = |number: u64| {
        let sid = FIRST_SID + OWN + number;
        format!(
            "alert udp any any -> any {ATTACKED_PORT} (msg:\"first {number}\"; content:\"attack-{number:03}-\"; sid:{sid};)\n"
        )
    };
    let text: String = (0..OWN).map(rule).collect();
    std::fs::write(to, text).map_err(|error| Error::os("write", to.display().to_string(), &error))
}

/// Adds the rules that the sensor takes, line by line; their number.
fn taken(folder: &Path, text: &mut String) -> Result<usize> {
    let failed = |error: std::io::Error| Error::os("read", folder.display().to_string(), &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "rules") {
            files.push(path);
        }
    }
    files.sort();
    let mut count = 0;
    for file in files {
        let bytes = std::fs::read(&file).map_err(failed)?;
        let mut set = RuleSet::default();
        set.add("file", &bytes, &Variables::default(), &Classes::default());
        let mut rejected = Vec::new();
        let program = Program::new(set, &mut rejected)
            .map_err(|cause| Error::failed("compile", file.display().to_string(), cause))?;
        let lines: BTreeSet<usize> = rejected.iter().map(|rejected| rejected.line as usize).collect();
        count += program.0.rules().len();
        for (at, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            let is_rule = line.starts_with("alert") || line.starts_with("pass") || line.starts_with("drop");
            if is_rule && !lines.contains(&(at + 1)) {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    Ok(count)
}
