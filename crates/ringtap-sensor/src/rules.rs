//! Owns: rule files into a program, which packets go first, and what is told of rules that are not used.
//! Does not: parse; `ringtap-detect` does.

pub(crate) mod check;
pub(crate) mod in_use;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_detect::rules::{BitNames, Classes, Ineffective, Lists, Rejected, RuleSet, Variables, idle};
use ringtap_detect::{Precedence, Program};
use ringtap_run::notes;

use crate::config::{Config, Iprep};
use crate::options::RuleOptions;

/// What is wrong with idle rules.
const IDLE: &str = "can't match, because no rule in use sets the flowbits they ask for";

/// A program, and what belongs to it.
pub(crate) struct Loaded {
    pub(crate) program: Program,
    pub(crate) classes: Classes,
    pub(crate) bits: BitNames,
    pub(crate) rejected: Vec<Rejected>,
    /// Rules of the program that can't match, because none sets the bits they ask for.
    pub(crate) idle: usize,
    /// Of the priority files.
    pub(crate) precedence: Option<Arc<Precedence>>,
    /// Files of datasets that the rules name.
    pub(crate) lists: Vec<PathBuf>,
    /// Lines of the file of thresholds that have no effect.
    pub(crate) ineffective: Vec<String>,
    /// Lines of the classes' file that are no class, and rules whose sets are not saved.
    warnings: Vec<String>,
}

/// How many rules there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// In use, those that can't match included.
    pub(crate) rules: usize,
    pub(crate) idle: usize,
    pub(crate) left_out: usize,
}

impl Used {
    pub(crate) fn of(loaded: &Loaded) -> Self {
        Self { rules: loaded.program.rules().len(), idle: loaded.idle, left_out: loaded.rejected.len() }
    }

    /// Rules that can match.
    pub(crate) fn usable(self) -> usize {
        self.rules - self.idle
    }
}

impl Loaded {
    /// Rules that can match.
    fn usable(&self) -> usize {
        Used::of(self).usable()
    }

    /// The first rule that is not used, as the end of a cause.
    fn first_rejected(&self) -> String {
        self.rejected.first().map_or_else(String::new, |first| format!("; the first that is not: {first}"))
    }

    /// Refuses to take the place of `in_use` usable rules with less than half as many: a file that was cut or broken looks so.
    ///
    /// # Errors
    /// They are fewer, and the options do not allow it.
    pub(crate) fn check_against(self, options: &RuleOptions, in_use: usize) -> Result<Self> {
        if options.reload_fewer || self.usable() * 2 >= in_use {
            return Ok(self);
        }
        let total = self.program.rules().len() + self.rejected.len();
        let cause =
            format!("{} of {total} are usable, and {in_use} are in use{}", self.usable(), self.first_rejected());
        Err(Error::failed("load again", "rules", cause)
            .way_out("mend the files and send SIGHUP again, or start with --reload-fewer"))
    }

    /// Names the rules that are not used, the first few each and the rest by number, and says how many can't match.
    pub(crate) fn tell(&self) {
        const SHOWN: usize = 10;
        for warning in &self.warnings {
            notes::warn(warning);
        }
        for line in self.ineffective.iter().take(SHOWN) {
            notes::warn(line);
        }
        if self.ineffective.len() > SHOWN {
            let rest = self.ineffective.len() - SHOWN;
            notes::warn(&format!("{rest} more lines of that file have no effect: --check-rules names each"));
        }
        for rejected in self.rejected.iter().take(SHOWN) {
            notes::warn(&rejected.to_string());
        }
        if self.rejected.len() > SHOWN {
            let rest = self.rejected.len() - SHOWN;
            notes::warn(&format!("{rest} more rules are not used: --check-rules names each"));
        }
        if self.idle > 0 {
            notes::warn(&format!("{} of the rules in use {IDLE}: --check-rules names each", self.idle));
        }
    }
}

