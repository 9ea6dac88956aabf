//! The process of a program that receives: what it starts with, and what it gives up once all is set up.
//!
//! Owns the order, which is the same in every program: keeper, signals, the user to become; then the program opens what needs
//! privileges, creates files with that user's rights, starts its engines; then privileges go. What is opened is the program's.

use std::sync::Arc;

use ringtap::engine::Handler;
use ringtap::keeper::Keeper;
use ringtap::receiver::{Devices, RunningDevices};
use ringtap::{Error, Result, settings};

use crate::sandbox::{self, Needs};
use crate::signals::{Heard, Signals};
use crate::user::Successor;

/// On what terms a process runs.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// It opens interfaces, whose settings somebody has to put back.
    pub opens_interfaces: bool,
    /// Signals it hears.
    pub heard: Heard,
    /// User to go on as (`--user`).
    pub user: Option<&'a str>,
    /// All privileges stay (`--no-sandbox`); only the user changes.
    pub keeps_privileges: bool,
}

/// A program's process from its first step on. Dropping it, the last thing a program does, has settings of devices put back.
#[derive(Debug)]
pub struct Process {
    signals: Arc<Signals>,
    successor: Option<Successor>,
    keeps_privileges: bool,
    // Dropped last: it puts back what others no longer may.
    keeper: Option<Keeper>,
}

impl Process {
    /// The first thing a program does, before it has a second thread.
    ///
    /// # Errors
    /// The keeper can't be started, signals not be listened to, or there is no such user.
    pub fn begin(terms: &Terms<'_>) -> Result<Self> {
        // A copy of a process with one thread, so first.
        let keeper = if terms.opens_interfaces {
            Keeper::start().map_err(|error| Error::os("start", "the keeper of settings", &error))?
        } else {
            None
        };
        let signals = Signals::listen(terms.heard)?;
        let successor = terms.user.map(Successor::find).transpose()?;
        Ok(Self { signals, successor, keeps_privileges: terms.keeps_privileges, keeper })
    }

    /// What was heard.
    pub fn signals(&self) -> &Arc<Signals> {
        &self.signals
    }

    /// Creates files with the rights of the user to become, so that rotation and reopening go on working. Threads that are started
    /// meanwhile keep these rights.
    pub fn with_file_rights<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.successor {
            Some(successor) => successor.with_file_rights(work),
            None => work(),
        }
    }

    /// Becomes the user and gives up what is not needed, in all threads. What the kernel lacks comes back as one sentence each.
    ///
    /// # Errors
    /// A step is refused.
    pub fn confine(&self, needs: Needs<'_>) -> Result<Vec<String>> {
        if !self.keeps_privileges && self.keeper.is_some() {
            let left = settings::leave_to_keeper();
            left.map_err(|error| Error::os("give up", "the notes of settings", &error).way_out("is /proc mounted?"))?;
        }
        sandbox::enter(self.keeps_privileges, &Needs { user: self.successor.as_ref(), ..needs })
    }

    /// Starts one engine per handler, and confines the process when they have become real-time
    /// threads. Adds to `warnings` what could not be had.
    ///
    /// # Errors
    /// There are not as many handlers as engines, a thread can't be started, or [`Self::confine`] fails.
    pub fn start<H: Handler + Send + 'static>(
        &self,
        devices: Devices,
        handlers: Vec<H>,
        needs: Needs<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<RunningDevices<H>> {
        let running = devices.start(handlers)?;
        warnings.extend(self.confine(needs)?);
        warnings.extend(running.warnings().iter().cloned());
        Ok(running)
    }
}
