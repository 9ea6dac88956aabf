//! Owns: the sensor's variables and bounds, from its options and a TOML file, and the file's other tables; the options win.
//! Does not: read rules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringtap::{Error, Result};
use ringtap_detect::rules::Variables;
use ringtap_detect::{HttpSettings, Limits, Policies, Policy};
use ringtap_run::one_file::{self, Keys};
use ringtap_run::secrets::read_private;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::notifications::{Notifier, Table};
use crate::options::{AlarmOptions, Bounds, Input, Options};
use crate::{blinding, identity, rules};

const WAY_OUT: &str = "docs/sensor.md tells what [variables], [rules], [iprep], [bounds], [overlap], [snmp], [alarms] and [blinding] may have";

/// The sensor's tables.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct File {
    /// The sensor's rules: values of variables such as HOME_NET; --set goes before it
    variables: BTreeMap<String, String>,
    rules: FileRules,
    iprep: Option<Iprep>,
    bounds: FileBounds,
    /// Whose bytes count where segments or fragments overlap: a policy, and the networks of its hosts
    overlap: BTreeMap<String, Vec<String>>,
    snmp: Option<Table>,
    alarms: identity::Table,
    blinding: blinding::Bounds,
}

/// What belongs to the sensor's rules
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct FileRules {
    /// Suricata's threshold.config; --thresholds goes before it
    thresholds: Option<PathBuf>,
}

/// Lists of addresses with reputations for the sensor's rules, as Suricata has them
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Iprep {
    /// The file of categories
    pub(crate) categories: String,
    /// Files of addresses
    #[serde(default)]
    pub(crate) files: Vec<String>,
}

/// Bounds of each engine of the sensor; all memory is taken at the start by them
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct FileBounds {
    /// Steps for one packet, each of about 20 ns; --budget goes before it
    #[schemars(extend("default" = Limits::default().budget))]
    budget: Option<u32>,
    /// Flows at one time; left out: 65,536, or fewer where the memory is small. --flows goes before it
    flows: Option<usize>,
    /// Bytes of segments that came too early, of all streams
    #[schemars(extend("default" = Limits::default().early_bytes))]
    early_bytes: Option<usize>,
    /// Bytes of each stream that are kept, so that a pattern across segments is found, 1 to 65,536
    #[schemars(extend("default" = Limits::default().window))]
    window: Option<usize>,
    /// Streams that have such bytes at one time; left out: twice flows
    windows: Option<usize>,
    /// Fragmented packets at one time
    #[schemars(extend("default" = Limits::default().fragmented))]
    fragmented: Option<usize>,
    /// Bytes of fragments
    #[schemars(extend("default" = Limits::default().fragment_bytes))]
    fragment_bytes: Option<usize>,
    /// Counts of thresholds
    #[schemars(extend("default" = Limits::default().thresholds))]
    thresholds: Option<usize>,
    /// Bits of hosts
    #[schemars(extend("default" = Limits::default().host_bits))]
    host_bits: Option<usize>,
    /// Sessions and hosts that are tagged
    #[schemars(extend("default" = Limits::default().tags))]
    tags: Option<usize>,
    /// Codings of HTTP within one another that are undone, 1 to 3; --http-layers goes before it
    #[schemars(extend("default" = Limits::default().http.layers))]
    http_layers: Option<u8>,
}

/// Variables and bounds.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) variables: Variables,
    pub(crate) limits: Limits,
    /// Whether the user named the number of flows.
    pub(crate) flows_named: bool,
    /// File of suppressions, event filters and rate filters.
    pub(crate) thresholds: Option<PathBuf>,
    pub(crate) iprep: Option<Iprep>,
    /// Where notifications go, and the name of the file that says so.
    pub(crate) snmp: Option<(Table, String)>,
    /// Who the sensor is to a correlator, where the options don't say.
    pub(crate) alarms: identity::Table,
    /// From when on the sensor says that it is being blinded.
    pub(crate) blinding: blinding::Bounds,
}

/// The keys of the sensor's tables.
#[must_use]
pub fn keys() -> Keys {
    Keys::of::<File>()
}

/// What is wrong in the sensor's tables of a file, as a sensor that starts would find it: users, names, keys, and the lists that they
/// name. Rules are not looked at (`ringtap sensor --check-rules` does that), and nothing is sent.
#[must_use]
pub fn check(path: &Path) -> Vec<Error> {
    one_file::check::<File>(path, WAY_OUT, || {
        let options = Options { config: Some(path.to_owned()), ..Options::new(Input::Files(Vec::new())) };
        let config = Config::of(&options)?;
        identity::name(&AlarmOptions::default(), &config.alarms)?;
        config.alarms.key.as_deref().map(|text| identity::key(text, "[alarms] key")).transpose()?;
        if let Some((table, file)) = &config.snmp {
            Notifier::new(table, file, None)?;
        }
        rules::check_lists(&config)
    })
}

