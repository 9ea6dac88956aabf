//! What belongs to DPDK beside its ports: the library that speaks with it, and the sockets of virtual devices.
//!
//! Owns what a user says of it, where the library is looked for, and which files a virtual device makes. Opening ports is the core's
//! (`ringtap::source::dpdk`).

use std::path::{Path, PathBuf};

use ringtap::source::dpdk::listening_sockets;

/// What is built and installed.
const NAME: &str = "libringtap-dpdk.so";

/// What is said of DPDK beside a port's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DpdkOptions {
    /// File of libringtap-dpdk.so; `None`: the one that was installed or built with this program.
    pub library: Option<PathBuf>,
    /// Arguments of EAL, divided by blanks.
    pub arguments: Option<String>,
}

impl DpdkOptions {
    /// The library to load; `None`: the dynamic linker has to find one.
    pub fn library(&self) -> Option<PathBuf> {
        self.library.clone().or_else(library)
    }

    /// Folders of the sockets that virtual devices listen on: they have to be removed at the end, also once the program has given up its
    /// rights to other files.
    pub fn socket_folders(&self) -> impl Iterator<Item = &Path> {
        listening_sockets(self.arguments.as_deref().unwrap_or_default()).filter_map(Path::parent)
    }
}

/// The library that was installed with this program, or built beside it; `None`: the dynamic linker has to find one.
fn library() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    beside(own.parent()?)
}

fn beside(folder: &Path) -> Option<PathBuf> {
    [folder.join("../lib").join(NAME), folder.join(NAME)].into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_library_comes_before_one_just_built() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        assert_eq!(beside(&bin), None);
        std::fs::write(bin.join(NAME), "").unwrap();
        assert_eq!(beside(&bin), Some(bin.join(NAME)));
        std::fs::create_dir_all(folder.path().join("lib")).unwrap();
        std::fs::write(folder.path().join("lib").join(NAME), "").unwrap();
        assert_eq!(beside(&bin), Some(bin.join("../lib").join(NAME)));
    }

    #[test]
    fn who_listens_on_a_socket_may_remove_it() {
        let arguments = "-l 1 --vdev=net_vhost0,iface=/run/a/s --vdev virtio_user0,path=/run/b";
        let options = DpdkOptions { arguments: Some(arguments.to_owned()), ..DpdkOptions::default() };
        assert_eq!(options.socket_folders().collect::<Vec<_>>(), [Path::new("/run/a")]);
        assert_eq!(DpdkOptions::default().socket_folders().count(), 0);
    }
}
