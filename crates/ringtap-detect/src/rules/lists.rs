//! Owns: lists that rules ask for by name: datasets (`dataset`) and reputations of addresses (`iprep`), as plain text.
//! Does not: open files; whoever makes the rule set gives a function that does. What rules write into a set is `dataset.rs`'s.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};

use super::dataset::{Dataset, USUAL_ROOM};
use super::ranges::{V4_PREFIX, address_number};

/// Values of one list, and addresses of one category.
const MAX_VALUES: usize = 4_000_000;
/// The greatest reputation, as Suricata has it.
const MAX_SCORE: u8 = 127;

/// What a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Any bytes, in base64.
    String,
    /// So many bytes, in hexadecimal digits: MD5 or SHA-256.
    Hash(usize),
    /// Addresses.
    Address,
}

impl Kind {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "md5" => Self::Hash(16),
            "sha256" => Self::Hash(32),
            "ip" | "ipv4" | "ipv6" => Self::Address,
            _ => return None,
        })
    }

    fn value(self, text: &str) -> Option<Box<[u8]>> {
        match self {
            Self::String => BASE64.decode(text.as_bytes()).ok().map(Into::into),
            Self::Hash(len) => {
                HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok().filter(|hash| hash.len() == len).map(Into::into)
            }
            Self::Address => text.parse().ok().map(|address| match address {
                IpAddr::V4(address) => address.octets().into(),
                IpAddr::V6(address) => address.octets().into(),
            }),
        }
    }
}

impl Dataset {
    fn read(text: &[u8], kind: Kind) -> Result<Self, String> {
        let mut values = HashSet::new();
        for (line, number) in text.split(|&byte| byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            // What stands behind a comma is a reputation, which `dataset` does not ask for.
            let text = std::str::from_utf8(line).ok().and_then(|line| line.split(',').next());
            let wrong = || format!("line {number}: no value of this type");
            values.insert(text.and_then(|text| kind.value(text.trim())).ok_or_else(wrong)?);
            if values.len() > MAX_VALUES {
                return Err(format!("more than {MAX_VALUES} values"));
            }
        }
        Ok(Self::of(values))
    }
}

/// Addresses of one category, with their scores; the smallest network that an address is in decides.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reputation {
    /// By the bits that the host may have, ascending: first addresses of networks.
    networks: Vec<(u32, HashMap<u128, u8>)>,
    count: usize,
}

impl Reputation {
    /// The score of an address, by its [number](address_number); `None` where it has none.
    #[must_use]
    pub fn score(&self, address: u128) -> Option<u8> {
        self.networks.iter().find_map(|(host_bits, networks)| networks.get(&first(address, *host_bits)).copied())
    }

    fn add(&mut self, address: u128, host_bits: u32, score: u8) {
        let at = match self.networks.binary_search_by_key(&host_bits, |(bits, _)| *bits) {
            Ok(at) => at,
            Err(at) => {
                self.networks.insert(at, (host_bits, HashMap::new()));
                at
            }
        };
        self.count += usize::from(self.networks[at].1.insert(first(address, host_bits), score).is_none());
    }
}

fn first(address: u128, host_bits: u32) -> u128 {
    address.checked_shr(host_bits).unwrap_or(0).checked_shl(host_bits).unwrap_or(0)
}

/// Reads a file: its content, or why not.
type Read = Box<dyn Fn(&str) -> Result<Vec<u8>, String>>;

/// A set with a name, what it has, and the file that it was read from.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    kind: Kind,
    file: Option<String>,
    list: Arc<Dataset>,
}

/// What a rule says of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'r> {
    pub(crate) name: &'r str,
    pub(crate) kind: Option<Kind>,
    /// The file to be read.
    pub(crate) file: Option<&'r str>,
    /// It writes, so many values at most.
    pub(crate) writes: bool,
    pub(crate) room: Option<usize>,
    /// The rule's own file.
    pub(crate) rules: &'r str,
}

/// The lists of a rule set.
#[derive(Default)]
pub struct Lists {
    read: Option<Read>,
    datasets: HashMap<String, Named>,
    /// Files into which rules want sets to be saved, which is not done: each with the rule's place.
    unsaved: Vec<String>,
    categories: HashMap<String, u8>,
    reputations: HashMap<u8, Arc<Reputation>>,
}

impl std::fmt::Debug for Lists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lists").field("datasets", &self.datasets.len()).finish_non_exhaustive()
    }
}

impl Lists {
    /// Lists of files that `read` reads.
    pub fn new(read: impl Fn(&str) -> Result<Vec<u8>, String> + 'static) -> Self {
        Self { read: Some(Box::new(read)), ..Self::default() }
    }

