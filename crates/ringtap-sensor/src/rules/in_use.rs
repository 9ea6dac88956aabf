//! Owns: the rules in use as the main thread knows them: their program, names of bits, texts, numbers.
//! Does not: hand them to engines; an [`Exchange`](crate::programs::Exchange) does.

use std::path::PathBuf;
use std::sync::Arc;

use ringtap_detect::rules::BitNames;
use ringtap_detect::{Precedence, Program};

use super::{Loaded, Used};
use crate::catalogue::Catalogue;

/// The rules in use.
pub(crate) struct RulesInUse {
    pub(crate) program: Arc<Program>,
    /// Which packets go first.
    pub(crate) precedence: Option<Arc<Precedence>>,
    /// Bits by name: those that flows hold must mean the same after a reload.
    pub(crate) bits: BitNames,
    pub(crate) used: Used,
    /// Files of datasets that they named at the start.
    pub(crate) lists: Vec<PathBuf>,
    /// Texts of these rules and of those before them.
    pub(crate) catalogue: Catalogue,
    /// Times they were replaced.
    pub(crate) reloads: u64,
}

impl RulesInUse {
    /// The first ones.
    pub(crate) fn new(loaded: Loaded) -> Self {
        let used = Used::of(&loaded);
        let Loaded { program, classes, bits, precedence, lists, .. } = loaded;
        let mut catalogue = Catalogue::default();
        catalogue.add(program.rules(), &classes);
        Self { program: Arc::new(program), precedence, bits, used, lists, catalogue, reloads: 0 }
    }

    /// Others take their place.
    pub(crate) fn replace(&mut self, loaded: Loaded) {
        self.used = Used::of(&loaded);
        let Loaded { program, classes, bits, precedence, .. } = loaded;
        self.catalogue.add(program.rules(), &classes);
        (self.program, self.bits, self.precedence) = (Arc::new(program), bits, precedence);
        self.reloads += 1;
    }
}
