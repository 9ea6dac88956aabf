//! Quantities as people write them: rates, times, sizes, counts and lists, read and shown.
//!
//! Owns what is accepted on the command line and how a refusal reads. Every reader fits clap's `value_parser`.

use std::ops::Deref;
use std::time::Duration;

/// Highest rate that is believed: one packet each nanosecond.
const HIGHEST_PPS: f64 = 1e9;
/// Longest list of CPUs or queues.
const LONGEST_LIST: usize = 4096;

/// What a reader gives; the text of a refusal says what is wanted.
type Read<T> = Result<T, String>;

/// Packets per second: `8300`, `8.3k`, `148k`, `1M`; above 0, at most 10⁹.
pub fn rate(text: &str) -> Read<f64> {
    const WANTED: &str = "give packets per second such as 8300, 8.3k or 1M";
    let bare = text.strip_suffix("pps").unwrap_or(text).trim_end();
    let (number, unit) = split(bare).ok_or_else(|| format!("{text:?} is no rate; {WANTED}"))?;
    let factor = decimal_factor(unit).ok_or_else(|| format!("{unit:?} is no unit of a rate; {WANTED}"))?;
    let pps = number * factor;
    if pps <= 0.0 {
        return Err(format!("a rate of {text} is no traffic; {WANTED}"));
    }
    if pps > HIGHEST_PPS {
        return Err(format!("{text} is more than a packet each nanosecond; {WANTED}"));
    }
    Ok(pps)
}

/// A time above 0: `250us`, `1ms`, `10s`, `5min`, `1h`. A number without unit is refused.
pub fn duration(text: &str) -> Read<Duration> {
    const WANTED: &str = "give a time with its unit such as 250us, 1ms, 10s, 5min or 1h";
    let (number, unit) = split(text).ok_or_else(|| format!("{text:?} is no time; {WANTED}"))?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "" => return Err(format!("{text:?} has no unit: is it {text}us, {text}ms or {text}s?")),
        _ => return Err(format!("{unit:?} is no unit of time; {WANTED}")),
    };
    // Rounded to whole nanoseconds: 0.1 of a µs is 100 ns, not 99.
    let ns = (number * seconds * 1e9).round();
    if ns < 1.0 {
        return Err(format!("a time of {text} is no time at all; {WANTED}"));
    }
    // Beyond 2^53 ns (104 days) a float no longer holds every nanosecond, and nobody means it.
    if ns > 9e15 {
        return Err(format!("{text} is longer than 100 days; {WANTED}"));
    }
    Ok(Duration::from_nanos(ns as u64))
}

/// A time of RFC 3339 with its zone, as nanoseconds since 1970.
pub fn instant(text: &str) -> Read<u64> {
    ringtap_output::time::parse(text).ok_or_else(|| {
        format!("{text:?} is no time with its zone; give one such as 2026-11-25T22:00:00Z or 2026-11-25T23:00+01:00")
    })
}

/// Bytes above 0: `1500`, `64KiB`, `64MiB`, `1GiB`; `KB`, `MB` and `GB` count in thousands.
pub fn size(text: &str) -> Read<u64> {
    const WANTED: &str = "give bytes such as 1500, 64KiB, 16MiB or 1GiB";
    let (number, unit) = split(text).ok_or_else(|| format!("{text:?} is no size; {WANTED}"))?;
    let factor = match unit {
        "" | "B" => 1.0,
        "KiB" | "K" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" | "G" => 1024.0 * 1024.0 * 1024.0,
        "TiB" | "T" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return Err(format!("{unit:?} is no unit of size; {WANTED}")),
    };
    let bytes = (number * factor).round();
    if bytes < 1.0 {
        return Err(format!("a size of {text} is nothing; {WANTED}"));
    }
    if bytes > 9e15 {
        return Err(format!("{text} is more than any disk holds; {WANTED}"));
    }
    Ok(bytes as u64)
}

/// The same of `least` bytes or more: what is less `does_not` do what it is for.
pub fn size_from(least: u64, does_not: &'static str) -> impl Fn(&str) -> Read<u64> + Clone + Send + Sync + 'static {
    move |text| match size(text)? {
        bytes if bytes < least => Err(format!("{text} {does_not}; give {} or more", told_size(least))),
        bytes => Ok(bytes),
    }
}

/// A number of things above 0: `1000`, `10k`, `1M`.
pub fn count(text: &str) -> Read<u64> {
    const WANTED: &str = "give a whole number such as 1000, 10k or 1M";
    let (number, unit) = split(text).ok_or_else(|| format!("{text:?} is no number; {WANTED}"))?;
    let factor = decimal_factor(unit).ok_or_else(|| format!("{unit:?} is no multiple; {WANTED}"))?;
    let count = (number * factor * 1e6).round() / 1e6;
    if count < 1.0 || count.fract() != 0.0 || count > 9e15 {
        return Err(format!("{text:?} is no whole number above 0; {WANTED}"));
    }
    Ok(count as u64)
}

/// Numbers from 0 in the order given: `2`, `0-3,5`. None twice.
pub fn list(text: &str) -> Read<List> {
    const WANTED: &str = "give numbers and ranges such as 2 or 0-3,5";
    let wrong = |part: &str| format!("{part:?} is no number or range; {WANTED}");
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (first.trim(), last.trim()),
            None => (part.trim(), part.trim()),
        };
        let first: usize = first.parse().map_err(|_| wrong(part))?;
        let last: usize = last.parse().map_err(|_| wrong(part))?;
        if first > last {
            return Err(format!("{part:?} runs backwards; {WANTED}"));
        }
        if last - first >= LONGEST_LIST {
            return Err(format!("{part:?} is longer than {LONGEST_LIST}; {WANTED}"));
        }
        for number in first..=last {
            if numbers.contains(&number) {
                return Err(format!("{number} is in {text:?} twice; {WANTED}"));
            }
            numbers.push(number);
        }
    }
    Ok(List(numbers))
}

