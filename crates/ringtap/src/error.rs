//! The one set-up error: which operation, on which object, why, and the way out.
//!
//! Owns the shape of every message a user sees when something can't be set up. It knows nothing of the data path, where
//! there are counters and no errors.

use std::fmt;
use std::io;

/// Whether the user called us wrongly or the system said no; the command line turns this into its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself makes no sense (exit code 2).
    Usage,
    /// The request was sound, the system or the input refused it (exit code 1).
    Failed,
}

/// A set-up error: `operation` on `object`: `cause`; `way out`.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    operation: String,
    object: String,
    cause: String,
    way_out: Option<String>,
    errno: Option<i32>,
}

/// Result of a set-up step.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The system or the input refused `operation` on `object`.
    pub fn failed(operation: impl Into<String>, object: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self {
            kind: ErrorKind::Failed,
            operation: operation.into(),
            object: object.into(),
            cause: cause.to_string(),
            way_out: None,
            errno: None,
        }
    }

    /// As [`Error::failed`], from a system call's error, with its symbolic name in the cause. Where the number alone tells what can be
    /// done, that is the way out until another one is given.
    pub fn os(operation: impl Into<String>, object: impl Into<String>, error: &io::Error) -> Self {
        let mut this = Self::failed(operation, object, "");
        this.errno = error.raw_os_error();
        this.way_out = this.errno.and_then(usual_way_out).map(str::to_owned);
        this.cause = match this.errno {
            Some(code) => format!("{} ({})", errno_name(code), strip_code(&error.to_string())),
            None => error.to_string(),
        };
        this
    }

    /// The request itself is wrong.
    pub fn usage(operation: impl Into<String>, object: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self { kind: ErrorKind::Usage, ..Self::failed(operation, object, cause) }
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn way_out(mut self, way_out: impl Into<String>) -> Self {
        self.way_out = Some(way_out.into());
        self
    }

    /// Says which error of a system call is behind it, where the words are another library's.
    #[must_use]
    pub fn with_errno(mut self, errno: Option<i32>) -> Self {
        self.errno = errno;
        self
    }

    /// Usage or failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The system's error number, if a system call failed.
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.object.is_empty() {
            write!(f, "{}: {}", self.operation, self.cause)?;
        } else {
            write!(f, "{} {}: {}", self.operation, self.object, self.cause)?;
        }
        match &self.way_out {
            Some(way_out) => write!(f, "; {way_out}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// What helps whatever was tried.
fn usual_way_out(code: i32) -> Option<&'static str> {
    Some(match code {
        libc::ENOENT => "name one that exists",
        libc::EACCES => "run as a user who may, or change its mode",
        libc::EPERM => "run as root or with the capability",
        libc::EISDIR => "it is a folder: name a file",
        libc::ENOTDIR => "a part of the path is a file: name a folder",
        libc::EROFS => "choose a place that can be written to",
        libc::ENOSPC | libc::EDQUOT => "free some space, or choose another place",
        libc::EMFILE => "raise the limit of open files: ulimit -n",
        libc::ENFILE => "raise the limit of open files: sysctl fs.file-max",
        libc::ENOMEM => "free some memory",
        libc::EADDRINUSE => "another program has it: end that, or choose another",
        libc::EADDRNOTAVAIL => "give an address of this host, or 0.0.0.0 or [::] for all",
        libc::ENETDOWN => "bring the interface up: ip link set dev IF up",
        _ => return None,
    })
}

/// `std` appends "(os error N)"; the symbolic name says it better.
fn strip_code(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or(text)
}

/// The symbolic name of the error numbers that set-up calls return; the number for others.
fn errno_name(code: i32) -> String {
    let name = match code {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::E2BIG => "E2BIG",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::ENODEV => "ENODEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENFILE => "ENFILE",
        libc::EFBIG => "EFBIG",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::EPIPE => "EPIPE",
        libc::ERANGE => "ERANGE",
        libc::ENOSYS => "ENOSYS",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENOBUFS => "ENOBUFS",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::ECONNRESET => "ECONNRESET",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EDQUOT => "EDQUOT",
        libc::ELOOP => "ELOOP",
        libc::ENAMETOOLONG => "ENAMETOOLONG",
        _ => return format!("errno {code}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_operation_object_cause_and_way_out() {
        let error = Error::os("bind AF_XDP socket on", "eth0 queue 3", &io::Error::from_raw_os_error(libc::EBUSY))
            .way_out("stop the program that owns the queue");
        assert_eq!(
            error.to_string(),
            "bind AF_XDP socket on eth0 queue 3: EBUSY (Device or resource busy); stop the program that owns the queue"
        );
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert_eq!(error.errno(), Some(libc::EBUSY));
    }

    #[test]
    fn what_helps_whatever_was_tried_is_said_once_and_gives_way() {
        let error = |code| Error::os("read rules", "x", &io::Error::from_raw_os_error(code));
        assert_eq!(
            error(libc::ENOENT).to_string(),
            "read rules x: ENOENT (No such file or directory); name one that exists"
        );
        assert!(error(libc::EADDRNOTAVAIL).to_string().contains(": EADDRNOTAVAIL (Cannot assign requested address); "));
        let told = error(libc::ENOENT).way_out("name a file of rules").to_string();
        assert!(told.ends_with("directory); name a file of rules"), "{told}");
    }

    #[test]
    fn unknown_error_numbers_keep_their_number() {
        let error = Error::os("read", "x", &io::Error::from_raw_os_error(133));
        assert!(error.to_string().contains("errno 133"), "{error}");
    }
}
