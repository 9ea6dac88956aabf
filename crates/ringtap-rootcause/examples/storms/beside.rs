//! Other ways to find what broke, over the same storms: rules of SEC, and alarms grouped by time.
//!
//! A claim is right as an answer of the engine is: when one of its names is what broke. Each fault is found once.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_testbed::storm::fault::{Event, Played};

use super::map::Map;
use super::measure::{Score, Storms, each};

/// Between two alarms of a group: epsilon 100 of the default distance of OpenNMS ALEC's DBSCAN engine, 144.47 · 0.5526 · minutes where
/// space says nothing; a group has one alarm or more.
const GROUP_NS: u64 = 75_153_000_000;
/// What SEC is told after the last alarm, seconds: all its windows are over then.
const AFTER_S: u64 = 200;

/// What was said to have broken.
pub struct Claim {
    at_ns: u64,
    names: Vec<String>,
}

/// Who makes claims of a storm.
pub trait Peer {
    /// What it says of these alarms.
    fn claims(&mut self, text: &str, played: &Played) -> std::io::Result<Vec<Claim>>;
}

/// Runs a peer over all of these storms.
pub fn run(storms: Storms, peer: &mut dyn Peer) -> std::io::Result<Score> {
    let mut score = Score::default();
    let mut failed = Ok(());
    each(storms, &mut |_, text, played| {
        if failed.is_ok() {
            match peer.claims(text, played) {
                Ok(claims) => score.add(judge(played, &claims)),
                Err(error) => failed = Err(error),
            }
        }
    });
    failed.map(|()| score)
}

fn judge(played: &Played, claims: &[Claim]) -> Score {
    let stories = &played.stories;
    let faults = stories.iter().filter(|story| story.shows).count();
    let mut score = Score { storms: 1, faults, opened: claims.len(), alarms: played.events.len(), ..Score::default() };
    let mut found = HashSet::new();
    for claim in claims {
        let is_it = |at: &usize| stories[*at].names.iter().any(|name| claim.names.contains(name));
        match (0..stories.len()).find(|at| !found.contains(at) && is_it(at)) {
            Some(at) => {
                found.insert(at);
                if stories[at].shows {
                    score.found += 1;
                    score.named += claim.names.len();
                    score.times_ms.push(claim.at_ns.saturating_sub(stories[at].at_ns) / 1_000_000);
                }
            }
            None => score.wrong += 1,
        }
    }
    score
}

/// Alarms that no longer gap divides are one group, and its first alarm is taken for the cause. Groups of noise alone are not counted.
pub struct Groups;

impl Peer for Groups {
    fn claims(&mut self, text: &str, played: &Played) -> std::io::Result<Vec<Claim>> {
        let map = Map::read(text);
        let mut seen = HashSet::new();
        let raised = played.events.iter().filter(|event| event.raises != Some(false));
        let alarms: Vec<&Event> =
            raised.filter(|event| seen.insert((&event.resource, event.condition, &event.object))).collect();
        let groups = alarms.chunk_by(|one, next| next.at_ns - one.at_ns <= GROUP_NS);
        let of_faults = groups.filter(|group| group.iter().any(|event| !event.spurious));
        let claim = |group: &[&Event]| Claim {
            at_ns: group[0].at_ns,
            names: map.names(&group[0].resource, group[0].condition, &group[0].object),
        };
        Ok(of_faults.map(claim).collect())
    }
}

/// SEC with the rules beside this file, by the time of the alarms.
pub struct Sec {
    folder: PathBuf,
    map_of: String,
}

impl Sec {
    /// Needs `sec` and `perl`.
    pub fn new() -> std::io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("ringtap-storms-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, map_of: String::new() })
    }
}

impl Drop for Sec {
    fn drop(&mut self) {
        // In the folder for temporary files, at worst it stays there.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Peer for Sec {
    fn claims(&mut self, text: &str, played: &Played) -> std::io::Result<Vec<Claim>> {
        let (map, lines) = (self.folder.join("map"), self.folder.join("lines"));
        if self.map_of != text {
            std::fs::write(&map, Map::read(text).lines())?;
            text.clone_into(&mut self.map_of);
        }
        std::fs::write(&lines, input(played))?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/storms");
        let mut sec = Command::new("perl");
        sec.arg(here.join("sec.pl")).arg(&map).arg("/usr/bin/sec");
        sec.arg(format!("--conf={}", here.join("sec.conf").display())).arg(format!("--input={}", lines.display()));
        let out = sec.args(["--notail", "--debug=3"]).output()?;
        if !out.status.success() {
            return Err(std::io::Error::other(format!("sec: {}", String::from_utf8_lossy(&out.stderr))));
        }
        let claim = |line: &str| {
            let mut words = line.split(' ');
            let at_ns = words.next()?.parse::<u64>().ok()? * 1_000_000_000;
            Some(Claim { at_ns, names: words.map(str::to_owned).collect() })
        };
        Ok(String::from_utf8_lossy(&out.stdout).lines().filter_map(claim).collect())
    }
}

/// A line for each alarm and one for each second, so that windows end without an alarm, too.
fn input(played: &Played) -> String {
    let mut out = String::new();
    let mut second = played.events.first().map_or(0, |event| event.at_ns / 1_000_000_000);
    for event in &played.events {
        while second <= event.at_ns / 1_000_000_000 {
            let _ = writeln!(out, "{second}.000 tick");
            second += 1;
        }
        let (ms, what) = (event.at_ns / 1_000_000, if event.raises == Some(false) { "clear" } else { "raise" });
        let object = if event.object.is_empty() { "-" } else { &event.object };
        let (s, ms) = (ms / 1000, ms % 1000);
        let _ = writeln!(out, "{s}.{ms:03} {} {} {object} {what}", event.resource, event.condition);
    }
    (second..second + AFTER_S).for_each(|second| {
        let _ = writeln!(out, "{second}.000 tick");
    });
    out
}
