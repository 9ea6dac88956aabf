//! How figures are written: three significant digits, SI prefixes for rates and counts, `–` for what is not there. No line
//! breaks between a figure and its unit.
//!
//! Owns no unit: callers put it beside, in an axis or a column head.

pub use ringtap_run::units::grouped as count;

/// What stands for a figure that is not there.
pub const NONE: &str = "–";

/// Three significant digits, no exponent between 0.001 and a million: `0.012`, `2.16`, `148`, `13825`.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if !(1e-3..1e6).contains(&size) {
        let text = format!("{value:.2e}");
        text.split_once('e').map_or(text.clone(), |(digits, power)| format!("{}e{power}", trim_zeros(digits.into())))
    } else {
        // 9.996 would round up to four digits: the digits follow from the rounded size.
        let decimals = [(0.009_995, 5), (0.099_95, 4), (0.999_5, 3), (9.995, 2), (99.95, 1)];
        let decimals = decimals.iter().find(|(below, _)| size < *below).map_or(0, |(_, decimals)| *decimals);
        trim_zeros(format!("{value:.decimals$}"))
    }
}

/// To the unit: raw figures.
pub fn whole(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { NONE.into() }
}

/// With an SI prefix: `148 k`, `1.49 M`, `999`.
pub fn si(value: f64) -> String {
    const STEPS: [(f64, &str); 4] = [(1e12, "\u{a0}T"), (1e9, "\u{a0}G"), (1e6, "\u{a0}M"), (1e3, "\u{a0}k")];
    // Half a unit of the third digit below the step already rounds up to it.
    match STEPS.iter().find(|(step, _)| value.abs() >= step * 0.9995) {
        Some((step, prefix)) if value.abs() < 1e15 => plain(value / step) + prefix,
        _ => plain(value),
    }
}

/// Bytes with a binary prefix: `96 KiB`, `3 MiB`.
pub fn bytes(value: f64) -> String {
    const STEPS: [(f64, &str); 4] = [
        (1_099_511_627_776.0, "\u{a0}TiB"),
        (1_073_741_824.0, "\u{a0}GiB"),
        (1_048_576.0, "\u{a0}MiB"),
        (1024.0, "\u{a0}KiB"),
    ];
    match STEPS.iter().find(|(step, _)| value.abs() >= *step) {
        Some((step, prefix)) => plain(value / step) + prefix,
        None => plain(value) + "\u{a0}B",
    }
}

/// Per cent.
pub fn percent_text(value: f64) -> String {
    plain(value) + "\u{a0}%"
}

/// What is there, by `write`; else [`NONE`].
pub fn or_none<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NONE.into(), write)
}

/// One coordinate of a drawing. What is not finite is a fault of the caller, and drawn at the origin.
pub fn coordinate(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = trim_zeros(format!("{value:.1}"));
    if text == "-0" { "0".into() } else { text }
}

fn trim_zeros(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let written: Vec<String> =
            [0.0, 0.00123, 0.0126, 0.5, 2.164, 9.996, 13.25, 99.96, 148.3, 13_825.2].map(plain).into();
        assert_eq!(written, ["0", "0.00123", "0.0126", "0.5", "2.16", "10", "13.2", "100", "148", "13825"]);
        assert_eq!(plain(-2.5), "-2.5");
        assert_eq!(plain(f64::NAN), NONE);
        assert_eq!(plain(f64::INFINITY), NONE);
        assert_eq!((plain(1e300), plain(1.25e-5)), ("1e300".into(), "1.25e-5".into()));
    }

    #[test]
    fn prefixes() {
        let (si, bytes) = (|value| si(value).replace('\u{a0}', " "), |value| bytes(value).replace('\u{a0}', " "));
        assert_eq!(
            [0.0, 999.0, 999.9, 1500.0, 148_000.0, 1_488_095.0, 1e18].map(si),
            ["0", "999", "1 k", "1.5 k", "148 k", "1.49 M", "1e18"]
        );
        assert_eq!([512.0, 98_304.0, 3_145_728.0].map(bytes), ["512 B", "96 KiB", "3 MiB"]);
    }

    #[test]
    fn coordinates_are_finite() {
        assert_eq!([f64::NAN, f64::INFINITY, -0.01, 12.0, 12.34].map(coordinate), ["0", "0", "0", "12", "12.3"]);
    }
}
