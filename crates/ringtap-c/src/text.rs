//! Words: of codes, of causes of loss, and of what went wrong last.
//!
//! Owns texts in C's form and how long they stay: those of codes and causes for good, an error's until its thread asks again.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::LazyLock;

use libc::c_int;
use ringtap::Cause;

use crate::abi::{
    RINGTAP_BROKEN, RINGTAP_END, RINGTAP_ERROR_ARGUMENT, RINGTAP_ERROR_BUSY, RINGTAP_ERROR_FAILED, RINGTAP_ERROR_GONE,
    RINGTAP_ERROR_INTERNAL, RINGTAP_ERROR_PERMISSION, RINGTAP_OK,
};

/// A call that did not do what was asked.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub code: c_int,
    pub text: String,
}

impl Refusal {
    /// With words of its own.
    pub fn new(code: c_int, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// With the code's words.
    pub fn of(code: c_int) -> Self {
        Self::new(code, of_code(code).to_string_lossy())
    }

    /// What was given makes no sense.
    pub fn argument(text: impl Into<String>) -> Self {
        Self::new(RINGTAP_ERROR_ARGUMENT, text)
    }
}

impl From<ringtap::Error> for Refusal {
    fn from(error: ringtap::Error) -> Self {
        let kind = error.errno().map(|errno| io::Error::from_raw_os_error(errno).kind());
        let code = match (error.kind(), kind) {
            (ringtap::error::ErrorKind::Usage, _) => RINGTAP_ERROR_ARGUMENT,
            (_, Some(io::ErrorKind::PermissionDenied)) => RINGTAP_ERROR_PERMISSION,
            _ => RINGTAP_ERROR_FAILED,
        };
        Self::new(code, error.to_string())
    }
}

/// A code in words.
pub fn of_code(code: c_int) -> &'static CStr {
    match code {
        RINGTAP_OK => c"done",
        RINGTAP_ERROR_ARGUMENT => c"an argument makes no sense",
        RINGTAP_ERROR_FAILED => c"the system refused",
        RINGTAP_ERROR_PERMISSION => c"a privilege is missing",
        RINGTAP_ERROR_GONE => c"no packets can come from the interface any more",
        RINGTAP_ERROR_BUSY => c"another call with this handle is under way",
        RINGTAP_ERROR_INTERNAL => c"a fault of the library; the handle can only be closed",
        RINGTAP_BROKEN => c"ringtap_break was called",
        RINGTAP_END => c"the capture was stopped, and all that had come was given",
        1.. => c"a number of packets",
        _ => c"no code of this library",
    }
}

/// The causes of loss with their names, in the order of a packet's way.
pub fn causes() -> &'static [(Cause, CString)] {
    static CAUSES: LazyLock<Vec<(Cause, CString)>> =
        LazyLock::new(|| Cause::ALL.map(|cause| (cause, without_nul(cause.name()))).into());
    &CAUSES
}

/// As C has it; nothing of ours has a NUL inside, and what a client gave ends before its first.
pub fn without_nul(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

thread_local! {
    /// Why this thread could not open a capture.
    static UNOPENED: RefCell<String> = const { RefCell::new(String::new()) };
    /// What this thread was given to read last.
    static READ: RefCell<CString> = RefCell::default();
}

/// Keeps the words of a call that had no handle.
pub fn keep_unopened(text: &str) {
    // A thread that ends may have it no more.
    let _ = UNOPENED.try_with(|kept| kept.try_borrow_mut().map(|mut kept| text.clone_into(&mut kept)));
}

/// The words that [`keep_unopened`] kept on this thread.
pub fn unopened() -> String {
    UNOPENED.with_borrow(Clone::clone)
}

/// Gives this thread a text that stays until it is given the next one.
pub fn to_read(text: &str) -> *const libc::c_char {
    READ.with_borrow_mut(|kept| {
        *kept = without_nul(text);
        kept.as_ptr()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_and_cause_has_words_of_its_own() {
        let words: std::collections::BTreeSet<_> = (-9..=1).map(of_code).collect();
        assert_eq!(words.len(), 11);
        assert!(causes().iter().all(|(cause, name)| name.to_str() == Ok(cause.name())));
    }

    #[test]
    fn codes_follow_from_what_the_core_says() {
        let os = |errno| ringtap::Error::os("open", "x", &io::Error::from_raw_os_error(errno));
        assert_eq!(Refusal::from(os(libc::EPERM)).code, RINGTAP_ERROR_PERMISSION);
        assert_eq!(Refusal::from(os(libc::EACCES)).code, RINGTAP_ERROR_PERMISSION);
        assert_eq!(Refusal::from(os(libc::EBUSY)).code, RINGTAP_ERROR_FAILED);
        assert_eq!(Refusal::from(ringtap::Error::usage("open", "x", "no")).code, RINGTAP_ERROR_ARGUMENT);
    }

    #[test]
    fn a_text_stays_until_the_thread_reads_the_next() {
        keep_unopened("one\0two");
        assert_eq!(unopened(), "one\0two");
        let text = to_read(&unopened());
        // SAFETY: ends with a NUL, and this thread has read nothing since.
        assert_eq!(unsafe { CStr::from_ptr(text) }, c"onetwo");
    }
}
