//! A program within another one's process: it leaves signals, privileges and the sandbox to that one.

use std::sync::atomic::AtomicBool;

use ringtap::Result;

use crate::sandbox::Needs;

/// A program that is set up, and then runs on a thread that its host gives it.
pub trait Beside: Send {
    /// What it still reads and writes once all is set up.
    fn needs(&self) -> Needs<'_>;

    /// Runs until its host has no more to say to it; reads its own files again when `reload` becomes true, and makes it false.
    ///
    /// # Errors
    /// What it keeps could not be written to the end.
    fn run(self: Box<Self>, reload: &AtomicBool) -> Result<()>;
}
