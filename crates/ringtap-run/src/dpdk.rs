//! What belongs to DPDK beside its ports: the library that speaks with it, and the sockets of virtual devices.
//!
//! Owns where the library is looked for, and which files a virtual device makes. Opening ports is the core's (`ringtap::source::dpdk`).

use std::path::{Path, PathBuf};

/// What is built and installed.
const NAME: &str = "libringtap-dpdk.so";

/// The library that was installed with this program, or built beside it; `None`: the dynamic linker has to find one.
pub fn library() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    beside(own.parent()?)
}

fn beside(folder: &Path) -> Option<PathBuf> {
    [folder.join("../lib").join(NAME), folder.join(NAME)].into_iter().find(|path| path.is_file())
}

/// Folders of the sockets that EAL's arguments name for virtual devices: who listens on one has to remove it at the end, also once
/// the program has given up its rights to other files.
pub fn socket_folders(arguments: &str) -> impl Iterator<Item = &Path> {
    let values = arguments.split_whitespace().flat_map(|word| word.split(','));
    let paths = values.filter_map(|value| value.strip_prefix("iface=").or_else(|| value.strip_prefix("path=")));
    paths.map(Path::new).filter(|path| path.is_absolute()).filter_map(Path::parent)
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
    fn sockets_of_both_ends_are_found() {
        let arguments = "-l 1 --vdev=net_vhost0,iface=/run/a/s --vdev virtio_user0,path=/run/b,server=1 \
                         --vdev=net_af_packet0,iface=eth1";
        assert_eq!(socket_folders(arguments).collect::<Vec<_>>(), [Path::new("/run/a"), Path::new("/run")]);
    }
}