fn file_names(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Reads the rule files; `bits` are those named before a reload. `needed`: without any file there would be nothing to do. `alive` is
/// called at each step: for each file, and around what is made of all.
///
/// # Errors
/// A file can't be read, no rule of the files is usable, or one is not used and the options are strict.
pub(crate) fn load(
    options: &RuleOptions,
    needed: bool,
    config: &Config,
    bits: BitNames,
    alive: &mut dyn FnMut(),
) -> Result<Loaded> {
    let files: Vec<PathBuf> = options.files.iter().chain(&options.priority).cloned().collect();
    if files.is_empty() && needed {
        return Err(Error::usage("start", "sensor", "there are no rules")
            .way_out("name rule files with -S, or ask for events that need none: --events flow,anomaly,stats"));
    }
    let loaded = read(options, &files, config, bits, alive)?;
    if !files.is_empty() && loaded.usable() == 0 {
        let total = loaded.program.rules().len() + loaded.rejected.len();
        let cause = match total {
            0 => "there is none".to_owned(),
            _ => format!("none of {total} is usable{}", loaded.first_rejected()),
        };
        return Err(Error::failed("use rules of", file_names(&files), cause)
            .way_out("`ringtap sensor --check-rules FILE` says what is wrong with each"));
    }
    if let (true, Some(first)) = (options.strict, loaded.rejected.first()) {
        let cause = format!("{} of them are not used, the first that is not: {first}", loaded.rejected.len());
        return Err(Error::failed("use all rules of", file_names(&files), cause)
            .way_out("leave --strict out; --check-rules names each"));
    }
    if let (true, Some(first)) = (options.strict, loaded.ineffective.first()) {
        return Err(Error::failed("use all of", "thresholds", first).way_out("mend the line; leave --strict out"));
    }
    Ok(loaded)
}

/// Whether the lists that a configuration names can be read and make sense.
///
/// # Errors
/// One that can't, or does not.
pub(crate) fn check_lists(config: &Config) -> Result<()> {
    let mut set = RuleSet::default();
    set.lists = Lists::new(list);
    reputations(&mut set.lists, config)?;
    config.thresholds.as_deref().map(|file| tune(&mut set, file, &config.variables)).transpose().map(drop)
}

fn reputations(lists: &mut Lists, config: &Config) -> Result<()> {
    let Some(Iprep { categories, files }) = &config.iprep else { return Ok(()) };
    let read = lists.read_reputations(categories, files);
    read.map_err(|cause| Error::failed("read reputations of", "[iprep]", cause))
}

fn read(
    options: &RuleOptions,
    files: &[PathBuf],
    config: &Config,
    bits: BitNames,
    alive: &mut dyn FnMut(),
) -> Result<Loaded> {
    let (classes, mut warnings) = classes(options, files)?;
    let mut set = RuleSet::with_bits(bits);
    set.lists = Lists::new(list);
    reputations(&mut set.lists, config)?;
    for file in files {
        alive();
        let name = file.display().to_string();
        let text = std::fs::read(file).map_err(|error| Error::os("read rules", &name, &error))?;
        set.add(&name, &text, &config.variables, &classes);
    }
    let ineffective = config.thresholds.as_deref().map(|file| tune(&mut set, file, &config.variables)).transpose()?;
    let lists = set.lists.files().map(PathBuf::from).collect();
    warnings.extend_from_slice(set.lists.unsaved());
    let mut rejected = Vec::new();
    alive();
    let (program, bits) = Program::new(set, &mut rejected)
        .map_err(|cause| Error::failed("compile", "rules", cause).way_out("use fewer"))?;
    alive();
    let precedence = precedence(options, &program)?;
    let idle = idle(program.rules()).len();
    let ineffective = ineffective.unwrap_or_default();
    Ok(Loaded { program, classes, bits, rejected, idle, precedence, lists, ineffective, warnings })
}

/// The content of a list's file.
fn list(file: &str) -> std::result::Result<Vec<u8>, String> {
    use std::io::Read;
    /// Bytes of one.
    const MOST: u64 = 256 << 20;
    let mut text = Vec::new();
    let open = std::fs::File::open(file).map_err(|error| error.to_string())?;
    open.take(MOST + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST { Err(format!("longer than {} MiB", MOST >> 20)) } else { Ok(text) }
}

/// Applies a file of thresholds; its lines that have no effect, each with its place and why.
fn tune(set: &mut RuleSet, file: &Path, variables: &Variables) -> Result<Vec<String>> {
    let name = file.display().to_string();
    let text = std::fs::read(file).map_err(|error| Error::os("read thresholds", &name, &error))?;
    let ineffective = set.tune(&text, variables);
    Ok(ineffective.into_iter().map(|Ineffective { line, reason }| format!("{name}:{line}: {reason}")).collect())
}

/// Which packets go first, by the rules of the files that were named for it.
fn precedence(options: &RuleOptions, program: &Program) -> Result<Option<Arc<Precedence>>> {
    if options.priority.is_empty() {
        return Ok(None);
    }
    let files: Vec<String> = options.priority.iter().map(|file| file.display().to_string()).collect();
    let precedence = Precedence::of(program.rules().filter(|rule| files.iter().any(|file| **file == *rule.meta.file)));
    let precedence = precedence.map_err(|cause| {
        Error::usage("use", "--priority-rules", cause).way_out("name the addresses or ports that matter most")
    })?;
    Ok(Some(Arc::new(precedence)))
}

/// Classes, and the lines of their file that are none.
fn classes(options: &RuleOptions, files: &[PathBuf]) -> Result<(Classes, Vec<String>)> {
    let beside = files.first().and_then(|file| file.parent()).map(|folder| folder.join("classification.config"));
    let path = match (&options.classification, beside) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) if path.is_file() => path,
        _ => return Ok((Classes::default(), Vec::new())),
    };
    let name = path.display().to_string();
    let text = std::fs::read(&path).map_err(|error| Error::os("read classes", &name, &error))?;
    let mut classes = Classes::default();
    let wrong = classes.add(&String::from_utf8_lossy(&text));
    Ok((
        classes,
        wrong
            .into_iter()
            .map(|line| format!("{name}:{line}: is no class: expected `config classification: NAME,TEXT,PRIORITY`"))
            .collect(),
    ))
}
