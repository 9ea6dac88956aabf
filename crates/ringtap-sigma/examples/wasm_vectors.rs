//! The vectors as a module for wasm: rules and a file of vectors go in, the lines that it should have come out.
//! `tests/wasm.rs` runs it and says how it is called; `scripts/wasm` builds it.
//!
//! On other targets it is an empty library, as cargo builds all examples.
#![allow(unsafe_code)] // Names that a host calls can't be had without.

#[path = "../tests/support/mod.rs"]
mod support;

/// Memory of this many bytes for the host to write a text into, which [`vectors`] takes back.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(len: usize) -> *mut u8 {
    Box::into_raw(vec![0u8; len].into_boxed_slice()).cast()
}

/// The lines for these rules and vectors, each a text in memory of [`reserve`]. Returns a pair of pointer and length in
/// memory, which stays until the module is dropped.
///
/// # Safety
/// Both are what `reserve` returned, with the length that it was given, and given once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vectors(
    rules: *mut u8,
    rules_len: usize,
    file: *mut u8,
    file_len: usize,
) -> *const [usize; 2] {
    // SAFETY: the caller's promise.
    let text = |at, len| unsafe { String::from_utf8(Vec::from_raw_parts(at, len, len)) };
    let (rules, file) = (text(rules, rules_len), text(file, file_len));
    let lines = support::vectors::written(&rules.expect("UTF-8"), &file.expect("UTF-8"));
    let lines = Box::leak(lines.join("\n").into_boxed_str());
    Box::leak(Box::new([lines.as_ptr() as usize, lines.len()]))
}
