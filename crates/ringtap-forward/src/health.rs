//! Which outputs are up: interfaces by the kernel's announcements, files until they can't be written.
//!
//! Owns the set that engines read, and the thread that keeps it. Does not: touch a ring.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::libc::ENODEV;
use ringtap::netlink::{self, LinkEvents};
use ringtap::{Error, Result, Stop};

/// Stack of the thread: all of the process's memory is locked, what nobody uses too.
const STACK_BYTES: usize = 128 << 10;
/// Announcements can be lost.
const LOOK: Duration = Duration::from_millis(250);

/// What an interface is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    Down,
    NoCarrier,
    Gone,
}

impl State {
    /// `None`: the kernel does not answer.
    fn of(index: u32) -> Option<Self> {
        match netlink::link_by_index(index) {
            Ok(link) if !link.up => Some(Self::Down),
            Ok(link) if !link.carrier => Some(Self::NoCarrier),
            Ok(_) => Some(Self::Up),
            Err(error) => (error.raw_os_error() == Some(ENODEV)).then_some(Self::Gone),
        }
    }

    fn words(self, words: &Words) -> &'static str {
        match self {
            Self::Up => words.up,
            Self::Down => words.down,
            Self::NoCarrier => words.no_carrier,
            Self::Gone => words.gone,
        }
    }
}

/// What is said of an output in each state, behind its name.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) no_carrier: &'static str,
    pub(crate) gone: &'static str,
}

/// An output that is an interface.
#[derive(Debug)]
struct Watched {
    number: usize,
    name: String,
    index: u32,
    state: State,
}

/// The set of outputs that are up, and who keeps it.
#[derive(Debug)]
pub(crate) struct Health {
    up: Arc<AtomicU64>,
    /// Outputs that won't come back.
    lost: Arc<AtomicU64>,
    all: u64,
    lines: Arc<Mutex<Vec<String>>>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Health {
    /// Looks at the outputs, of which some are interfaces (by name and index), and goes on doing so.
    ///
    /// # Errors
    /// The kernel refuses to announce, or a thread can't be started.
    pub(crate) fn start(outputs: &[Option<(String, u32)>], words: &'static Words) -> Result<Self> {
        let events = LinkEvents::open().map_err(|error| Error::os("watch", "the outputs", &error))?;
        let all = (0..outputs.len()).fold(0, |set, number| set | 1 << number);
        let mut this = Self {
            up: Arc::new(AtomicU64::new(all)),
            lost: Arc::default(),
            all,
            lines: Arc::default(),
            stop: Arc::new(Stop::new()?),
            thread: None,
        };
        let interfaces = outputs.iter().enumerate().filter_map(|(number, output)| {
            let (name, index) = output.clone()?;
            Some(Watched { number, name, index, state: State::Up })
        });
        let mut interfaces: Vec<Watched> = interfaces.collect();
        look(&mut interfaces, &this.up, &this.lost, &this.lines, words);
        let (up, lost, lines, stop) =
            (Arc::clone(&this.up), Arc::clone(&this.lost), Arc::clone(&this.lines), Arc::clone(&this.stop));
        let watch = move || {
            while !stop.is_pulled() {
                stop.wait_readable(events.as_fd(), Some(LOOK));
                events.drain();
                look(&mut interfaces, &up, &lost, &lines, words);
            }
        };
        let thread =
            std::thread::Builder::new().name("ringtap-outputs".to_owned()).stack_size(STACK_BYTES).spawn(watch);
        this.thread = Some(thread.map_err(|error| Error::os("start a thread to watch", "the outputs", &error))?);
        Ok(this)
    }

    /// The set, for engines to read.
    pub(crate) fn up(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.up)
    }

    pub(crate) fn is_up(&self, number: usize) -> bool {
        self.up.load(Ordering::Relaxed) >> number & 1 == 1
    }

    /// An output that is none of the kernel's can't be written any more. `true` the first time.
    pub(crate) fn lose(&self, number: usize) -> bool {
        self.up.fetch_and(!(1 << number), Ordering::Relaxed);
        self.lost.fetch_or(1 << number, Ordering::Relaxed) >> number & 1 == 0
    }

    /// Whether this one won't come back.
    pub(crate) fn is_lost(&self, number: usize) -> bool {
        self.lost.load(Ordering::Relaxed) >> number & 1 == 1
    }

    /// Whether none is left that could come back.
    pub(crate) fn all_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed) == self.all
    }

    /// What changed since it was asked last, one line each.
    pub(crate) fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.stop.pull();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn look(interfaces: &mut [Watched], up: &AtomicU64, lost: &AtomicU64, lines: &Mutex<Vec<String>>, words: &Words) {
    for output in interfaces.iter_mut().filter(|output| output.state != State::Gone) {
        let Some(state) = State::of(output.index).filter(|state| *state != output.state) else { continue };
        output.state = state;
        let bit = 1 << output.number;
        match state {
            State::Up => up.fetch_or(bit, Ordering::Relaxed),
            _ => up.fetch_and(!bit, Ordering::Relaxed),
        };
        if state == State::Gone {
            lost.fetch_or(bit, Ordering::Relaxed);
        }
        lines.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{} {}", output.name, state.words(words)));
    }
}