    /// The files of datasets that rules have named.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.datasets.values().filter_map(|named| named.file.as_deref())
    }

    /// What rules ask of sets that is not done, each with the rule's place.
    #[must_use]
    pub fn unsaved(&self) -> &[String] {
        &self.unsaved
    }

    pub(crate) fn note_unsaved(&mut self, note: String) {
        self.unsaved.push(note);
    }

    fn text(&self, file: &str) -> Result<Vec<u8>, String> {
        self.read.as_ref().ok_or("lists are not read here")?(file)
    }

    /// Reads categories (`NUMBER,NAME,DESCRIPTION`) and, of each file, addresses (`ADDRESS[/BITS],NUMBER,SCORE`), as Suricata has
    /// them.
    ///
    /// # Errors
    /// File, line and what was expected.
    pub fn read_reputations(&mut self, categories: &str, files: &[String]) -> Result<(), String> {
        for (number, line) in lines(&self.text(categories).map_err(|cause| format!("{categories}: {cause}"))?) {
            let mut words = line.split(',').map(str::trim);
            let (id, name) = (words.next().and_then(|id| id.parse().ok()), words.next());
            let (Some(id @ 1..60), Some(name)) = (id, name.filter(|name| !name.is_empty())) else {
                return Err(format!("{categories}:{number}: needs NUMBER,NAME,DESCRIPTION, the number from 1 to 59"));
            };
            self.categories.insert(name.to_owned(), id);
        }
        let mut read: HashMap<u8, Reputation> = HashMap::new();
        for file in files {
            for (number, line) in lines(&self.text(file).map_err(|cause| format!("{file}: {cause}"))?) {
                let (address, host_bits, category, score) = reputation(&line).ok_or_else(|| {
                    format!("{file}:{number}: needs ADDRESS[/BITS],NUMBER,SCORE, a score from 0 to 127")
                })?;
                let of = read.entry(category).or_default();
                of.add(address, host_bits, score);
                if of.count > MAX_VALUES {
                    return Err(format!("{file}:{number}: more than {MAX_VALUES} addresses of a category"));
                }
            }
        }
        self.reputations = read.into_iter().map(|(category, of)| (category, Arc::new(of))).collect();
        Ok(())
    }

    /// The addresses of a category that rules name.
    pub(crate) fn reputation(&self, category: &str) -> Result<Arc<Reputation>, String> {
        let id = self.categories.get(category).ok_or_else(|| format!("there is no category '{category}'"))?;
        Ok(self.reputations.get(id).cloned().unwrap_or_default())
    }

    /// The set that a rule names, read from its file if it has one: a name without a folder is one beside the rule's own. `kept` are
    /// those without a file, which outlive the rules that name them.
    pub(crate) fn dataset(&mut self, ask: &Ask<'_>, kept: &mut HashMap<String, Named>) -> Result<Arc<Dataset>, String> {
        let beside = ask.rules.rfind('/').map(|at| &ask.rules[..=at]).unwrap_or_default();
        let path = |file: &str| if file.starts_with('/') { file.to_owned() } else { format!("{beside}{file}") };
        let file = ask.file.map(path);
        let known = self.datasets.get(ask.name).or_else(|| kept.get(ask.name).filter(|_| file.is_none())).cloned();
        let named = match (known, &file) {
            (Some(known), _) if ask.kind.is_some_and(|kind| kind != known.kind) => {
                return Err(format!("another rule gives '{}' another type", ask.name));
            }
            (Some(known), Some(_)) if known.file.is_some() && known.file != file => {
                return Err(format!("another rule reads '{}' from another file", ask.name));
            }
            (Some(known), file) if file.is_none() || known.file.is_some() => known,
            (_, file) => {
                let kind = ask.kind.ok_or_else(|| format!("no rule before gives '{}' a type", ask.name))?;
                let list = match file {
                    Some(path) => {
                        let wrong = |cause| format!("{path}: {cause}");
                        Dataset::read(&self.text(path).map_err(wrong)?, kind).map_err(wrong)?
                    }
                    None => Dataset::default(),
                };
                Named { kind, file: file.clone(), list: Arc::new(list) }
            }
        };
        if ask.writes {
            named.list.make_room(ask.room.unwrap_or(USUAL_ROOM));
        }
        if named.file.is_none() {
            kept.insert(ask.name.to_owned(), named.clone());
        }
        let list = Arc::clone(&named.list);
        self.datasets.insert(ask.name.to_owned(), named);
        Ok(list)
    }
}

/// Lines with their numbers; comments and empty ones are left out.
fn lines(text: &[u8]) -> Vec<(usize, String)> {
    let lines = text.split(|&byte| byte == b'\n').map(|line| String::from_utf8_lossy(line.trim_ascii()).into_owned());
    (1..).zip(lines).filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect()
}

