//! Owns: rule files into a program, the report of what is not used, and `--check-rules`.
//! Does not: parse; `ringtap-detect` does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_detect::rules::{BitNames, Classes, Coverage, Reason, Rejected, RuleSet, Variables};
use ringtap_detect::{Precedence, Program};
use serde_json::json;

use super::Args;
use super::config::Config;

/// A program, and what belongs to it.
pub(super) struct Loaded {
    pub(super) program: Program,
    pub(super) classes: Classes,
    pub(super) bits: BitNames,
    pub(super) rejected: Vec<Rejected>,
    /// Of `--priority-rules`.
    pub(super) precedence: Option<Arc<Precedence>>,
}

/// Reads rule files; `bits` are those named before a reload.
///
/// # Errors
/// A file can't be read, or with `--strict` a rule is not used.
pub(super) fn load(args: &Args, variables: &Variables, bits: BitNames) -> Result<Loaded> {
    let files: Vec<PathBuf> = args.rules.iter().chain(&args.priority_rules).cloned().collect();
    let loaded = read(args, &files, variables, bits)?;
    if let (true, Some(first)) = (args.strict, loaded.rejected.first()) {
        let cause = format!("{} rules are not used; the first: {first}", loaded.rejected.len());
        return Err(Error::failed("use all of", "rules", cause).way_out("--check-rules names each; leave --strict out"));
    }
    Ok(loaded)
}

fn read(args: &Args, files: &[PathBuf], variables: &Variables, bits: BitNames) -> Result<Loaded> {
    if files.is_empty() {
        return Err(Error::usage("start", "sensor", "there are no rules").way_out("name rule files with -S"));
    }
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
    Ok(Loaded { program, classes, bits, rejected, precedence })
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

/// Names the rules that are not used, the first few each and the rest by number.
pub(super) fn tell(rejected: &[Rejected]) {
    const SHOWN: usize = 10;
    for rejected in rejected.iter().take(SHOWN) {
        eprintln!("ringtap: warning: {rejected}");
    }
    if rejected.len() > SHOWN {
        eprintln!("ringtap: warning: {} more rules are not used: --check-rules names each", rejected.len() - SHOWN);
    }
}

/// `--check-rules`
pub(super) fn check(args: &Args) -> Result<ExitCode> {
    let config = Config::of(args)?;
    let files: Vec<PathBuf> = args.check_rules.iter().chain(&args.rules).cloned().collect();
    let loaded = read(args, &files, &config.variables, BitNames::default())?;
    let coverage = Coverage::of(&loaded.rejected, loaded.program.rules().len());
    let total = coverage.used + coverage.left_out();
    if args.json {
        let list = |counts: &[(String, usize)]| {
            counts.iter().map(|(option, count)| json!({ "option": option, "rules": count })).collect::<Vec<_>>()
        };
        let size = loaded.program.size();
        println!(
            "{}",
            json!({
                "rules": total, "used": coverage.used, "unsupported": list(&coverage.unsupported), "broken": list(&coverage.broken),
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
        show(&coverage, total);
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
