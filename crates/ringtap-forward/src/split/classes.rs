//! Classes, as the command line or a file names them.
//!
//! Owns the file's shape and what is said of its faults. What a class does with a packet is `rule`'s.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use ringtap::{Error, Result};
use ringtap_run::filter::Filter;
use ringtap_wire::LinkType;
use serde::Deserialize;
use toml::Spanned;

use super::By;
use super::flow::FlowHash;
use super::rule::{Class, MOST, Protocol, Rule, Takes, key};

/// A longer file is not what it is taken for.
const MOST_BYTES: u64 = 1 << 20;
const SHAPE: &str = "a class is [[class]] with name, filter and outputs, what is left goes by [rest] with outputs";

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    class: Vec<Spanned<Entry>>,
    rest: Option<Spanned<RestEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    filter: Spanned<String>,
    outputs: Vec<Spanned<String>>,
    #[serde(default)]
    copy: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RestEntry {
    outputs: Vec<Spanned<String>>,
    #[serde(default)]
    copy: bool,
}

/// The rule that follows, for outputs of these names.
///
/// # Errors
/// A file that can't be read, or its first fault with its line; more outputs than fixed classes.
pub(crate) fn rule(by: &By, names: &[String], hash: FlowHash) -> Result<Rule> {
    let all = |takes| Class { name: "all".to_owned(), takes, outputs: (0..names.len() as u8).collect(), copies: false };
    let classes = match by {
        By::Flow | By::Hosts => vec![all(Takes::All)],
        By::Protocol => by_protocol(names)?,
        By::Classes(path) => read(path, names)?,
    };
    let keys = names.iter().map(|name| key(name, hash.seed)).collect();
    Ok(Rule { classes, hash, keys, link: LinkType::Ethernet })
}

/// One output for each class, in order; the last output takes what is left.
fn by_protocol(names: &[String]) -> Result<Vec<Class>> {
    let most = Protocol::ALL.len();
    if names.len() > most {
        let cause = format!("there are {most} classes and {} outputs", names.len());
        return Err(Error::usage("split by", "protocol", cause).way_out("name fewer outputs, or classes of your own"));
    }
    let class = |(index, (protocol, name)): (usize, &(Protocol, &str))| Class {
        name: (*name).to_owned(),
        takes: Takes::Protocol(*protocol),
        outputs: vec![index.min(names.len() - 1) as u8],
        copies: false,
    };
    Ok(Protocol::ALL.iter().enumerate().map(class).collect())
}

fn read(path: &Path, names: &[String]) -> Result<Vec<Class>> {
    let object = path.display().to_string();
    let failed = |error: std::io::Error| {
        Error::os("read the classes of", &object, &error).way_out("--by takes flow, hosts, protocol or a file")
    };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    if file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)? as u64 > MOST_BYTES {
        let cause = format!("more than {MOST_BYTES} bytes are no file of classes");
        return Err(Error::failed("read the classes of", object, cause).way_out(SHAPE));
    }
    parse(&text, names).map_err(|fault| {
        let at = text.get(..fault.at).unwrap_or_default();
        let line = at.bytes().filter(|byte| *byte == b'\n').count() + 1;
        // A file's words may be in it, and a terminal may read it.
        let shown: String = fault.cause.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let cause = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        Error::usage("read the classes of", format!("{object}, line {line}"), cause).way_out(fault.way_out)
    })
}

/// What is wrong at which byte.
#[derive(Debug)]
struct Fault {
    at: usize,
    cause: String,
    way_out: String,
}

impl Fault {
    fn new(at: Range<usize>, cause: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { at: at.start, cause: cause.into(), way_out: way_out.into() }
    }
}

fn parse(text: &str, names: &[String]) -> std::result::Result<Vec<Class>, Fault> {
    let file: File = toml::from_str(text)
        .map_err(|error| Fault::new(error.span().unwrap_or_default(), error.message().to_owned(), SHAPE))?;
    if file.class.is_empty() {
        return Err(Fault::new(0..0, "it has no class", SHAPE));
    }
    if let Some(beyond) = file.class.get(MOST - 1) {
        return Err(Fault::new(beyond.span(), format!("more than {} classes", MOST - 1), "join some of them by `or`"));
    }
    let (mut classes, mut known) = (Vec::new(), BTreeSet::new());
    for entry in file.class {
        let span = entry.span();
        let Entry { name, filter, outputs, copy } = entry.into_inner();
        let at = name.span();
        let name = name.into_inner();
        if name.is_empty() || name == "rest" || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            let cause = format!("{name:?} can't be the name of a class");
            return Err(Fault::new(at, cause, "use letters, digits, - _ and ., and not `rest`"));
        }
        if !known.insert(name.clone()) {
            return Err(Fault::new(at, format!("there is a class {name:?} already"), "give each its own name"));
        }
        let compiled = Filter::compile(filter.get_ref(), 1).map_err(|error| {
            let way_out = "write a filter as in pcap-filter(7), such as \"tcp port 80\"";
            Fault::new(filter.span(), error.to_string(), way_out)
        })?;
        let outputs = numbers(&outputs, span, names)?;
        classes.push(Class { name, takes: Takes::Expression(compiled.program()), outputs, copies: copy });
    }
    if let Some(rest) = file.rest {
        let span = rest.span();
        let RestEntry { outputs, copy } = rest.into_inner();
        let outputs = numbers(&outputs, span, names)?;
        classes.push(Class { name: "rest".to_owned(), takes: Takes::Rest, outputs, copies: copy });
    }
    Ok(classes)
}

