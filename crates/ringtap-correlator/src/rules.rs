//! Owns: rule files of a folder as an automaton, and what is to be said of each rule.
//! Does not: know Sigma; that is `ringtap_sigma`'s.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_sigma::{Automaton, Limits, Rejected, RuleSet};

use crate::event::Format;
use crate::fields;
use crate::logsource::belongs;

/// Folders inside each other.
const MAX_DEPTH: usize = 16;

/// Rules that were read.
pub struct Rules {
    /// Those that are used.
    pub automaton: Arc<Automaton>,
    /// The others, by file and line.
    pub rejected: Vec<Rejected>,
    /// Files that were read.
    pub files: usize,
}

impl Rules {
    /// Reads `*.yml` and `*.yaml` of a folder and those below it, or one file.
    ///
    /// # Errors
    /// Something can't be read, or there is no rule file.
    pub fn read(path: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(path, 0, &mut files)?;
        if files.is_empty() {
            return Err(Error::failed("read rules of", path.display().to_string(), "there is no *.yml")
                .way_out("name a folder with Sigma rules: rules/correlation has those that Ringtap ships"));
        }
        files.sort();
        let mut set = RuleSet::new();
        for file in &files {
            let name = file.display().to_string();
            let bytes = fs::read(file).map_err(|error| Error::os("read rules of", &name, &error))?;
            set.add(&name, &String::from_utf8_lossy(&bytes));
        }
        let (automaton, rejected) = set.compile(Limits::default());
        Ok(Self { automaton: Arc::new(automaton), rejected, files: files.len() })
    }

    /// What is read for use: with no usable rule there would be nothing to do, and a reload would forget all windows.
    ///
    /// # Errors
    /// As [`Rules::read`], or no rule is usable.
    pub fn read_for_use(path: &Path) -> Result<Self> {
        let this = Self::read(path)?;
        if !this.automaton.detections().is_empty() {
            return Ok(this);
        }
        let first = this.rejected.first().map_or_else(String::new, |first| format!("; the first that is not: {first}"));
        let cause = format!("no rule of {} files is usable{first}", this.files);
        Err(Error::failed("use rules of", path.display().to_string(), cause)
            .way_out("`ringtap correlate --check-rules --rules DIR` says what is wrong with each"))
    }

    /// A line for each rule: what it is and what of it can't work; then those that are not used, with file and line.
    #[must_use]
    pub fn check(&self) -> Vec<String> {
        let automaton = &self.automaton;
        let mut lines = Vec::new();
        for detection in automaton.detections() {
            let logsource = automaton.logsource(detection);
            let kinds = ["alert", "anomaly", "dns", "flow", "http", "ssh", "stats", "tls", "packet", "netflow"];
            let reached =
                kinds.iter().any(|kind| belongs(logsource, Format::Eve, kind)) || belongs(logsource, Format::Alarm, "");
            let only = if reached { "" } else { "; for JSON lines only: no other input has its logsource" };
            let told = if detection.announces { ", told by itself" } else { "" };
            lines.push(format!("used: {}: detection{told}{only}", detection.head.label()));
        }
        for rule in automaton.rules() {
            let steps: Vec<&str> = rule.steps(automaton).map(|(_, label)| label).collect();
            let span = std::time::Duration::from_nanos(rule.timespan_ns.unsigned_abs());
            let told = if rule.announces { "" } else { ", a part of others" };
            lines.push(format!(
                "used: {}: correlation of {} by {} within {span:?}{told}; at most {} bytes a key",
                rule.head.label(),
                steps.join(", "),
                if rule.group_by.is_empty() { "nothing".to_owned() } else { rule.group_by.join(", ") },
                rule.window_bytes(),
            ));
        }
        for field in automaton.fields().iter().filter(|field| fields::find(field).is_none()) {
            lines.push(format!(
                "field {field}: not in the field table: it is looked for by this name in EVE and JSON lines"
            ));
        }
        lines.extend(self.rejected.iter().map(|rejected| format!("not used: {rejected}")));
        lines
    }
}

fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error| Error::os("read rules of", path.display().to_string(), &error);
    if !path.metadata().map_err(failed)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && depth < MAX_DEPTH {
            collect(&path, depth + 1, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_good_and_bad_rules() {
        let folder = tempfile::tempdir().unwrap();
        let error = Rules::read(folder.path()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("no *.yml") && error.contains("rules/correlation"), "{error}");
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/kinds.yml"), include_str!("../tests/rules/kinds.yml")).unwrap();
        fs::write(folder.path().join("bad.yaml"), b"title: x\n\xff: [").unwrap();
        fs::write(folder.path().join("notes.txt"), "no rules").unwrap();
        let rules = Rules::read(folder.path()).unwrap();
        assert_eq!((rules.files, rules.automaton.rules().len(), rules.rejected.len()), (2, 6, 1));
        let check = rules.check();
        assert!(check.iter().any(|line| line.contains("used: chain: correlation of three, values by user within 20s")));
        assert!(check.iter().any(|line| line.contains("used: a: detection; for JSON lines only")), "{check:?}");
        assert!(check.iter().any(|line| line.contains("field kind: not in the field table")));
        assert!(check.iter().any(|line| line.starts_with("not used: ") && line.contains("bad.yaml:")));
        assert!(Rules::read(Path::new("/no/such")).is_err());
    }
}
