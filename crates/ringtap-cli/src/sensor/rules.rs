//! Owns: rule files into a program, the report of what is not used, and `--check-rules`.
//! Does not: parse; `ringtap-detect` does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_detect::rules::{BitNames, Classes, Coverage, Reason, Rejected, RuleSet, Variables, idle};
use ringtap_detect::{Precedence, Program};
use serde_json::json;

use super::config::Config;
use super::output::wants;
use super::{Args, Event};

/// A program, and what belongs to it.
pub(super) struct Loaded {
    pub(super) program: Program,
    pub(super) classes: Classes,
    pub(super) bits: BitNames,
    pub(super) rejected: Vec<Rejected>,
    /// Rules of the program that can't match, because none sets the bits they ask for.
    pub(super) idle: usize,
    /// Of `--priority-rules`.
    pub(super) precedence: Option<Arc<Precedence>>,
}

/// How many rules there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    /// In use, those that can't match included.
    pub(super) rules: usize,
    pub(super) idle: usize,
    pub(super) left_out: usize,
}

impl Used {
    pub(super) fn of(loaded: &Loaded) -> Self {
        Self { rules: loaded.program.rules().len(), idle: loaded.idle, left_out: loaded.rejected.len() }
    }
}

impl Loaded {
    /// Rules that can match.
    pub(super) fn usable(&self) -> usize {
        self.program.rules().len() - self.idle
    }

    /// The first rule that is not used, as the end of a cause.
    fn first_rejected(&self) -> String {
        self.rejected.first().map_or_else(String::new, |first| format!("; the first that is not: {first}"))
    }

    /// Refuses to take the place of `in_use` usable rules with less than half as many: a file that was cut or broken looks so.
    ///
    /// # Errors
    /// They are fewer, and `--reload-fewer` was not given.
    pub(super) fn check_against(self, args: &Args, in_use: usize) -> Result<Self> {
        if args.reload_fewer || self.usable() * 2 >= in_use {
            return Ok(self);
        }
        let total = self.program.rules().len() + self.rejected.len();
        let cause =
            format!("{} of {total} are usable, and {in_use} are in use{}", self.usable(), self.first_rejected());
        Err(Error::failed("load again", "rules", cause)
            .way_out("mend the files and send SIGHUP again, or start with --reload-fewer"))
    }
}

/// Reads rule files; `bits` are those named before a reload.
///
/// # Errors
/// A file can't be read, no rule of the files is usable, or with `--strict` one is not used.
pub(super) fn load(args: &Args, variables: &Variables, bits: BitNames) -> Result<Loaded> {
    let files: Vec<PathBuf> = args.rules.iter().chain(&args.priority_rules).cloned().collect();
    if files.is_empty() && wants(args, Event::Alert) {
        return Err(Error::usage("start", "sensor", "there are no rules")
            .way_out("name rule files with -S, or ask for events that need none: --events flow,anomaly,stats"));
    }
    let loaded = read(args, &files, variables, bits)?;
    if !files.is_empty() && loaded.usable() == 0 {
        let names = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        let total = loaded.program.rules().len() + loaded.rejected.len();
        let cause = match total {
            0 => "there is none".to_owned(),
            _ => format!("none of {total} is usable{}", loaded.first_rejected()),
        };
        return Err(Error::failed("use rules of", names, cause)
            .way_out("`ringtap sensor --check-rules FILE` says what is wrong with each"));
    }
    if let (true, Some(first)) = (args.strict, loaded.rejected.first()) {
        let cause = format!("{} rules are not used; the first: {first}", loaded.rejected.len());
        return Err(Error::failed("use all of", "rules", cause).way_out("--check-rules names each; leave --strict out"));
    }
    Ok(loaded)
}

fn read(args: &Args, files: &[PathBuf], variables: &Variables, bits: BitNames) -> Result<Loaded> {
    let classes = classes(args, files)?;
    let mut set = RuleSet::with_bits(bits);
    for file in files {
        let name = file.display().to_string();
        let text = std::fs::read(file).map_err(|error| Error::os("read rules", &name, &error))?;
        set.add(&name, &text, variables, &classes);
    }
    let mut rejected = Vec::new();
    let (program, bits) = Program::new(set, &mut rejected)
        .map_err(|cause| Error::failed("compile", "rules", cause).way_out("use fewer"))?;
    let precedence = precedence(args, &program)?;
    let idle = idle(program.rules()).len();
    Ok(Loaded { program, classes, bits, rejected, idle, precedence })
}

