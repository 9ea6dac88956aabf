//! From options to traffic: addresses, patterns, sizes, pace and what contradicts itself.
//!
//! Owns the words of wrong usage. Ranges of rates and sizes are checked, and addresses that were not given found, where they are
//! used (`ringtap_testbed::generate`).

use ringtap::source::file::Pace;
use ringtap::{Error, Result};
use ringtap_run::units;
use ringtap_testbed::generate::{RATE_PPS, Replay, ReplayPace, Segment, read_mac};
use ringtap_testbed::storm::Storm;
use ringtap_testbed::{GeneratorBackend, Pattern, Profile};

use super::Args;
use super::faults::FaultStorm;

/// Burst length when none is given.
const BURST_LENGTH: u64 = 32;
/// How much faster than the mean a burst is when no rate is given.
const BURST_FACTOR: f64 = 10.0;

/// What to send.
pub(super) enum Traffic {
    /// Stamped packets; without sizes the smallest that holds the stamp.
    Stamped { profile: Profile, sizes: Option<Vec<usize>>, count: Option<u64> },
    /// Files.
    Replay(Replay),
    /// SNMP traps.
    Traps(Storm),
    /// What the nodes of a network say of faults.
    Faults(FaultStorm),
}

/// Names of the patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PatternName {
    /// Equal intervals
    Constant,
    /// Independent, exponentially distributed intervals
    Poisson,
    /// Bursts of equal length at equal distances
    Burst,
    /// A rate that changes linearly from --rate to --ramp-to
    Ramp,
}

/// Frame sizes used in turn. A type of its own, as clap takes a `Vec` for an option that is given several times.
#[derive(Debug, Clone)]
pub(super) struct Sizes(Vec<usize>);

/// Reads `64` or `64,576,1514`.
pub(super) fn sizes(text: &str) -> Result<Sizes, String> {
    let one = |part: &str| units::size(part.trim()).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    text.split(',').map(one).collect::<Result<_, _>>().map(Sizes)
}

/// Reads `02:00:00:00:00:01`.
pub(super) fn mac(text: &str) -> Result<[u8; 6], String> {
    read_mac(text).ok_or_else(|| {
        format!("{text:?} is no MAC address; give six pairs of hexadecimal digits such as 02:00:00:00:00:01")
    })
}

/// Reads a back end's name.
pub(super) fn backend(text: &str) -> Result<GeneratorBackend, String> {
    match text {
        "auto" => Ok(GeneratorBackend::Auto),
        "kernel" => Ok(GeneratorBackend::Kernel),
        "ring" => Ok(GeneratorBackend::Ring),
        _ => Err(format!("{text:?} is no back end; give auto, kernel or ring")),
    }
}

/// Reads all options about traffic.
pub(super) fn read(args: &Args) -> Result<Traffic> {
    if args.replay.is_empty() { stamped(args) } else { replay(args).map(Traffic::Replay) }
}

/// A contradiction: `option` is there and has no meaning beside the rest.
fn contradiction(option: &str, cause: &str, way_out: &str) -> Error {
    Error::usage("read", option, cause).way_out(way_out)
}

/// The first option of a list that was given.
fn first_given<'a>(options: &[(&'a str, bool)]) -> Option<&'a str> {
    options.iter().find(|(_, given)| *given).map(|(name, _)| *name)
}

