//! What the testbed's own wires lost of a run: between generator and splitter, and between splitter and sensors. No program keeps
//! a ledger of it.
//!
//! Owns both readings of the wires' counters. A counter that can't be read is unknown, never 0.

use ringtap::Result;
use ringtap_testbed::{OutputWire, Testbed, WireCounters};
use serde::{Deserialize, Serialize};

use super::plant::STAGES;

/// Wires at the beginning of a run.
pub(crate) struct Wires {
    outputs: Vec<OutputWire>,
    before: WireCounters,
    before_outputs: Vec<WireCounters>,
}

/// Packets that found a wire's queue full; `None`: its counters could not be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireLosses {
    /// Before the splitter.
    pub before: Option<u64>,
    /// Between the splitter and the sensor of each stage.
    pub behind: [Option<u64>; STAGES.len()],
}

impl WireLosses {
    /// All of them; `None` where one is unknown.
    pub(crate) fn total(&self) -> Option<u64> {
        self.behind.iter().try_fold(self.before?, |sum, behind| Some(sum + (*behind)?))
    }
}

impl Wires {
    /// Reads them before anything is sent.
    pub(crate) fn read(testbed: &Testbed, outputs: Vec<OutputWire>) -> Result<Self> {
        let before_outputs = outputs.iter().map(|output| output.counters(testbed)).collect::<Result<_>>()?;
        Ok(Self { before: WireCounters::read(testbed)?, before_outputs, outputs })
    }

    /// Reads them again, when all that was sent has passed.
    pub(crate) fn losses(&self, testbed: &Testbed) -> Result<WireLosses> {
        let mut losses = WireLosses {
            before: WireCounters::read(testbed)?.drops_since(&self.before).veth_queue,
            ..WireLosses::default()
        };
        for ((output, before), lost) in self.outputs.iter().zip(&self.before_outputs).zip(&mut losses.behind) {
            *lost = output.counters(testbed)?.drops_since(before).veth_queue;
        }
        Ok(losses)
    }
}
