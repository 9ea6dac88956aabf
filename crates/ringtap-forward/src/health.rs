//! Which outputs are up, and how long a packet may be for each: interfaces by the kernel's announcements, files until they can't be
//! written.
//!
//! Owns the set and the MTUs that engines read, and the thread that keeps them. Does not: touch a ring.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::libc::ENODEV;
use ringtap::interface::Interface;
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
    /// With the MTU, where it is there; `None`: the kernel does not answer.
    fn of(index: u32) -> Option<(Self, Option<u32>)> {
        match netlink::link_by_index(index) {
            Ok(link) if !link.up => Some((Self::Down, Some(link.mtu))),
            Ok(link) if !link.carrier => Some((Self::NoCarrier, Some(link.mtu))),
            Ok(link) => Some((Self::Up, Some(link.mtu))),
            Err(error) => (error.raw_os_error() == Some(ENODEV)).then_some((Self::Gone, None)),
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
    mtu: Arc<AtomicU32>,
}

/// What is known of all outputs.
#[derive(Debug, Clone)]
struct Known {
    up: Arc<AtomicU64>,
    /// Outputs that won't come back.
    lost: Arc<AtomicU64>,
    /// Of each output; of a file 0.
    mtus: Vec<Arc<AtomicU32>>,
    lines: Arc<Mutex<Vec<String>>>,
}

/// The set of outputs that are up, and who keeps it.
#[derive(Debug)]
pub(crate) struct Health {
    known: Known,
    all: u64,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Health {
    /// Looks at the outputs, of which some are interfaces, and goes on doing so.
    ///
    /// # Errors
    /// The kernel refuses to announce, or a thread can't be started.
    pub(crate) fn start(outputs: &[Option<&Interface>], words: &'static Words) -> Result<Self> {
        let events = LinkEvents::open().map_err(|error| Error::os("watch", "the outputs", &error))?;
        let all = (0..outputs.len()).fold(0, |set, number| set | 1 << number);
        let known = Known {
            up: Arc::new(AtomicU64::new(all)),
            lost: Arc::default(),
            mtus: outputs.iter().map(|output| Arc::new(AtomicU32::new(output.map_or(0, |it| it.mtu)))).collect(),
            lines: Arc::default(),
        };
        let mut this = Self { known: known.clone(), all, stop: Arc::new(Stop::new()?), thread: None };
        let interfaces = outputs.iter().enumerate().filter_map(|(number, output)| {
            // Of what is none of the kernel's it announces nothing.
            let Interface { name, index, .. } = output.filter(|output| !output.is_foreign())?;
            let mtu = Arc::clone(&known.mtus[number]);
            Some(Watched { number, name: name.clone(), index: *index, state: State::Up, mtu })
        });
        let mut interfaces: Vec<Watched> = interfaces.collect();
        look(&mut interfaces, &known, words);
        let stop = Arc::clone(&this.stop);
        let watch = move || {
            while !stop.is_pulled() {
                stop.wait_readable(events.as_fd(), Some(LOOK));
                events.drain();
                look(&mut interfaces, &known, words);
            }
        };
        let thread =
            std::thread::Builder::new().name("ringtap-outputs".to_owned()).stack_size(STACK_BYTES).spawn(watch);
        this.thread = Some(thread.map_err(|error| Error::os("start a thread to watch", "the outputs", &error))?);
        Ok(this)
    }

    /// The set, for engines to read.
    pub(crate) fn up(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.known.up)
    }

    /// The MTU of an interface, for engines to read.
    pub(crate) fn mtu(&self, number: usize) -> Arc<AtomicU32> {
        Arc::clone(&self.known.mtus[number])
    }

    pub(crate) fn is_up(&self, number: usize) -> bool {
        self.known.up.load(Ordering::Relaxed) >> number & 1 == 1
    }

    /// An output that is none of the kernel's can't be written any more. `true` the first time.
    pub(crate) fn lose(&self, number: usize) -> bool {
        self.known.up.fetch_and(!(1 << number), Ordering::Relaxed);
        self.known.lost.fetch_or(1 << number, Ordering::Relaxed) >> number & 1 == 0
    }

    /// Whether this one won't come back.
    pub(crate) fn is_lost(&self, number: usize) -> bool {
        self.known.lost.load(Ordering::Relaxed) >> number & 1 == 1
    }

    /// Whether none is left that could come back.
    pub(crate) fn all_lost(&self) -> bool {
        self.known.lost.load(Ordering::Relaxed) == self.all
    }

    /// What changed since it was asked last, one line each.
    pub(crate) fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut *self.known.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.stop.pull();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn look(interfaces: &mut [Watched], known: &Known, words: &Words) {
    let say = |line| known.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    for output in interfaces.iter_mut().filter(|output| output.state != State::Gone) {
        let Some((state, mtu)) = State::of(output.index) else { continue };
        if let Some(mtu) = mtu.filter(|mtu| *mtu != output.mtu.swap(*mtu, Ordering::Relaxed)) {
            say(format!(
                "{}: its MTU is {mtu} now, and longer frames that were to leave by it are lost as too_long",
                output.name
            ));
        }
        if state == output.state {
            continue;
        }
        output.state = state;
        let bit = 1 << output.number;
        match state {
            State::Up => known.up.fetch_or(bit, Ordering::Relaxed),
            _ => known.up.fetch_and(!bit, Ordering::Relaxed),
        };
        if state == State::Gone {
            known.lost.fetch_or(bit, Ordering::Relaxed);
        }
        say(format!("{} {}", output.name, state.words(words)));
    }
}