fn stamped(args: &Args) -> Result<Traffic> {
    let replay_only = [("--pace", args.pace.is_some()), ("--loop", args.passes.is_some())];
    if let Some(option) = first_given(&replay_only) {
        return Err(contradiction(option, "it is for replaying a file", "leave it out, or name a file with --replay"));
    }
    let Some(pps) = args.rate else {
        return Err(Error::usage("generate on", &args.interface, "no rate given")
            .way_out("say how many packets per second with --rate, such as --rate 148k"));
    };
    let name = args.pattern.unwrap_or(PatternName::Constant);
    let burst_only = [("--burst-length", args.burst_length.is_some()), ("--burst-rate", args.burst_rate.is_some())];
    if let Some(option) = first_given(&burst_only).filter(|_| name != PatternName::Burst) {
        return Err(contradiction(option, "it is for bursts", "leave it out, or add --pattern burst"));
    }
    if args.ramp_to.is_some() && name != PatternName::Ramp {
        return Err(contradiction("--ramp-to", "it is for a ramp", "leave it out, or add --pattern ramp"));
    }
    let pattern = match name {
        PatternName::Constant => Pattern::Constant { pps },
        PatternName::Poisson => Pattern::Poisson { pps },
        PatternName::Burst => Pattern::OnOffBurst {
            pps,
            burst_len: args.burst_length.unwrap_or(BURST_LENGTH),
            burst_pps: args.burst_rate.unwrap_or((pps * BURST_FACTOR).min(*RATE_PPS.end())),
        },
        PatternName::Ramp => {
            let (Some(to_pps), Some(_)) = (args.ramp_to, args.duration) else {
                let missing = if args.ramp_to.is_none() { "--ramp-to" } else { "--duration" };
                let way_out = "say where it ends and how long it lasts: --ramp-to RATE --duration TIME";
                return Err(contradiction("--pattern ramp", &format!("{missing} is missing"), way_out));
            };
            Pattern::Ramp { from_pps: pps, to_pps }
        }
    };
    let profile = Profile { segments: vec![Segment { pattern, duration: args.duration }] };
    let sizes = args.size.as_ref().map(|Sizes(sizes)| sizes.clone());
    Ok(Traffic::Stamped { profile, sizes, count: args.count })
}

fn replay(args: &Args) -> Result<Replay> {
    let stamped_only = [
        ("--size", args.size.is_some()),
        ("--count", args.count.is_some()),
        ("--duration", args.duration.is_some()),
        ("--pattern", args.pattern.is_some()),
        ("--burst-length", args.burst_length.is_some()),
        ("--burst-rate", args.burst_rate.is_some()),
        ("--ramp-to", args.ramp_to.is_some()),
        ("--to-mac", args.to_mac.is_some()),
        ("--from-mac", args.from_mac.is_some()),
        ("--to", args.to.is_some()),
        ("--from", args.from.is_some()),
        ("--port", args.port.is_some()),
        ("--from-port", args.from_port.is_some()),
        ("--flows", args.flows.is_some()),
        ("--vlan", args.vlan.is_some()),
        ("--stream", args.stream.is_some()),
    ];
    if let Some(option) = first_given(&stamped_only) {
        let cause = "a replay sends the packets of the file as they are";
        return Err(contradiction(option, cause, "leave out this option or --replay"));
    }
    if args.backend == GeneratorBackend::Kernel {
        let way_out = "leave out --backend, or use --backend ring";
        return Err(contradiction("--backend kernel", "files are replayed by the transmit ring only", way_out));
    }
    let pace = match (args.rate, args.pace) {
        (Some(_), Some(_)) => {
            return Err(contradiction("--pace", "--rate sets the pace already", "give one of the two"));
        }
        (Some(pps), None) => ReplayPace::Constant(pps),
        (None, None | Some(Pace::Recorded)) => ReplayPace::Recorded(1.0),
        (None, Some(Pace::Multiplied(factor))) => ReplayPace::Recorded(factor),
        (None, Some(Pace::AsFast)) => ReplayPace::AsFast,
    };
    let replay = Replay::new(&args.interface, args.replay.clone(), pace);
    Ok(Replay { passes: args.passes.unwrap_or(1), ..replay })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_names_are_read_or_refused_with_a_way_out() {
        assert_eq!(sizes("64, 1514").unwrap().0, [64, 1514]);
        for bad in ["", "64,", "x", "0", "64,-1"] {
            assert!(sizes(bad).unwrap_err().contains("such as"), "{bad}");
        }
        assert!(mac("02:00").unwrap_err().contains("such as"));
        assert!(backend("xdp").unwrap_err().contains("auto, kernel or ring"));
    }
}
