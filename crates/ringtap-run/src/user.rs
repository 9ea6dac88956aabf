//! Going on as another user once all is set up (as tcpdump's -Z does).
//!
//! Owns the two steps: files are created with the user's rights, so that rotation goes on working, and then the whole
//! process becomes that user. In between the engines still need to become real-time threads.

use std::ffi::CString;

use nix::unistd::{self, Gid, Uid, User};
use ringtap::sched;
use ringtap::{Error, Result};

/// A user to become.
#[derive(Debug, Clone)]
pub struct Successor {
    name: String,
    uid: Uid,
    gid: Gid,
}

impl Successor {
    /// Looks the user up.
    pub fn find(name: &str) -> Result<Self> {
        let object = format!("user {name:?}");
        let user =
            User::from_name(name).map_err(|errno| Error::os("look up", &object, &errno.into()))?.ok_or_else(|| {
                Error::usage("become", &object, "there is no such user").way_out("name one of /etc/passwd")
            })?;
        if !unistd::geteuid().is_root() {
            return Err(
                Error::failed("become", object, "only root can become another user").way_out("leave --user out")
            );
        }
        Ok(Self { name: name.to_owned(), uid: user.uid, gid: user.gid })
    }

    /// Runs `work` with this user's rights on files. Threads that it starts keep them.
    pub fn with_file_rights<T>(&self, work: impl FnOnce() -> T) -> T {
        // setfsuid(2) is of the calling thread alone, and tells no failure; root may do it.
        let (uid, gid) = (unistd::setfsuid(self.uid), unistd::setfsgid(self.gid));
        let result = work();
        unistd::setfsgid(gid);
        unistd::setfsuid(uid);
        result
    }

    /// User and group.
    pub fn ids(&self) -> (u32, u32) {
        (self.uid.as_raw(), self.gid.as_raw())
    }

    /// Becomes the user for good, with all threads.
    pub fn take_over(&self) -> Result<()> {
        // Locking more memory will be beyond the user's limit. Without rights to lock any, nothing was locked.
        let _ = sched::lock_present_memory();
        let name = CString::new(self.name.as_str()).unwrap_or_default();
        unistd::initgroups(&name, self.gid)
            .and_then(|()| unistd::setgid(self.gid))
            .and_then(|()| unistd::setuid(self.uid))
            .map_err(|errno| Error::os("become", format!("user {:?}", self.name), &errno.into()))
    }
}