/// Which packets go first, by the rules of the files that were named for it.
fn precedence(args: &Args, program: &Program) -> Result<Option<Arc<Precedence>>> {
    if args.priority_rules.is_empty() {
        return Ok(None);
    }
    let files: Vec<String> = args.priority_rules.iter().map(|file| file.display().to_string()).collect();
    let precedence = Precedence::of(program.rules().filter(|rule| files.iter().any(|file| **file == *rule.meta.file)));
    let precedence = precedence.map_err(|cause| {
        Error::usage("use", "--priority-rules", cause).way_out("name the addresses or ports that matter most")
    })?;
    Ok(Some(Arc::new(precedence)))
}

fn classes(args: &Args, files: &[PathBuf]) -> Result<Classes> {
    let beside = files.first().and_then(|file| file.parent()).map(|folder| folder.join("classification.config"));
    let path = match (&args.classification, beside) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) if path.is_file() => path,
        _ => return Ok(Classes::default()),
    };
    let name = path.display().to_string();
    let text = std::fs::read(&path).map_err(|error| Error::os("read classes", &name, &error))?;
    let mut classes = Classes::default();
    for line in classes.add(&String::from_utf8_lossy(&text)) {
        eprintln!("ringtap: warning: {name}:{line}: is no class");
    }
    Ok(classes)
}

/// Names the rules that are not used, the first few each and the rest by number, and says how many can't match.
pub(super) fn tell(loaded: &Loaded) {
    const SHOWN: usize = 10;
    let rejected = &loaded.rejected;
    for rejected in rejected.iter().take(SHOWN) {
        eprintln!("ringtap: warning: {rejected}");
    }
    if rejected.len() > SHOWN {
        eprintln!("ringtap: warning: {} more rules are not used: --check-rules names each", rejected.len() - SHOWN);
    }
    if loaded.idle > 0 {
        let idle = loaded.idle;
        eprintln!("ringtap: warning: {idle} of the rules in use {IDLE}: --check-rules names each");
    }
}

/// What is wrong with idle rules.
const IDLE: &str = "can't match, because no rule in use sets the flowbits they ask for";

/// `--check-rules`
pub(super) fn check(args: &Args) -> Result<ExitCode> {
    let config = Config::of(args)?;
    let files: Vec<PathBuf> = args.check_rules.iter().chain(&args.rules).cloned().collect();
    let loaded = read(args, &files, &config.variables, BitNames::default())?;
    let coverage = Coverage::of(&loaded.rejected, loaded.program.rules().len());
    let total = coverage.used + coverage.left_out();
    let idle = idle(loaded.program.rules());
    if args.json {
        let list = |counts: &[(String, usize)]| {
            counts.iter().map(|(option, count)| json!({ "option": option, "rules": count })).collect::<Vec<_>>()
        };
        let size = loaded.program.size();
        println!(
            "{}",
            json!({
                "rules": total, "used": coverage.used, "idle": idle.iter().map(|rule| json!({
                    "file": &*rule.meta.file, "line": rule.meta.line, "sid": rule.meta.sid,
                })).collect::<Vec<_>>(), "unsupported": list(&coverage.unsupported), "broken": list(&coverage.broken),
                "groups": size.groups, "matcher_bytes": size.matchers,
                "rejected": loaded.rejected.iter().map(|r| json!({
                    "file": &*r.file, "line": r.line, "sid": r.sid, "reason": r.reason.to_string(),
                    "unsupported": matches!(r.reason, Reason::Unsupported { .. }),
                })).collect::<Vec<_>>(),
            })
        );
    } else {
        for rejected in &loaded.rejected {
            println!("{rejected}");
        }
        for rule in &idle {
            println!(
                "{}:{}: sid {}: can't match: no rule in use sets its flowbits",
                rule.meta.file, rule.meta.line, rule.meta.sid
            );
        }
        show(&coverage, total);
        if !idle.is_empty() {
            println!("\n{} of the rules in use {IDLE}", idle.len());
        }
    }
    let fails = args.strict && coverage.left_out() > 0;
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(coverage: &Coverage, total: usize) {
    let percent = |count: usize| count as f64 * 100.0 / total.max(1) as f64;
    println!("\n{} rules, {} used ({:.1} %)", total, coverage.used, percent(coverage.used));
    for (title, counts) in [("not supported", &coverage.unsupported), ("broken", &coverage.broken)] {
        let sum: usize = counts.iter().map(|(_, count)| count).sum();
        if sum > 0 {
            println!("\n{title}: {sum} ({:.1} %), by the first such option", percent(sum));
            for (option, count) in counts {
                println!("{count:>8}  {option}");
            }
        }
    }
}
