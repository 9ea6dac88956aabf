//! Where Ringtap's libpcap is, so that programs of libpcap's find it in place of the system's.
//!
//! Owns the places it is looked for and the names it has there. The library itself is the crate ringtap-pcap.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringtap::{Error, Result};

/// The variable of the dynamic linker.
pub const SEARCH_PATH: &str = "LD_LIBRARY_PATH";
/// Names under which programs look for libpcap: Debian's, and everybody else's.
const NAMES: [&str; 2] = ["libpcap.so.0.8", "libpcap.so.1"];
/// What cargo calls the library.
const BUILT: &str = "libringtap_pcap.so";

/// The value of [`SEARCH_PATH`] by which programs find Ringtap's library first. Beside a library just built it makes links of the names
/// that they look for.
///
/// # Errors
/// The library is not there, or links can't be made.
pub fn search_path() -> Result<OsString> {
    Ok(ours_first(&search_folder(&library()?)?, std::env::var_os(SEARCH_PATH)))
}

/// The library: as told, installed, or just built.
fn library() -> Result<PathBuf> {
    if let Some(told) = std::env::var_os("RINGTAP_PCAP_LIBRARY") {
        let told = PathBuf::from(told);
        return if told.is_file() {
            Ok(told)
        } else {
            Err(Error::failed("find library", told.display().to_string(), "there is no such file")
                .way_out("correct RINGTAP_PCAP_LIBRARY"))
        };
    }
    let own = std::env::current_exe().map_err(|error| Error::os("find", "this command's own file", &error))?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let candidates = [beside.join("../lib/ringtap").join(NAMES[0]), beside.join(BUILT)];
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        Error::failed("find library", "libpcap of Ringtap", format!("it is not at {}", list(&candidates)))
            .way_out("install it: make install-pcap, or build it: cargo build --release -p ringtap-pcap")
    })
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" nor at ")
}

/// A folder in which the library has the names that programs look for: its own, or one of links beside a fresh build.
fn search_folder(library: &Path) -> Result<PathBuf> {
    let failed = |path: &Path, error: &std::io::Error| {
        Error::os("link library into", path.display().to_string(), error).way_out("install it: make install-pcap")
    };
    let library = library.canonicalize().map_err(|error| failed(library, &error))?;
    let own = library.parent().unwrap_or(Path::new("/"));
    if NAMES.iter().all(|name| own.join(name).exists()) {
        return Ok(own.to_owned());
    }
    let folder = own.join("ringtap-pcap-run");
    std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    for name in NAMES {
        let link = folder.join(name);
        if std::fs::canonicalize(&link).is_ok_and(|target| target == library) {
            continue;
        }
        // Made beside and renamed, so that several runs at once find a link that is there.
        let fresh = folder.join(format!("{name}.{}", std::process::id()));
        std::os::unix::fs::symlink(&library, &fresh)
            .and_then(|()| std::fs::rename(&fresh, &link))
            .map_err(|error| failed(&link, &error))?;
    }
    Ok(folder)
}

/// Ours first, then what was searched anyway.
fn ours_first(folder: &Path, before: Option<OsString>) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        path.push(":");
        path.push(before);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_searched_first() {
        assert_eq!(ours_first(Path::new("/a"), None), "/a");
        assert_eq!(ours_first(Path::new("/a"), Some("".into())), "/a");
        assert_eq!(ours_first(Path::new("/a"), Some("/b:/c".into())), "/a:/b:/c");
    }

    #[test]
    fn a_fresh_build_gets_links_by_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join(BUILT);
        std::fs::write(&built, "").unwrap();
        for _ in 0..2 {
            let found = search_folder(&built).unwrap();
            for name in NAMES {
                assert_eq!(found.join(name).canonicalize().unwrap(), built.canonicalize().unwrap());
            }
        }
        let installed = tempfile::tempdir().unwrap();
        for name in NAMES {
            std::fs::write(installed.path().join(name), "").unwrap();
        }
        let found = search_folder(&installed.path().join(NAMES[0])).unwrap();
        assert_eq!(found, installed.path().canonicalize().unwrap());
    }
}
