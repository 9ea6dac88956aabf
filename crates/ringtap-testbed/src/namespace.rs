//! Anonymous namespaces: made on a helper thread, kept alive by descriptors only, entered by fresh threads.
//!
//! Owns the pair of a network namespace and a mount namespace with its own /sys. Nothing has a name in the file system, so
//! the kernel takes everything away with the last descriptor, also when the process is killed. Does not own what is put
//! into the namespace (see `host`, `testbed`).

use std::fs::File;
use std::path::PathBuf;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use ringtap::{Error, Result};

/// A network namespace and a mount namespace in which /sys shows that network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    net: File,
    mount: File,
    /// What to put back as working directory: entering a mount namespace moves the thread to its root.
    directory: PathBuf,
}

impl Namespace {
    /// Makes both namespaces; the calling thread stays where it is.
    ///
    /// # Errors
    /// Not root (CAP_SYS_ADMIN), or the kernel lacks the namespaces.
    pub(crate) fn new() -> Result<Self> {
        let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let maker = thread::Builder::new()
            .name("testbed-ns".into())
            .spawn(move || Self::unshare_here(directory))
            .map_err(|error| Error::os("start helper thread of", "the testbed", &error))?;
        maker.join().map_err(|_| Error::failed("make network namespace of", "the testbed", "helper thread panicked"))?
    }

    fn unshare_here(directory: PathBuf) -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).map_err(|errno| {
            Error::os("make network namespace of", "the testbed", &errno.into())
                .way_out("run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN are needed)")
        })?;
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
            .map_err(|errno| Error::os("make mounts private in", "the testbed", &errno.into()))?;
        // sysfs shows the network namespace of whoever mounts it: /sys/class/net must be ours, not the machine's.
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("sysfs"), "/sys", Some("sysfs"), flags, none)
            .map_err(|errno| Error::os("mount sysfs on", "/sys of the testbed", &errno.into()))?;
        Ok(Self { net: open_own("net")?, mount: open_own("mnt")?, directory })
    }

    /// Moves the calling thread in, for good. Only for threads made for the purpose.
    pub(crate) fn enter(&self) -> Result<()> {
        let enter_failed = |errno: nix::errno::Errno| Error::os("enter namespace of", "the testbed", &errno.into());
        // A thread that shares its working directory with others may not change its mount namespace (setns(2)).
        unshare(CloneFlags::CLONE_FS).map_err(enter_failed)?;
        setns(&self.net, CloneFlags::CLONE_NEWNET).map_err(enter_failed)?;
        setns(&self.mount, CloneFlags::CLONE_NEWNS).map_err(enter_failed)?;
        std::env::set_current_dir(&self.directory)
            .map_err(|error| Error::os("return to directory", self.directory.display().to_string(), &error))
    }

    /// The path by which another process of this machine, such as ip(8), can open the network namespace.
    pub(crate) fn net_path(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.net.as_raw_fd()))
    }
}

fn open_own(kind: &str) -> Result<File> {
    let path = format!("/proc/thread-self/ns/{kind}");
    File::open(&path).map_err(|error| Error::os("open", path, &error))
}
