//! Owns: tables of `ringtap.toml` whose keys are a command's options: `[capture]`, `[split]`, `[forward]`, `[correlate]`.
//! Does not: say what an option means; the command's own definitions do, and judge each value.
//!
//! What the file says is put before what was typed, without options that were typed or that contradict these.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command, CommandFactory};
use ringtap::{Error, Result};
use ringtap_run::one_file::{self, Keys};
use ringtap_run::secrets::{line, read_options};
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Commands with a table.
const COMMANDS: [&str; 4] = ["capture", "split", "forward", "correlate"];

/// Options that are of one run, and no setting.
const NOT_KEYS: [&str; 5] = ["config", "help", "version", "check_rules", "test"];

/// What else may be in the table of a command. Whoever reads that judges it.
fn tables(command: &str) -> &'static [&'static str] {
    if command == "correlate" { &["sensor", "webhook"] } else { &[] }
}

/// An option of a table, as it is typed, with its line.
struct Said {
    id: String,
    typed: OsString,
    line: usize,
}

/// The arguments, with those of `--config` among them; and the table and file that some are from.
///
/// # Errors
/// The file can't be read, or something in the command's table is not understood.
pub fn with_configuration(arguments: Vec<OsString>) -> Result<(Vec<OsString>, Option<String>)> {
    let name = arguments.get(1).and_then(|name| name.to_str()).filter(|name| COMMANDS.contains(name));
    let Some(name) = name.map(str::to_owned) else { return Ok((arguments, None)) };
    let command = command(&name);
    let lenient = command.clone().ignore_errors(true).try_get_matches_from(&arguments[1..]);
    let Ok(typed) = lenient else { return Ok((arguments, None)) };
    let Some(path) = typed.get_one::<PathBuf>("config") else { return Ok((arguments, None)) };
    let is_typed = |arg: &&Arg| {
        typed.try_contains_id(arg.get_id().as_str()).unwrap_or(false)
            && typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let all_typed: Vec<&Arg> = command.get_arguments().filter(is_typed).collect();
    let excludes = |arg: &Arg| all_typed.iter().any(|typed| exclude(&command, typed, arg));
    // Refused as what was typed.
    if command.get_arguments().any(|arg| arg.get_id() == "config" && excludes(arg)) {
        return Ok((arguments, None));
    }
    let file = path.display().to_string();
    let text = match read_options(path) {
        Ok(text) => text,
        // Where none of its words becomes an option, it may be whoever's the command itself lets it be.
        Err(_) if has_no_options(path, &name) => return Ok((arguments, None)),
        Err(error) => return Err(error),
    };
    one_file::parse::<toml::Table>(&file, &text, &way_out(&name))?;
    let said = said(&command, &file, &text).map_err(|faults| {
        faults.into_iter().next().unwrap_or_else(|| Error::usage("read the configuration", &file, "it has a fault"))
    })?;
    let goes_before = |said: &Said| {
        let arg = command.get_arguments().find(|arg| arg.get_id() == said.id.as_str());
        arg.is_some_and(|arg| all_typed.iter().any(|typed| typed.get_id() == arg.get_id()) || excludes(arg))
    };
    let kept: Vec<OsString> = said.into_iter().filter(|said| !goes_before(said)).map(|said| said.typed).collect();
    let table = (!kept.is_empty()).then(|| format!("[{name}] of {file}"));
    let whole = arguments[..2].iter().cloned().chain(kept).chain(arguments[2..].iter().cloned()).collect();
    Ok((whole, table))
}

/// Whether a file can be read and has no options for this command.
fn has_no_options(path: &Path, name: &str) -> bool {
    let table = std::fs::read_to_string(path).ok().and_then(|text| text.parse::<toml::Table>().ok());
    table.is_some_and(|table| match table.get(name) {
        None => true,
        Some(of) => of.as_table().is_some_and(|of| of.keys().all(|key| tables(name).contains(&key.as_str()))),
    })
}

/// Whether two options contradict each other.
fn exclude(command: &Command, one: &Arg, other: &Arg) -> bool {
    let refuses = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|refused| refused.get_id() == other.get_id())
    };
    let in_one_group = command.get_groups().any(|group| {
        let has = |arg: &Arg| group.get_args().any(|id| id == arg.get_id());
        !group.clone().is_multiple() && has(one) && has(other)
    });
    in_one_group || refuses(one, other) || refuses(other, one)
}

