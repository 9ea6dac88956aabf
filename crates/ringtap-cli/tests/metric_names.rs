//! Alerts, dashboard and documents name metrics that the programs have.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each program's prefix, and where its metrics get their names.
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("capture", &["ringtap-capture/src/metrics.rs"]),
    ("sensor", &["ringtap-sensor/src/metrics.rs", "ringtap-sensor/src/account.rs"]),
    ("trap", &["ringtap-station/src/metrics.rs"]),
    ("correlate", &["ringtap-correlator/src/metrics.rs"]),
    ("forward", &["ringtap-forward/src/forward/metrics.rs"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names such as `ringtap_capture_up` in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices("ringtap_") {
        let name = &text[at..];
        names.insert(&name[..name.find(|letter| !is_part(letter)).unwrap_or(name.len())]);
    }
    names
}

#[test]
fn what_alerts_and_dashboard_name_is_there() {
    let shared = std::fs::read_to_string(root().join("crates/ringtap-output/src/metrics.rs")).unwrap();
    let mut seen = 0;
    for file in ["deploy/prometheus/ringtap.rules.yml", "deploy/grafana/ringtap.json"] {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        for name in names(&text) {
            // Of a pattern, such as that for all instances.
            let Some(rest) = name.strip_prefix("ringtap_").filter(|rest| !rest.is_empty()) else { continue };
            let (program, metric) = rest.split_once('_').unwrap_or_else(|| panic!("{file}: {name}"));
            let (_, sources) = PROGRAMS.iter().find(|it| it.0 == program).unwrap_or_else(|| panic!("{file}: {name}"));
            let bare = ["_total", "_bucket", "_count", "_sum"].iter().find_map(|end| metric.strip_suffix(end));
            let bare = bare.unwrap_or(metric);
            let bare = bare.strip_suffix("_seconds").or_else(|| bare.strip_suffix("_bytes")).unwrap_or(bare);
            let own = sources.iter().map(|source| std::fs::read_to_string(root().join("crates").join(source)).unwrap());
            let is_there = own.chain([shared.clone()]).any(|source| source.contains(&format!("\"{bare}\"")));
            assert!(is_there, "{file}: {name}");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
    let dashboard = std::fs::read_to_string(root().join("deploy/grafana/ringtap.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}
