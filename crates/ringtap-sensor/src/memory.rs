//! How large the detectors' tables may be on this host.
//!
//! Owns the share of the memory that they get where nobody names their size.

use ringtap::{Error, Result, available_memory_bytes};
use ringtap_detect::Limits;

/// Of the memory that is available all detectors get this part, 1 / 2: what else runs on the host needs some too.
const SHARE: u64 = 2;
/// With fewer flows a detector is of little use.
const LEAST_FLOWS: usize = 1024;
const WAY_OUT: &str = "name fewer flows with --flows, or use fewer --handlers or --queues";

/// The limits of each of so many detectors: as they are, if the user named the number of flows, otherwise for as many flows as
/// memory is available for, and a line that says so where these are fewer.
///
/// # Errors
/// There is not the memory, should all tables be full.
pub(crate) fn fitting(limits: &Limits, named: bool, detectors: usize) -> Result<(Limits, Option<String>)> {
    fit(limits, named, detectors, available_memory_bytes().unwrap_or(u64::MAX))
}

fn fit(limits: &Limits, named: bool, detectors: usize, available: u64) -> Result<(Limits, Option<String>)> {
    let of_all = |limits: &Limits| limits.memory_bytes().saturating_mul(detectors as u64);
    let wanted = of_all(limits);
    let may = if named { available } else { available / SHARE };
    if wanted <= may {
        return Ok((limits.clone(), None));
    }
    let smaller = |flows: usize| Some(flows / 2).filter(|&flows| flows >= LEAST_FLOWS);
    let halves = || std::iter::successors(smaller(limits.flows), |&flows| smaller(flows));
    let fits = |room: u64| halves().find(|&flows| of_all(&limits.within(flows)) <= room);
    // The fewest may have all of it.
    let fewer = fits(available / SHARE).or_else(|| fits(available).and(halves().last()));
    match fewer {
        Some(flows) if !named => {
            let line = format!(
                "{flows} flows of an engine at one time, not {}: {} MiB of memory are available, and the tables may have half of it; \
                 --flows names another number",
                limits.flows,
                available >> 20
            );
            Ok((limits.within(flows), Some(line)))
        }
        _ => {
            let cause = format!(
                "{} of {} flows take {} MiB when they are full, and {} MiB are available",
                if detectors == 1 { "the tables".to_owned() } else { format!("{detectors} engines' tables") },
                limits.flows,
                wanted.div_ceil(1 << 20),
                available >> 20
            );
            let way_out = fewer.map_or(WAY_OUT.to_owned(), |flows| format!("--flows {flows} would do"));
            Err(Error::failed("reserve memory for", "flows", cause).way_out(way_out))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_host_with_memory_gets_the_usual_tables() {
        let usual = Limits::default();
        assert_eq!(fit(&usual, false, 4, 16 * GIB).unwrap(), (usual, None));
    }

    #[test]
    fn a_small_host_gets_smaller_ones_and_is_told() {
        let usual = Limits::default();
        let (limits, line) = fit(&usual, false, 2, GIB / 2).unwrap();
        assert!(limits.flows < usual.flows && limits.memory_bytes() * 2 <= GIB / 4, "{limits:?}");
        let line = line.unwrap();
        assert!(line.starts_with(&format!("{} flows of an engine at one time, not 65536", limits.flows)), "{line}");
        let (limits, _) = fit(&usual, false, 64, 6 * GIB).unwrap();
        assert_eq!(limits.flows, LEAST_FLOWS, "many queues: more than half of it rather than nothing");
    }

    #[test]
    fn what_was_named_is_kept_or_refused() {
        let named = Limits::for_flows(200_000);
        assert_eq!(fit(&named, true, 1, 4 * GIB).unwrap(), (named.clone(), None), "more than half of it");
        let error = fit(&named, true, 2, 4 * GIB).unwrap_err().to_string();
        assert!(error.contains("2 engines' tables of 200000 flows take") && error.contains("4096 MiB"), "{error}");
        assert!(error.contains("--flows 50000 would do"), "{error}");
    }

    #[test]
    fn a_host_without_memory_is_an_error() {
        let error = fit(&Limits::default(), false, 1, GIB / 16).unwrap_err().to_string();
        assert!(error.contains("64 MiB are available") && error.contains("fewer flows"), "{error}");
    }
}