impl Config {
    /// Of these options.
    ///
    /// # Errors
    /// The file can't be read or makes no sense.
    pub(crate) fn of(options: &Options) -> Result<Self> {
        let path = options.config.as_deref();
        let file = path.map(read).transpose()?.unwrap_or_default();
        let name = path.map(|path| path.display().to_string());
        let mut variables = Variables::default();
        let given = options.rules.variables.iter().map(|(name, value)| (name, value));
        for (name, value) in file.variables.iter().chain(given) {
            variables.set(name, value);
        }
        let Bounds { budget, flows, overlap, http_layers, midstream, no_checksums } = options.bounds;
        let policies = policies(overlap, &file.overlap, &variables, name.as_deref().unwrap_or_default())?;
        let bounds = file.bounds;
        let flows = flows.map(|flows| flows as usize).or(bounds.flows);
        let usual = flows.map_or_else(Limits::default, Limits::for_flows);
        let layers = http_layers.or(bounds.http_layers).map_or(usual.http.layers, usize::from);
        if !(1..=3).contains(&layers) {
            let cause = format!("{layers} layers: 1 to 3 are decoded");
            return Err(Error::usage("bound", "the codings of HTTP", cause).way_out("see --http-layers"));
        }
        let limits = Limits {
            budget: budget.map_or(bounds.budget.unwrap_or(usual.budget), |budget| budget.clamp(1, 1 << 31) as u32),
            early_bytes: bounds.early_bytes.unwrap_or(usual.early_bytes),
            window: bounds.window.unwrap_or(usual.window).clamp(1, 65536),
            windows: bounds.windows.unwrap_or(usual.windows),
            fragmented: bounds.fragmented.unwrap_or(usual.fragmented),
            fragment_bytes: bounds.fragment_bytes.unwrap_or(usual.fragment_bytes),
            thresholds: bounds.thresholds.unwrap_or(usual.thresholds),
            host_bits: bounds.host_bits.unwrap_or(usual.host_bits),
            tags: bounds.tags.unwrap_or(usual.tags),
            http: HttpSettings { layers, ..usual.http },
            midstream,
            checksums: !no_checksums,
            timed: options.profile,
            policies,
            ..usual
        };
        let thresholds = options.rules.thresholds.clone().or(file.rules.thresholds);
        file.blinding.check().map_err(|cause| {
            Error::failed("read configuration", format!("{}: [blinding]", name.as_deref().unwrap_or_default()), cause)
        })?;
        let blinding = file.blinding;
        Ok(Self {
            variables,
            iprep: file.iprep,
            blinding,
            limits,
            flows_named: flows.is_some(),
            thresholds,
            snmp: file.snmp.zip(name),
            alarms: file.alarms,
        })
    }
}

/// The overlap policies of the networks of `file`; of all other hosts the `usual` one.
fn policies(
    usual: Option<Policy>,
    networks: &BTreeMap<String, Vec<String>>,
    variables: &Variables,
    file: &str,
) -> Result<Policies> {
    let mut policies = Policies::from(usual.unwrap_or_default());
    for (name, addresses) in networks {
        let wrong = |cause: String| Error::failed("read configuration", format!("{file}: [overlap] {name}"), cause);
        let policy: Policy = name.parse().map_err(wrong)?;
        for text in addresses {
            policies.add(text, variables, policy).map_err(wrong)?;
        }
    }
    Ok(policies)
}

fn read(path: &Path) -> Result<File> {
    let object = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error::os("read the configuration", &object, &error))?;
    let file: File = one_file::parse(&object, &text, WAY_OUT)?;
    if file.snmp.is_some() || file.alarms.key.is_some() {
        read_private("configuration", path)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Input;

    #[test]
    fn the_file() {
        let file: File = toml::from_str("[variables]\nHOME_NET = \"any\"\n[bounds]\nflows = 10\n").unwrap();
        assert_eq!((file.variables["HOME_NET"].as_str(), file.bounds.flows), ("any", Some(10)));
        assert!(toml::from_str::<File>("[bounds]\nflow = 10\n").is_err());
    }

    #[test]
    fn options_win() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringtap.toml");
        let text = "[bounds]\nflows = 10\nbudget = 7\nwindow = 0\n[rules]\nthresholds = \"a\"\n";
        std::fs::write(&path, text).unwrap();
        let mut options = Options::new(Input::Files(Vec::new()));
        options.config = Some(path);
        assert_eq!(Config::of(&options).unwrap().thresholds, Some("a".into()));
        options.rules.thresholds = Some("b".into());
        assert_eq!(Config::of(&options).unwrap().thresholds, Some("b".into()));
        options.bounds.flows = Some(20);
        let limits = Config::of(&options).unwrap().limits;
        assert_eq!((limits.flows, limits.budget, limits.window), (20, 7, 1));
        assert_eq!((limits.windows, limits.http.connections), (40, 20), "as many as there are flows");
        options.bounds.budget = Some(u64::MAX);
        assert_eq!(Config::of(&options).unwrap().limits.budget, 1 << 31);
    }
}