/// A command as it is defined.
fn command(name: &str) -> Command {
    let mut root = crate::Cli::command();
    root.build();
    root.find_subcommand(name).cloned().unwrap_or_default()
}

fn way_out(command: &str) -> String {
    format!("its keys are the options of `ringtap {command} --help`")
}

/// Options that are keys, by their long names.
fn options(command: &Command) -> BTreeMap<&str, &Arg> {
    let long = |arg: &Arg| !arg.is_hide_set() && !NOT_KEYS.contains(&arg.get_id().as_str());
    command.get_arguments().filter(|arg| long(arg)).filter_map(|arg| Some((arg.get_long()?, arg))).collect()
}

/// The table of a command.
pub fn keys(name: &str) -> Keys {
    let command = command(name);
    let schema = |arg: &Arg| {
        let value = json!(["string", "integer", "number"]);
        let mut schema = match arg.get_action() {
            ArgAction::SetTrue => json!({"type": "boolean"}),
            ArgAction::Append => json!({"type": ["array", "string", "integer", "number"], "items": {"type": value}}),
            _ => json!({"type": value}),
        };
        schema["description"] = arg.get_help().map(ToString::to_string).unwrap_or_default().into();
        // One of EAL's is a token for a virtual function.
        if arg.get_long() == Some("dpdk-args") {
            schema["writeOnly"] = true.into();
        }
        if let ([default], false) = (arg.get_default_values(), is_switch(arg)) {
            schema["default"] = default.to_string_lossy().into();
        }
        schema
    };
    let properties: serde_json::Map<String, Value> =
        options(&command).into_iter().map(|(long, arg)| (long.to_owned(), schema(arg))).collect();
    let table = json!({
        "type": "object",
        "description": format!("Options of `ringtap {name}`, by their names; those that are given on the command line go before them"),
        "additionalProperties": false,
        "properties": properties,
    });
    Keys::of_table(name, table)
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// What is wrong in the table of a command: each key that is not known, each value that the command would refuse by itself, and keys that
/// exclude one another.
pub fn check(name: &str, path: &Path) -> Vec<Error> {
    let file = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return vec![Error::os("read the configuration", file, &error)],
    };
    let command = command(name);
    let said = match said(&command, &file, &text) {
        Ok(said) if said.is_empty() => return Vec::new(),
        Ok(said) => said,
        Err(faults) => return faults,
    };
    // As at a start.
    if let Err(error) = read_options(path) {
        return vec![error];
    }
    let first = OsString::from(name.to_owned());
    let typed = std::iter::once(first).chain(said.iter().map(|said| said.typed.clone()));
    let Err(error) = command.try_get_matches_from(typed) else { return Vec::new() };
    // What is missing may be given on the command line.
    if error.kind() != clap::error::ErrorKind::ArgumentConflict {
        return Vec::new();
    }
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    let key = |option: &String| option.split([' ', '=']).next().unwrap_or_default().trim_start_matches('-').to_owned();
    let keys: Vec<String> =
        named(ContextKind::InvalidArg).iter().chain(&named(ContextKind::PriorArg)).map(key).collect();
    let of = |said: &&Said| {
        let long = said.typed.to_string_lossy();
        keys.iter().any(|key| long.strip_prefix("--").is_some_and(|long| long.split('=').next() == Some(key)))
    };
    let line = said.iter().filter(of).map(|said| said.line).max().unwrap_or(1);
    let cause = format!("{} exclude one another", keys.join(" and "));
    vec![Error::usage("read the configuration", format!("{file}:{line}"), cause).way_out(way_out(name))]
}