/// Numbers of CPUs or queues. A type of its own, as clap takes a `Vec` for an option that is given several times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List(pub Vec<usize>);

impl Deref for List {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
    }
}

/// A number as people read it: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes as [`size`] reads them back: `512MiB`.
pub fn told_size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "")];
    let fits = units.iter().find(|(bits, _)| bytes.trailing_zeros() >= *bits);
    fits.map_or_else(String::new, |(bits, unit)| format!("{}{unit}", bytes >> bits))
}

/// A rate in packets per second with three digits: `148 kpps`, `1.49 Mpps`.
pub fn shown_rate(pps: f64) -> String {
    scaled(pps, &[(1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps")])
}

/// Bytes with three digits: `1.50 KiB`, `64.0 MiB`.
pub fn shown_size(bytes: u64) -> String {
    let [kib, mib, gib] = [1024.0, 1_048_576.0, 1_073_741_824.0];
    scaled(bytes as f64, &[(gib, "GiB"), (mib, "MiB"), (kib, "KiB"), (1.0, "B")])
}

/// Microseconds with three digits in the unit that fits: `850 us`, `1.23 ms`.
pub fn shown_us(us: f64) -> String {
    scaled(us, &[(1e6, "s"), (1e3, "ms"), (1.0, "us")])
}

/// The first unit that leaves a number of at least 1, else the last.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let (factor, unit) =
        units.iter().find(|(factor, _)| value >= *factor).or_else(|| units.last()).copied().unwrap_or((1.0, ""));
    let scaled = value / factor;
    let decimals = if scaled >= 99.95 || scaled.fract() == 0.0 && factor == 1.0 {
        0
    } else if scaled >= 9.995 {
        1
    } else {
        2
    };
    format!("{scaled:.decimals$} {unit}")
}

fn decimal_factor(unit: &str) -> Option<f64> {
    match unit {
        "" => Some(1.0),
        "k" | "K" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        _ => None,
    }
}

/// A finite, non-negative decimal number and what follows it. No exponent and no sign: `1e3` is more often a slip.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim_start()))
}

/// A time since 1970 as in RFC 3339, UTC, to the second.
pub fn shown_time(ns: u64) -> String {
    let text = ringtap_output::time::utc_micros(ns);
    // Up to the seconds, all of it ASCII.
    format!("{}Z", text.get(..19).unwrap_or(&text))
}

/// How long ago `then_ns` was, in words.
pub fn shown_age(then_ns: u64, now_ns: u64) -> String {
    let seconds = now_ns.saturating_sub(then_ns) / 1_000_000_000;
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("8300"), Ok(8300.0));
        assert_eq!(rate("8.3k"), Ok(8300.0));
        assert_eq!(rate("148kpps"), Ok(148e3));
        assert_eq!(rate("1M"), Ok(1e6));
        for bad in ["0", "0k", "-1", "x", "", "k", "1q", "2G", "NaN", "inf", "1e3"] {
            assert!(rate(bad).unwrap_err().contains("such as"), "{bad}");
        }
    }

    #[test]
    fn times_want_their_unit() {
        assert_eq!(duration("122us"), Ok(Duration::from_micros(122)));
        assert_eq!(duration("0.1us"), Ok(Duration::from_nanos(100)));
        assert_eq!(duration("1.5 ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(duration("10").unwrap_err(), "\"10\" has no unit: is it 10us, 10ms or 10s?");
        for bad in ["0us", "0.1ns", "", "us", "-1s", "1m", "1 year", "99999h"] {
            assert!(duration(bad).unwrap_err().contains("such as"), "{bad}");
        }
    }

    #[test]
    fn sizes_count_in_1024_when_they_say_so() {
        assert_eq!(size("1500"), Ok(1500));
        assert_eq!(size("64KiB"), Ok(65536));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1GB"), Ok(1_000_000_000));
        for bad in ["0", "0MiB", "", "MiB", "-1", "1Mi", "99999TiB"] {
            assert!(size(bad).unwrap_err().contains("such as"), "{bad}");
        }
    }

    #[test]
    fn counts_are_whole() {
        assert_eq!(count("1000"), Ok(1000));
        assert_eq!(count("1.5k"), Ok(1500));
        assert_eq!(count("2.3k"), Ok(2300));
        assert_eq!(count("1M"), Ok(1_000_000));
        for bad in ["0", "1.5", "-3", "x", "1.0001k"] {
            assert!(count(bad).unwrap_err().contains("such as"), "{bad}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(list("2").unwrap().0, [2]);
        assert_eq!(list("0-3,5").unwrap().0, [0, 1, 2, 3, 5]);
        assert_eq!(list("5, 1-2").unwrap().0, [5, 1, 2]);
        for bad in ["", "-", "3-1", "a", "1,", "1,1", "0-2,1", "0-99999999", "-1"] {
            assert!(list(bad).unwrap_err().contains("0-3,5"), "{bad}");
        }
    }

    #[test]
    fn shown_with_three_digits() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(shown_rate(148_000.0), "148 kpps");
        assert_eq!(shown_rate(0.0), "0 pps");
        assert_eq!(shown_rate(0.5), "0.50 pps");
        assert_eq!(shown_rate(1_488_095.0), "1.49 Mpps");
        assert_eq!(shown_size(64 << 20), "64.0 MiB");
        assert_eq!(shown_size(12), "12 B");
        assert_eq!(shown_us(850.4), "850 us");
        assert_eq!(shown_us(1234.0), "1.23 ms");
    }
}