/// The outputs that a class names.
fn numbers(wanted: &[Spanned<String>], class: Range<usize>, names: &[String]) -> std::result::Result<Vec<u8>, Fault> {
    if wanted.is_empty() {
        return Err(Fault::new(class, "a class without an output", "name some of those given by --out"));
    }
    let mut numbers = Vec::new();
    for name in wanted {
        let Some(number) = names.iter().position(|known| known == name.get_ref()) else {
            let cause = format!("{:?} is none of the outputs", name.get_ref());
            return Err(Fault::new(name.span(), cause, format!("expected one of: {}", names.join(", "))));
        };
        if numbers.contains(&(number as u8)) {
            let cause = format!("{:?} is named twice", name.get_ref());
            return Err(Fault::new(name.span(), cause, "name each output of a class once"));
        }
        numbers.push(number as u8);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[[class]]
name = \"web\"
filter = \"tcp port 80\"
outputs = [\"a\", \"b\"]

[[class]]
name = \"dns\"
filter = \"port 53\"
outputs = [\"b\"]
copy = true

[rest]
outputs = [\"c\"]
";

    fn names() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_file_is_read_in_its_order_and_the_rest_comes_last() {
        let classes = parse(GOOD, &names()).unwrap();
        let found: Vec<(&str, &[u8], bool)> =
            classes.iter().map(|class| (class.name.as_str(), &class.outputs[..], class.copies)).collect();
        assert_eq!(found, [("web", &[0, 1][..], false), ("dns", &[1], true), ("rest", &[2], false)]);
    }

    #[test]
    fn each_fault_is_told_with_its_line_and_what_was_expected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("classes.toml");
        let refused = |from: &str, to: &str, line: u32, parts: &[&str]| {
            assert!(GOOD.contains(from), "{from}");
            std::fs::write(&file, GOOD.replacen(from, to, 1)).unwrap();
            let error = read(&file, &names()).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.kind(), ringtap::error::ErrorKind::Usage);
            assert!(!text.contains('\n') && text.contains(&format!("classes.toml, line {line}: ")), "{text}");
            parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} in {text}"));
        };
        refused("tcp port 80", "tcp port", 3, &["syntax error", "pcap-filter(7)"]);
        refused("\"a\", \"b\"", "\"a\", \"x\"", 4, &["\"x\" is none of the outputs", "expected one of: a, b, c"]);
        refused("\"a\", \"b\"", "\"a\", \"a\"", 4, &["twice"]);
        refused("\"a\", \"b\"", "", 1, &["without an output"]);
        refused("\"dns\"", "\"web\"", 7, &["a class \"web\" already"]);
        refused("\"dns\"", "\"rest\"", 7, &["can't be the name"]);
        refused("\"dns\"", "\"\\u001b[2J\"", 7, &["can't be the name"]);
        refused("copy = true", "copies = true", 10, &["unknown field `copies`"]);
        refused("copy = true", "\"co\\u001b[2Jpy\" = true", 10, &["unknown field `co [2Jpy`"]);
        refused("copy = true", "copy = 7", 10, &["invalid type", "boolean"]);
        refused("[[class]]\nname = \"dns\"", "[[class]\nname = \"dns\"", 6, &["[[class]] with name"]);
        std::fs::write(&file, "").unwrap();
        assert!(read(&file, &names()).unwrap_err().to_string().contains("line 1: it has no class"));
        let many = (0..MOST).map(|n| format!("[[class]]\nname = \"c{n}\"\nfilter = \"arp\"\noutputs = [\"a\"]\n"));
        assert!(parse(&many.collect::<String>(), &names()).unwrap_err().cause.contains("more than 63"));
        let error = read(Path::new("/nonexistent"), &names()).unwrap_err().to_string();
        assert!(error.contains("ENOENT") && error.contains("flow, hosts, protocol or a file"), "{error}");
    }

    #[test]
    fn fixed_classes_share_the_last_output() {
        let outputs = |count: usize| {
            let classes = by_protocol(&names()[..count]).unwrap();
            classes.iter().map(|class| class.outputs[0]).collect::<Vec<_>>()
        };
        assert_eq!((outputs(1), outputs(3)), (vec![0; 5], vec![0, 1, 2, 2, 2]));
        assert!(by_protocol(&vec![String::new(); 6]).is_err());
    }
}