/// What the file says of a command's options.
///
/// # Errors
/// What is not understood.
fn said(command: &Command, file: &str, text: &str) -> std::result::Result<Vec<Said>, Vec<Error>> {
    let name = command.get_name();
    let fault = |at: usize, cause: String| {
        let line = line(text, at);
        Error::usage("read the configuration", format!("{file}:{line}"), cause).way_out(way_out(name))
    };
    let whole = DeTable::parse(text)
        .map_err(|error| vec![fault(error.span().map_or(0, |span| span.start), error.message().to_owned())])?;
    let Some((_, table)) = whole.get_ref().iter().find(|(table, _)| table.get_ref() == name) else {
        return Ok(Vec::new());
    };
    let DeValue::Table(table) = table.get_ref() else {
        return Err(vec![fault(table.span().start, format!("{name} is no table"))]);
    };
    let options = options(command);
    let tables = tables(name);
    let known: Vec<&str> = options.keys().chain(tables).copied().collect();
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    for (key, value) in table.iter().filter(|(key, _)| !tables.contains(&key.get_ref().as_ref())) {
        let long: &str = key.get_ref();
        let Some(arg) = options.get(long) else {
            let shown = ringtap_output::printable(long);
            let cause = format!("unknown field `{shown}`, {}", one_file::expected(long, &known));
            faults.push(fault(key.span().start, cause));
            continue;
        };
        match typed(arg, long, value).and_then(|typed| judge(command, arg, typed)) {
            Ok(typed) => {
                let line = line(text, key.span().start);
                all.extend(typed.into_iter().map(|typed| Said { id: arg.get_id().to_string(), typed, line }));
            }
            Err(cause) => faults.push(fault(value.span().start, format!("{long}: {cause}"))),
        }
    }
    all.sort_by_key(|said| said.line);
    faults.sort_by_key(ToString::to_string);
    if faults.is_empty() { Ok(all) } else { Err(faults) }
}

/// An option and its values as they are typed.
fn typed(arg: &Arg, long: &str, value: &Spanned<DeValue<'_>>) -> std::result::Result<Vec<OsString>, String> {
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        _ => Err("expected a text or a number".to_owned()),
    };
    let of = |value: String| OsString::from(format!("--{long}={value}"));
    match (is_switch(arg), value.get_ref()) {
        (true, DeValue::Boolean(true)) => Ok(vec![format!("--{long}").into()]),
        (true, DeValue::Boolean(false)) => Ok(Vec::new()),
        (true, _) => Err("expected true or false".to_owned()),
        (false, DeValue::Array(values)) if matches!(arg.get_action(), ArgAction::Append) => {
            values.iter().map(|value| one(value.get_ref()).map(of)).collect()
        }
        (false, value) => one(value).map(|value| vec![of(value)]),
    }
}

/// These, if the command takes each by itself; what else must be given with it is seen when the command starts.
fn judge(command: &Command, arg: &Arg, typed: Vec<OsString>) -> std::result::Result<Vec<OsString>, String> {
    for one in &typed {
        let arguments = [OsString::from(command.get_name().to_owned()), one.clone()];
        let Err(error) = command.clone().try_get_matches_from(arguments) else { continue };
        let is_of_it = matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(name))
            if name.split(' ').next() == arg.get_long().map(|long| format!("--{long}")).as_deref());
        use clap::error::ErrorKind as Kind;
        match error.kind() {
            Kind::ValueValidation if is_of_it => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                return Err(cause.unwrap_or_else(|| "its value makes no sense".to_owned()));
            }
            Kind::InvalidValue if is_of_it => {
                let known = match error.get(ContextKind::ValidValue) {
                    Some(ContextValue::Strings(values)) => values.clone(),
                    _ => Vec::new(),
                };
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let value = one.to_string_lossy();
                let value = value.split_once('=').map_or("", |(_, value)| value);
                return Err(format!("unknown value `{value}`, {}", one_file::expected(value, &known)));
            }
            _ => {}
        }
    }
    Ok(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_correlator_knows_the_names_of_its_command_s_options() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringtap.toml");
        let faults = |key: &str| {
            std::fs::write(&path, format!("[correlate]\n{key} = \"x\"\n")).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            ringtap_correlator::config::check(&path)
        };
        let correlate = command("correlate");
        let names = options(&correlate);
        assert!(names.len() > 25 && names.contains_key("output-kafka-spool-size"), "{names:?}");
        for name in names.keys() {
            assert!(faults(name).is_empty(), "{name}: {:?}", faults(name));
        }
        assert!(!faults("check-rules").is_empty() && !faults("rulez").is_empty());
    }
}
