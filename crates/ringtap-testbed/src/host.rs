//! One host of the testbed: runs closures, threads and programs inside its namespaces.
//!
//! Owns the threads that are inside and the programs started from there. Does not own devices and addresses (`testbed`).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

use crate::namespace::Namespace;

/// Addresses of a host and of its one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Interface name, unique on this machine so that the NAPI threads of parallel testbeds can be told apart.
    pub interface: String,
    /// Interface index inside the host.
    pub index: u32,
    /// MAC address.
    pub mac: [u8; 6],
    /// IPv4 address (/24).
    pub ipv4: Ipv4Addr,
    /// IPv6 address (/64); configured only where the kernel has IPv6.
    pub ipv6: Ipv6Addr,
}

/// A host: a network namespace, a mount namespace and one interface.
pub struct Host {
    namespace: Arc<Namespace>,
    link: Link,
    starter: Starter,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("link", &self.link).finish_non_exhaustive()
    }
}

impl Host {
    pub(crate) fn new(namespace: Arc<Namespace>, link: Link) -> Result<Self> {
        let starter = Starter::new(namespace.clone())?;
        Ok(Self { namespace, link, starter })
    }

    /// Addresses and interface.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Name of the interface.
    pub fn interface(&self) -> &str {
        &self.link.interface
    }

    /// Runs `work` on a fresh thread inside this host and waits for it. Programs and threads started by `work` are inside
    /// too. A panic in `work` goes on in the caller.
    ///
    /// # Errors
    /// The namespace can't be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        run_inside(&self.namespace, work)
    }

    /// Starts `work` on a thread named `name` inside this host.
    ///
    /// # Errors
    /// The thread can't be started or the namespace can't be entered.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        let namespace = self.namespace.clone();
        let (entered, result) = mpsc::sync_channel(1);
        let (go, proceed) = mpsc::sync_channel::<()>(1);
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // The caller learns of a failure before `work` could run outside; then nobody says "proceed".
                let _ = entered.send(namespace.enter());
                match proceed.recv() {
                    Ok(()) => work(),
                    // Nobody holds the handle of this thread, and the caller has the error.
                    Err(mpsc::RecvError) => std::panic::resume_unwind(Box::new("outside")),
                }
            })
            .map_err(|error| Error::os("start thread", name, &error))?;
        result.recv().map_err(|_| Error::failed("enter namespace on thread", name, "it ended early"))??;
        let _ = go.send(());
        Ok(handle)
    }

    /// A command for `program` that the kernel ends with this process, even by SIGKILL (setpriv(1) from util-linux; from the
    /// moment the program itself runs); start it by [`Host::start`].
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", program]);
        command
    }

    /// Starts `command` inside this host; it is ended when the returned value is dropped.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn start(&self, command: Command) -> Result<RunningProgram> {
        let name = format!("{command:?}");
        let child = self.starter.start(command)?;
        Ok(RunningProgram { child, name })
    }
}

pub(crate) fn run_inside<T: Send>(namespace: &Namespace, work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let inside = scope.spawn(|| namespace.enter().map(|()| work()));
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A program running inside a host. Dropping it kills the program and waits for its end.
#[derive(Debug)]
pub struct RunningProgram {
    child: Child,
    name: String,
}

impl RunningProgram {
    /// The process, for its streams and its id.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// CPU time of all its threads that live, on whatever core: the first field of each one's `schedstat`
    /// (Documentation/scheduler/sched-stats.rst). `None` where the kernel tells none.
    pub fn cpu_time(&self) -> Option<Duration> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let ran_ns = |thread: std::fs::DirEntry| {
            let told = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            told.split_whitespace().next()?.parse::<u64>().ok()
        };
        let all: Vec<u64> = threads.filter_map(|thread| ran_ns(thread.ok()?)).collect();
        (!all.is_empty()).then(|| Duration::from_nanos(all.iter().sum()))
    }

    /// Asks the program to end (SIGINT, as by Ctrl-C) and waits for it, 30 s at most; then it is killed.
    ///
    /// # Errors
    /// It has ended before, can't be waited for or does not end.
    pub fn interrupt(mut self) -> Result<ExitStatus> {
        const LIMIT: Duration = Duration::from_secs(30);
        let failed = |error: std::io::Error| Error::os("interrupt", self.name.clone(), &error);
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).map_err(|errno| failed(errno.into()))?;
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                return Ok(status);
            }
            if Instant::now() > until {
                return Err(Error::failed("interrupt", self.name.clone(), format!("it does not end within {LIMIT:?}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Both fail only when the program is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Request = (Command, mpsc::SyncSender<std::io::Result<Child>>);

/// The thread from which programs are started: the kernel's "parent death signal" fires when the *thread* that made the
/// child ends (prctl(2)), so it has to live as long as the host.
struct Starter {
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    fn new(namespace: Arc<Namespace>) -> Result<Self> {
        let (requests, inbox) = mpsc::channel::<Request>();
        let (entered, result) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name("testbed-start".into())
            .spawn(move || {
                let inside = namespace.enter();
                let failed = inside.is_err();
                let _ = entered.send(inside);
                if failed {
                    return;
                }
                while let Ok((mut command, reply)) = inbox.recv() {
                    let _ = reply.send(command.spawn());
                }
            })
            .map_err(|error| Error::os("start thread of", "the testbed", &error))?;
        result.recv().map_err(|_| Error::failed("enter namespace of", "the testbed", "helper thread panicked"))??;
        Ok(Self { requests: Mutex::new(Some(requests)), thread: Some(thread) })
    }

    fn start(&self, command: Command) -> Result<Child> {
        let name = format!("{command:?}");
        let (reply, answer) = mpsc::sync_channel(1);
        let gone = || Error::failed("start", name.clone(), "the testbed is closing");
        {
            let requests = self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            requests.as_ref().ok_or_else(gone)?.send((command, reply)).map_err(|_| gone())?;
        }
        answer.recv().map_err(|_| gone())?.map_err(|error| {
            Error::os("start", name.clone(), &error).way_out("check that it and setpriv (util-linux) are installed")
        })
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        *self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
