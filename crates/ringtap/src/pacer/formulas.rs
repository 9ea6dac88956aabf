//! Closed formulas of waiting and polling (\[1] §2, §5.7, §7.3; \[3] §4.2).
//!
//! Owns: formulas that need nothing but their arguments. Does not own: measured costs, or the choice of period and
//! threshold from a latency bound (calibration).

/// λ_cliff = (r/2)(√(1 + 4μ/r) − 1) in packets per second (\[3] §4.2): the rate at which interrupt handling saturates
/// the processor. μ = 1/`per_packet_ns`, r = 1/`per_interrupt_ns`, both times in nanoseconds.
///
/// Returns 0 where the formula has no meaning: a time that is negative or not finite, or both 0. With free
/// interrupts it is μ itself.
pub fn cliff_pps(per_packet_ns: f64, per_interrupt_ns: f64) -> f64 {
    let valid = |time: f64| time.is_finite() && time >= 0.0;
    if !valid(per_packet_ns) || !valid(per_interrupt_ns) {
        return 0.0;
    }
    // The same, rationalised: 2μ / (1 + √(1 + 4μ/r)), which does not cancel when interrupts are cheap. In times:
    // 2 / (p + √(p² + 4·p·i)).
    let root = (per_packet_ns * per_packet_ns + 4.0 * per_packet_ns * per_interrupt_ns).sqrt();
    let denominator = per_packet_ns + root;
    if denominator > 0.0 { 2e9 / denominator } else { 0.0 }
}

/// Ring slots that hold what arrives in the worst poll period (\[1] §2, §5.7, §7.3): `worst_period_ns` × `peak_pps` × `safety`,
/// rounded up to a power of two (rings are indexed with a mask).
///
/// `None` if an argument is 0, or if the ring would need more than 2^31 slots (ring indices are 32 bits wide).
pub fn ring_slots(worst_period_ns: u64, peak_pps: u64, safety: u32) -> Option<u32> {
    if worst_period_ns == 0 || peak_pps == 0 || safety == 0 {
        return None;
    }
    // Two 64-bit factors fit 128 bits; the third may not.
    let packets = (u128::from(worst_period_ns) * u128::from(peak_pps)).div_ceil(1_000_000_000);
    let slots = packets.checked_mul(u128::from(safety))?.checked_next_power_of_two()?;
    u32::try_from(slots).ok()
}

/// Mean wait of a packet for the next poll, in nanoseconds: arrivals fall uniformly into the period, so half of it
/// (\[1] §2, §5.7, §7.3).
pub fn polling_latency_mean_ns(period_ns: u64) -> u64 {
    period_ns / 2
}

/// The wait that a share `quantile` (0 to 1, clamped) of the packets does not exceed, in nanoseconds: uniform on
/// [0, `period_ns`], so `quantile` × period (\[1] §2, §5.7, §7.3). With jitter, give a high percentile of the poll period.
pub fn polling_latency_quantile_ns(period_ns: u64, quantile: f64) -> u64 {
    (period_ns as f64 * quantile.clamp(0.0, 1.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_sizes_of_the_sources() {
        // 2345 µs worst period, a packet every 5 µs: 469 packets. The source takes 1024 (two times 469, rounded up)
        // and, for safety 4, 2048.
        assert_eq!(ring_slots(2_345_000, 200_000, 1), Some(512));
        assert_eq!(ring_slots(2_345_000, 200_000, 2), Some(1024));
        assert_eq!(ring_slots(2_345_000, 200_000, 4), Some(2048));
        // 185 µs on the real-time platform: 37 packets.
        assert_eq!(ring_slots(185_000, 200_000, 1), Some(64));
    }

    #[test]
    fn ring_size_limits() {
        assert_eq!(ring_slots(1, 1, 1), Some(1));
        assert_eq!(ring_slots(1_000_000_000, 1 << 31, 1), Some(1 << 31));
        assert_eq!(ring_slots(1_000_000_000, (1 << 31) + 1, 1), None);
        assert_eq!(ring_slots(u64::MAX, u64::MAX, u32::MAX), None);
        assert_eq!(ring_slots(0, 1, 1), None);
        assert_eq!(ring_slots(1, 0, 1), None);
        assert_eq!(ring_slots(1, 1, 0), None);
    }

    #[test]
    fn the_cliff_solves_its_equation() {
        // The formula is the positive root of λ² + r·λ − r·μ = 0.
        for (packet_ns, interrupt_ns) in [(5_000.0, 5_000.0), (746.0, 16_300.0), (9_000.0, 1.0)] {
            let cliff = cliff_pps(packet_ns, interrupt_ns);
            let (mu, r) = (1e9 / packet_ns, 1e9 / interrupt_ns);
            let printed = r / 2.0 * ((1.0 + 4.0 * mu / r).sqrt() - 1.0);
            assert!((cliff / printed - 1.0).abs() < 1e-9, "{cliff} {printed}");
            assert!(((cliff * cliff + r * cliff) / (r * mu) - 1.0).abs() < 1e-9);
        }
        // 1/μ = 1/r = 5 µs: 100 kpps · (√5 − 1).
        assert!((cliff_pps(5_000.0, 5_000.0) - 123_606.797_75).abs() < 0.001);
    }

    #[test]
    fn the_cliff_at_the_edges() {
        assert!((cliff_pps(1_000.0, 0.0) - 1e6).abs() < 1e-6, "free interrupts: μ");
        for (packet_ns, interrupt_ns) in [(0.0, 0.0), (-1.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0)] {
            assert_eq!(cliff_pps(packet_ns, interrupt_ns), 0.0);
        }
    }

    #[test]
    fn polling_latency_is_uniform() {
        // 122 µs: the sources measured a mean of 61 µs.
        assert_eq!(polling_latency_mean_ns(122_000), 61_000);
        assert_eq!(polling_latency_quantile_ns(122_000, 0.98), 119_560);
        assert_eq!(polling_latency_quantile_ns(122_000, 2.0), 122_000);
        assert_eq!(polling_latency_quantile_ns(122_000, f64::NAN), 0);
        assert_eq!(polling_latency_quantile_ns(u64::MAX, 1.0), u64::MAX);
    }
}
