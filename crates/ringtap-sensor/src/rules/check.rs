//! Owns: the report on rule files without a run: what is used, and why the rest is not.
//! Does not: print it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ringtap::Result;
use ringtap_detect::rules::{BitNames, Coverage, Reason, idle};
use serde_json::{Value, json};

use super::{IDLE, Loaded, read};
use crate::config::Config;
use crate::options::{Input, Options, RuleOptions};

/// What became of the rules of some files.
pub struct Check {
    loaded: Loaded,
    coverage: Coverage,
}

/// Reads rule files, with the variables of `config` (a TOML file) and `rules`.
///
/// # Errors
/// A file can't be read, or the configuration makes no sense.
pub fn check_rules(rules: &RuleOptions, config: Option<&Path>) -> Result<Check> {
    let mut options = Options::new(Input::Files(Vec::new()));
    (options.rules, options.config) = (rules.clone(), config.map(Path::to_owned));
    let config = Config::of(&options)?;
    let files: Vec<PathBuf> = rules.files.iter().chain(&rules.priority).cloned().collect();
    let loaded = read(rules, &files, &config, BitNames::default(), &mut || {})?;
    let coverage = Coverage::of(&loaded.rejected, loaded.program.rules().len());
    Ok(Check { loaded, coverage })
}

impl Check {
    /// Rules that are not used, and lines of the file of thresholds that have no effect.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.coverage.left_out() + self.loaded.ineffective.len()
    }

    /// Lines of the file of classes that are none.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.loaded.warnings
    }

    fn total(&self) -> usize {
        self.coverage.used + self.coverage.left_out()
    }

    /// One JSON object.
    #[must_use]
    pub fn object(&self) -> Value {
        let list = |counts: &[(String, usize)]| {
            counts.iter().map(|(option, count)| json!({ "option": option, "rules": count })).collect::<Vec<_>>()
        };
        let Self { loaded, coverage } = self;
        let size = loaded.program.size();
        json!({
            "rules": self.total(),
            "used": coverage.used,
            "idle": idle(loaded.program.rules()).iter().map(|rule| json!({
                "file": &*rule.meta.file, "line": rule.meta.line, "sid": rule.meta.sid,
            })).collect::<Vec<_>>(),
            "unsupported": list(&coverage.unsupported),
            "broken": list(&coverage.broken),
            "thresholds_ineffective": loaded.ineffective,
            "groups": size.groups,
            "matcher_bytes": size.matchers,
            "rejected": loaded.rejected.iter().map(|rejected| json!({
                "file": &*rejected.file, "line": rejected.line, "sid": rejected.sid,
                "reason": rejected.reason.to_string(),
                "unsupported": matches!(rejected.reason, Reason::Unsupported { .. }),
            })).collect::<Vec<_>>(),
        })
    }

    /// For people: a line for each rule that is not used or can't match, then the sums.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for rejected in &self.loaded.rejected {
            let _ = writeln!(text, "{rejected}");
        }
        for line in &self.loaded.ineffective {
            let _ = writeln!(text, "{line}");
        }
        let idle = idle(self.loaded.program.rules());
        for rule in &idle {
            let meta = &rule.meta;
            let _ = writeln!(
                text,
                "{}:{}: sid {}: can't match: no rule in use sets its flowbits",
                meta.file, meta.line, meta.sid
            );
        }
        self.sums(&mut text);
        if !idle.is_empty() {
            let _ = writeln!(text, "\n{} of the rules in use {IDLE}", idle.len());
        }
        text
    }

    fn sums(&self, text: &mut String) {
        let (coverage, total) = (&self.coverage, self.total());
        let percent = |count: usize| count as f64 * 100.0 / total.max(1) as f64;
        let _ = writeln!(text, "\n{} rules, {} used ({:.1} %)", total, coverage.used, percent(coverage.used));
        for (title, counts) in [("not supported", &coverage.unsupported), ("broken", &coverage.broken)] {
            let sum: usize = counts.iter().map(|(_, count)| count).sum();
            if sum > 0 {
                let _ = writeln!(text, "\n{title}: {sum} ({:.1} %), by the first such option", percent(sum));
                for (option, count) in counts {
                    let _ = writeln!(text, "{count:>8}  {option}");
                }
            }
        }
    }
}
