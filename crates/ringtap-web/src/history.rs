//! Owns: what was seen of a program's metrics in the last two minutes, while somebody looked, and rates between two looks.
//! Does not: look by itself: nobody's page costs nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::figures::Figures;

/// How far back rates are shown, and how often they are taken.
const SHOWN: Duration = Duration::from_secs(120);
const EVERY: Duration = Duration::from_millis(900);

/// Looks at a program.
#[derive(Debug, Default)]
pub struct History {
    looks: VecDeque<(Instant, Figures)>,
}

impl History {
    /// Keeps what was seen; what is younger than a second replaces nothing and is not kept.
    pub fn add(&mut self, at: Instant, figures: Figures) {
        while self.looks.front().is_some_and(|(then, _)| at.duration_since(*then) > SHOWN) {
            self.looks.pop_front();
        }
        if self.looks.back().is_none_or(|(then, _)| at.duration_since(*then) >= EVERY) {
            self.looks.push_back((at, figures));
        }
    }

    /// The newest look.
    pub fn now(&self) -> Option<&Figures> {
        self.looks.back().map(|(_, figures)| figures)
    }

    /// The look before it, and how long ago that was, seconds.
    pub fn before(&self) -> Option<(&Figures, f64)> {
        let (now, _) = self.looks.back()?;
        let (then, figures) = self.looks.iter().rev().nth(1)?;
        Some((figures, now.duration_since(*then).as_secs_f64()))
    }

    /// How many a second a counter has grown since the look before; `None`: one of them does not have it.
    pub fn rate(&self, name: &str) -> Option<f64> {
        let (before, seconds) = self.before()?;
        let grown = self.now()?.sum(name)? - before.sum(name)?;
        Some((grown / seconds).max(0.0))
    }

    /// Rates of a counter from look to look: seconds before the newest, and how many a second.
    pub fn rates(&self, name: &str) -> Vec<(f64, f64)> {
        let Some((newest, _)) = self.looks.back() else { return Vec::new() };
        let pairs = self.looks.iter().zip(self.looks.iter().skip(1));
        pairs
            .filter_map(|((then, before), (at, now))| {
                let seconds = at.duration_since(*then).as_secs_f64();
                let grown = now.sum(name)? - before.sum(name)?;
                Some((newest.duration_since(*at).as_secs_f64(), (grown / seconds).max(0.0)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(offered: u64) -> Figures {
        let text = format!("# TYPE ringtap_x_offered counter\nringtap_x_offered_total {offered}\n");
        Figures::read(&text, "x")
    }

    #[test]
    fn rates_are_between_looks() {
        let start = Instant::now();
        let mut history = History::default();
        history.add(start, figures(100));
        assert_eq!(history.rate("offered"), None, "one look says no rate");
        history.add(start + Duration::from_millis(10), figures(150));
        assert_eq!(history.rate("offered"), None, "too near to the one before");
        history.add(start + Duration::from_secs(2), figures(300));
        assert_eq!((history.rate("offered"), history.rate("dropped")), (Some(100.0), None));
        history.add(start + Duration::from_secs(4), figures(100));
        assert_eq!(history.rate("offered"), Some(0.0), "a counter that fell began anew");
        assert_eq!(history.rates("offered"), [(2.0, 100.0), (0.0, 0.0)]);
        for second in 5..1000 {
            history.add(start + Duration::from_secs(second), figures(second));
        }
        assert!(history.looks.len() <= 122, "{}", history.looks.len());
    }
}
