//! Owns: where the events of a run come from, whichever it is.
//! Does not: open anything itself.

use std::sync::Arc;
use std::time::Duration;

use super::counts::InputCounts;
use super::files::{Files, Next};
use super::kafka::Topics;
use super::listen::Listening;
use super::own::Own;

/// All inputs of a run.
pub(crate) enum Source {
    Files(Files),
    Listening(Listening),
    Own(Own),
    Kafka(Topics),
}

impl Source {
    /// What came next; waits for it.
    pub(crate) fn next(&mut self, wait: Duration) -> Next {
        match self {
            Self::Files(files) => files.next(wait),
            Self::Listening(listening) => listening.next(wait),
            Self::Own(own) => own.next(wait),
            Self::Kafka(topics) => topics.next(wait),
        }
    }

    /// Whether all was taken that has come so far.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            // They are read to their end, and nobody is waited for.
            Self::Files(_) => true,
            Self::Listening(listening) => listening.is_empty(),
            Self::Own(own) => own.is_empty(),
            Self::Kafka(topics) => topics.is_empty(),
        }
    }

    /// What each input counted.
    pub(crate) fn counts(&self) -> Vec<Arc<InputCounts>> {
        match self {
            Self::Files(files) => files.counts().to_vec(),
            Self::Listening(listening) => listening.counts(),
            Self::Own(own) => vec![own.counts()],
            Self::Kafka(topics) => topics.counts(),
        }
    }

    /// Whether it comes as it happens, and not from the past.
    pub(crate) fn is_live(&self) -> bool {
        match self {
            Self::Files(_) => false,
            Self::Listening(_) | Self::Kafka(_) => true,
            Self::Own(own) => own.is_live(),
        }
    }
}
