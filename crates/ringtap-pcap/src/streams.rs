//! stdin, stdout and stderr for the libpcap inside.
//!
//! The static library is built for programs: it reaches these variables of the C library directly, which a shared library
//! can't offer. build.rs gives it three variables under other names; they are set here when the library is loaded.

use std::arch::global_asm;

use libc::FILE;

// Hidden, so that they are not among the exported names.
global_asm!(
    ".pushsection .bss.ringtap_real_streams,\"aw\",@nobits",
    ".balign 8",
    ".globl ringtap_real_stdin",
    ".hidden ringtap_real_stdin",
    "ringtap_real_stdin: .zero 8",
    ".globl ringtap_real_stdout",
    ".hidden ringtap_real_stdout",
    "ringtap_real_stdout: .zero 8",
    ".globl ringtap_real_stderr",
    ".hidden ringtap_real_stderr",
    "ringtap_real_stderr: .zero 8",
    ".popsection",
);

unsafe extern "C" {
    static mut ringtap_real_stdin: *mut FILE;
    static mut ringtap_real_stdout: *mut FILE;
    static mut ringtap_real_stderr: *mut FILE;
    static stdin: *mut FILE;
    static stdout: *mut FILE;
    static stderr: *mut FILE;
}

/// Runs when the library is loaded, before any of its functions can be called.
#[used]
#[unsafe(link_section = ".init_array")]
static SET: extern "C" fn() = {
    extern "C" fn set() {
        // SAFETY: the C library's streams are set when it is loaded, before us; nobody reads ours yet.
        unsafe {
            ringtap_real_stdin = stdin;
            ringtap_real_stdout = stdout;
            ringtap_real_stderr = stderr;
        }
    }
    set
};