/// First address, bits of the host, category, score.
fn reputation(line: &str) -> Option<(u128, u32, u8, u8)> {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let [address, category, score] = words[..] else { return None };
    let (address, bits) = address.split_once('/').map_or((address, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(width), |bits| bits.parse().ok().filter(|&bits| bits <= width))?;
    let score = score.parse().ok().filter(|&score| score <= MAX_SCORE)?;
    let number = address_number(address);
    debug_assert!(width == 128 || number >= V4_PREFIX);
    Some((number, width - bits, category.parse().ok()?, score))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(files: &'static [(&'static str, &'static str)]) -> Lists {
        Lists::new(move |name| {
            let found = files.iter().find(|(file, _)| *file == name);
            found.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| "no such file".to_owned())
        })
    }

    #[test]
    fn lists_of_each_type() {
        let mut lists = lists(&[
            ("/r/words", "# comment\nZXZpbA==\n\n"),
            ("/r/hashes", "d41d8cd98f00b204e9800998ecf8427e\nD41D8CD98F00B204E9800998ECF8427F,5\n"),
            ("/abs", "192.0.2.1\r\n2001:db8::1\n"),
            ("/r/broken", "ZXZpbA==\nnot base64!\n"),
        ]);
        let ask = |file, kind| Ask {
            name: file,
            kind: Some(kind),
            file: Some(file),
            writes: false,
            room: None,
            rules: "/r/x",
        };
        let mut kept = HashMap::new();
        let words = lists.dataset(&ask("words", Kind::String), &mut kept).unwrap();
        assert!(words.has(b"evil") && !words.has(b"evi") && !words.has(b""));
        let hashes = lists.dataset(&ask("hashes", Kind::Hash(16)), &mut kept).unwrap();
        assert!(hashes.has(&HEXLOWER_PERMISSIVE.decode(b"d41d8cd98f00b204e9800998ecf8427f").unwrap()));
        let addresses = lists.dataset(&ask("/abs", Kind::Address), &mut kept).unwrap();
        assert!(addresses.has(&[192, 0, 2, 1]) && !addresses.has(&[192, 0, 2, 2]));
        let mut refused = |lists: &mut Lists, name| lists.dataset(&ask(name, Kind::String), &mut kept).unwrap_err();
        assert_eq!(refused(&mut lists, "broken"), "/r/broken: line 2: no value of this type");
        assert_eq!(refused(&mut lists, "nowhere"), "/r/nowhere: no such file");
        assert_eq!(refused(&mut lists, "hashes"), "another rule gives 'hashes' another type");
        assert_eq!(lists.files().count(), 3);
    }

    #[test]
    fn sets_without_a_file_outlive_the_rules() {
        let (mut first, mut kept) = (lists(&[]), HashMap::new());
        let ask = Ask { name: "seen", kind: None, file: None, writes: false, room: None, rules: "x" };
        assert_eq!(first.dataset(&ask, &mut kept).unwrap_err(), "no rule before gives 'seen' a type");
        let writer = Ask { kind: Some(Kind::String), writes: true, ..ask };
        first.dataset(&writer, &mut kept).unwrap().write(b"a", true);
        assert!(lists(&[]).dataset(&ask, &mut kept).unwrap().has(b"a"));
        assert_eq!(first.files().count(), 0);
    }

    #[test]
    fn the_smallest_network_has_the_score() {
        let mut lists = lists(&[
            ("categories", "1,CnC,servers\n2,Scan,who scans\n"),
            ("scores", "192.0.2.0/24,1,10\n192.0.2.7,1,100\n2001:db8::/32,1,5\n0.0.0.0/0,2,3\n"),
            ("bad", "192.0.2.0/33,1,10\n"),
        ]);
        lists.read_reputations("categories", &["scores".to_owned()]).unwrap();
        let score = |category: &str, address: &str| {
            lists.reputation(category).unwrap().score(address_number(address.parse().unwrap()))
        };
        assert_eq!([score("CnC", "192.0.2.7"), score("CnC", "192.0.2.8")], [Some(100), Some(10)]);
        assert_eq!([score("CnC", "192.0.3.1"), score("CnC", "2001:db8:1::")], [None, Some(5)]);
        assert_eq!([score("Scan", "198.51.100.1"), score("Scan", "2001:db8::1")], [Some(3), None]);
        assert!(lists.reputation("Spam").unwrap_err().contains("'Spam'"));
        let error = lists.read_reputations("categories", &["bad".to_owned()]).unwrap_err();
        assert!(error.starts_with("bad:1: needs ADDRESS"), "{error}");
        assert!(lists.read_reputations("scores", &[]).unwrap_err().starts_with("scores:1: needs NUMBER"));
    }
}
