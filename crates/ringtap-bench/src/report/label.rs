//! Labels beside a drawing that don't cover each other.

/// Moves `wanted` positions apart until neighbours keep `distance`, within `low..=high` if they fit there, each as near as
/// may be to where it wants to be (least squares: overlapping labels are pooled and the pool centred). In the order given.
pub fn apart(wanted: &[f64], distance: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // A pool: how many labels, and the sum of where each would have its first one.
    let mut pools: Vec<(usize, f64)> = Vec::new();
    let start = |pool: &(usize, f64)| {
        let latest = (high - (pool.0 - 1) as f64 * distance).max(low);
        (pool.1 / pool.0 as f64).clamp(low, latest)
    };
    for label in &order {
        let mut pool = (1, wanted[*label]);
        while let Some(before) = pools.last().filter(|before| start(before) + before.0 as f64 * distance > start(&pool))
        {
            let shifted = pool.1 - (pool.0 * before.0) as f64 * distance;
            pool = (before.0 + pool.0, before.1 + shifted);
            pools.pop();
        }
        pools.push(pool);
    }
    let mut placed = vec![0.0; wanted.len()];
    let mut labels = order.into_iter();
    for pool in &pools {
        for (place, label) in labels.by_ref().take(pool.0).enumerate() {
            placed[label] = start(pool) + place as f64 * distance;
        }
    }
    placed
}

/// At most `length` characters: of a longer text begin and end, which tell apart `… 1ms` and `… 250us`.
pub fn shortened(text: &str, length: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= length {
        return text.into();
    }
    let kept = length.saturating_sub(1);
    let (begin, end) = (kept.div_ceil(2), kept / 2);
    let end = &characters[characters.len() - end..];
    characters[..begin].iter().chain(&['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_labels_stay() {
        assert_eq!(apart(&[50.0, 10.0], 12.0, 0.0, 100.0), [50.0, 10.0]);
    }

    #[test]
    fn neighbours_keep_their_distance() {
        let wanted = [5.0, 5.0, 5.0, 6.0, 99.0, 98.0, 50.0, 300.0, -40.0];
        let placed = apart(&wanted, 10.0, 0.0, 100.0);
        let mut sorted = placed.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] > 9.999), "{sorted:?}");
        assert!(sorted[0] >= 0.0 && sorted[8] <= 100.0, "{sorted:?}");
        for (a, one) in wanted.iter().enumerate() {
            for (b, other) in wanted.iter().enumerate() {
                assert!(one >= other || placed[a] < placed[b], "order kept");
            }
        }
    }

    #[test]
    fn too_many_begin_at_the_top() {
        assert_eq!(apart(&[1.0, 1.0, 1.0], 10.0, 0.0, 15.0), [0.0, 10.0, 20.0]);
        assert!(apart(&[], 10.0, 0.0, 15.0).is_empty());
    }

    #[test]
    fn long_names() {
        assert_eq!(shortened("netsniff-ng", 5), "ne…ng");
        assert_eq!(shortened("netsniff-ng", 0), "…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
