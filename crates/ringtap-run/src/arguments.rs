//! Options about receiving that several commands have, as they are written.
//!
//! Owns their spelling. Quantities are `units`'.

use std::net::{Ipv4Addr, SocketAddr};

use ringtap::receiver::Queues;
use ringtap::source::file::Pace;

use crate::units;
use crate::waiting::Threshold;

/// Reads a rung of a ladder, `8.3k` or `8.3k:122us`.
///
/// # Errors
/// What was expected.
pub fn threshold(text: &str) -> Result<Threshold, String> {
    let (rate, period) = match text.split_once(':') {
        Some((rate, period)) => (rate, Some(units::duration(period)?)),
        None => (text, None),
    };
    Ok(Threshold { pps: units::rate(rate)?, period })
}

/// Pause between the kernel's NAPI polls in nanoseconds, 0 for none; `None` leaves the choice to the plan. A type of its own, as clap
/// takes an `Option` for an option that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Napi(pub Option<u64>);

/// Reads `auto`, `off` or a time.
///
/// # Errors
/// What was expected.
pub fn napi(text: &str) -> Result<Napi, String> {
    Ok(Napi(match text {
        "auto" => None,
        "off" => Some(0),
        _ => Some(units::duration(text)?.as_nanos() as u64),
    }))
}

/// Reads `all`, a number of queues, or a list of them.
///
/// # Errors
/// What was expected.
pub fn queues(text: &str) -> Result<Queues, String> {
    let is_list = text.contains([',', '-']);
    Ok(match text {
        "all" => Queues::All,
        "0" => return Err("no queue would be read; give all, a number of queues, or a list: 0-0 is queue 0".to_owned()),
        _ if is_list => {
            Queues::Only(units::list(text)?.iter().map(|&queue| queue.try_into().unwrap_or(u32::MAX)).collect())
        }
        _ => Queues::Count(
            text.parse().map_err(|_| format!("{text:?} is no number of queues; give all, a number, or a list"))?,
        ),
    })
}

/// Reads the pace of a replay: `fast`, `recorded`, or a multiple such as `2x`.
///
/// # Errors
/// What was expected.
pub fn pace(text: &str) -> Result<Pace, String> {
    match text {
        "fast" => Ok(Pace::AsFast),
        "recorded" => Ok(Pace::Recorded),
        _ => match text.strip_suffix('x').and_then(|number| number.parse::<f64>().ok()) {
            Some(factor) if factor.is_finite() && factor > 0.0 => Ok(Pace::Multiplied(factor)),
            _ => Err(format!("{text:?} is no pace; give fast, recorded, or a multiple above 0 such as 2x or 0.5x")),
        },
    }
}

/// Reads where clients are served: ADDRESS:PORT, or a port of the loopback interface.
///
/// # Errors
/// What was expected.
pub fn serve_at(text: &str) -> Result<SocketAddr, String> {
    let address = match text.parse::<u16>() {
        Ok(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => text.parse().ok(),
    };
    address.filter(|address| address.port() != 0).ok_or_else(|| {
        format!(
            "{text:?} is no address to serve at; give a port of the loopback interface such as 57012, or ADDRESS:PORT"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_option_is_read_or_refused_with_what_was_expected() {
        assert_eq!(threshold("8.3k:122us"), Ok(Threshold { pps: 8300.0, period: Some(Duration::from_micros(122)) }));
        assert_eq!(threshold("8k"), Ok(Threshold { pps: 8000.0, period: None }));
        assert!(threshold("8k:").is_err() && threshold("x:1ms").is_err());
        assert_eq!(
            (napi("auto"), napi("off"), napi("50us")),
            (Ok(Napi(None)), Ok(Napi(Some(0))), Ok(Napi(Some(50_000))))
        );
        assert!(napi("soon").is_err());
        assert_eq!((queues("all"), queues("2")), (Ok(Queues::All), Ok(Queues::Count(2))));
        assert_eq!((queues("0-1,5"), queues("0-0")), (Ok(Queues::Only(vec![0, 1, 5])), Ok(Queues::Only(vec![0]))));
        assert!(queues("0").unwrap_err().contains("0-0"));
        assert!(queues("many").unwrap_err().contains("give all"));
        assert_eq!((pace("fast"), pace("recorded")), (Ok(Pace::AsFast), Ok(Pace::Recorded)));
        assert_eq!(pace("0.5x"), Ok(Pace::Multiplied(0.5)));
        assert_eq!(serve_at("57012").unwrap().to_string(), "127.0.0.1:57012");
        assert_eq!(serve_at("[::]:1").unwrap().to_string(), "[::]:1");
        for bad in ["", "0", "host:1", "192.0.2.1", "192.0.2.1:0", "65536"] {
            assert!(serve_at(bad).unwrap_err().contains("such as 57012"), "{bad}");
        }
        for bad in ["", "x", "0x", "-1x", "2", "infx", "NaNx", "slow"] {
            assert!(pace(bad).unwrap_err().contains("such as"), "{bad}");
        }
    }
}
