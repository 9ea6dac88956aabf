//! One device and the settings of it that Ringtap changes, as text.
//!
//! Owns how each kind of setting is read and written, from any thread and in whatever network namespace that is. Knows no note.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::sys::ethtool::{self, RssHash};
use crate::sys::write_right::WriteRight;

/// What can be changed. A further kind is a variant here and its two lines in [`Device::read`] and [`Device::write`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setting {
    /// `gro_flush_timeout`, nanoseconds (Documentation/networking/napi.rst).
    GroFlushTimeout,
    /// `napi_defer_hard_irqs`, polls.
    NapiDeferHardIrqs,
    /// A feature by the kernel's name, such as `rx-vlan-hw-parse` (which ethtool(8) calls rxvlan); `on` or `off`.
    Feature(String),
    /// How receive-side scaling hashes: number of the function, of the input's transformation, and the key in hexadecimal digits,
    /// with a blank between. The function is not changed.
    RssHash,
    /// Which fields of packets of this kind (a number of linux/ethtool.h) receive-side scaling hashes: RXH_… bits as a number.
    RssFields(u32),
}

impl Setting {
    /// Those by which a card spreads flows over its queues.
    pub(crate) fn of_spreading() -> Vec<Self> {
        let fields = ethtool::FLOW_TYPES.into_iter().map(Self::RssFields);
        std::iter::once(Self::RssHash).chain(fields).collect()
    }
}

/// Files of /sys by their place in [`Device::files`] and in the kept right.
const FILES: [&str; 2] = ["gro_flush_timeout", "napi_defer_hard_irqs"];

/// A device of one network namespace, found again by its index whatever its name is.
#[derive(Debug)]
pub(crate) struct Device {
    ifindex: u32,
    /// Belongs to the namespace, for all questions.
    socket: OwnedFd,
    namespace: String,
    /// Kept open, as the root directory may change.
    files: [Option<File>; 2],
    right: Option<WriteRight>,
}

impl Device {
    /// A device of the calling thread's network namespace, which may not exist (any more).
    pub(super) fn of(ifindex: u32) -> io::Result<Self> {
        let socket = ethtool::socket()?;
        let namespace = ethtool::namespace_of(socket.as_fd())?;
        Ok(Self { ifindex, socket, namespace, files: [None, None], right: None })
    }

    /// What tells the calling thread's network namespace from all others of this boot.
    pub(super) fn namespace() -> io::Result<String> {
        ethtool::namespace_of(ethtool::socket()?.as_fd())
    }

    /// What the note of this device is called.
    pub(super) fn note_name(&self) -> String {
        format!("{}-{}", self.namespace, self.ifindex)
    }

    /// Its name at the moment; empty for one that is gone.
    pub(super) fn name(&self) -> String {
        ethtool::name_of(self.socket.as_fd(), self.ifindex).unwrap_or_default()
    }

    /// Has a right to write kept that outlives privileges.
    pub(super) fn keep_right(&mut self, setting: &Setting) -> io::Result<()> {
        if file_of(setting).is_none() {
            return Err(io::Error::other("it could not be put back once this program gave up its privileges"));
        }
        if self.right.is_none() {
            for number in 0..FILES.len() {
                self.open(number)?;
            }
            let files: Vec<_> = self.files.iter().flatten().map(File::as_fd).collect();
            let right = WriteRight::new(&files).map_err(|error| {
                io::Error::other(format!("io_uring, to put it back without privileges, is not to be had: {error}"))
            });
            self.right = Some(right?);
        }
        Ok(())
    }

    /// # Errors
    /// ENODEV when the device is gone, EOPNOTSUPP when it has no such setting.
    pub(super) fn read(&mut self, setting: &Setting) -> io::Result<String> {
        match (setting, file_of(setting)) {
            (Setting::Feature(feature), _) => {
                let name = ethtool::name_of(self.socket.as_fd(), self.ifindex)?;
                Ok(if ethtool::feature(self.socket.as_fd(), &name, feature)? { "on" } else { "off" }.to_owned())
            }
            (Setting::RssHash, _) => {
                let name = ethtool::name_of(self.socket.as_fd(), self.ifindex)?;
                let hash = ethtool::rss_hash(self.socket.as_fd(), &name)?;
                Ok(format!("{} {} {}", hash.function, hash.transform, HEXLOWER.encode(&hash.key)))
            }
            (Setting::RssFields(flow_type), _) => {
                let name = ethtool::name_of(self.socket.as_fd(), self.ifindex)?;
                Ok(ethtool::rss_fields(self.socket.as_fd(), &name, *flow_type)?.to_string())
            }
            (_, number) => {
                let file = self.open(number.unwrap_or_default())?;
                let mut text = String::new();
                file.rewind()?;
                file.read_to_string(&mut text)?;
                Ok(text.trim().to_owned())
            }
        }
    }

    /// # Errors
    /// As for reading; EPERM or EACCES without CAP_NET_ADMIN, EOPNOTSUPP when the device does not let it be changed.
    pub(super) fn write(&mut self, setting: &Setting, value: &str) -> io::Result<()> {
        match (setting, file_of(setting)) {
            (Setting::Feature(feature), _) => {
                let name = ethtool::name_of(self.socket.as_fd(), self.ifindex)?;
                ethtool::set_feature(self.socket.as_fd(), &name, feature, value == "on")
            }
            (Setting::RssHash, _) => {
                let name = ethtool::name_of(self.socket.as_fd(), self.ifindex)?;
                let hash = rss_hash(value).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
                ethtool::set_rss_hash(self.socket.as_fd(), &name, &hash)
            }
            (Setting::RssFields(flow_type), _) => {
                let name = ethtool::name_of(self.socket.as_fd(), self.ifindex)?;
                let fields = value.parse().map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
                ethtool::set_rss_fields(self.socket.as_fd(), &name, *flow_type, fields)
            }
            (_, number) => {
                let number = number.unwrap_or_default();
                let file = self.open(number)?;
                let written = file.rewind().and_then(|()| file.write_all(value.as_bytes()));
                match &mut self.right {
                    Some(right) if written.is_err() => right.write(number as u32, value),
                    _ => written,
                }
            }
        }
    }

    fn open(&mut self, number: usize) -> io::Result<&mut File> {
        if self.files[number].is_none() {
            let path = self.folder()?.join(FILES[number]);
            let opened = OpenOptions::new().read(true).write(true).open(&path);
            // Notes are settled without the right to write, too: then nothing needs to be, or writing says so.
            let opened = opened.or_else(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => File::open(&path),
                _ => Err(error),
            });
            self.files[number] = Some(opened?);
        }
        self.files[number].as_mut().ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// The device's folder in /sys, which shows the network namespace it was mounted in. Another one may have a device of this
    /// name and index, too: `eth0` of a container, whose namespace was entered without its mounts (nsenter(1)).
    fn folder(&self) -> io::Result<PathBuf> {
        let name = ethtool::name_of(self.socket.as_fd(), self.ifindex)?;
        let folder = PathBuf::from(format!("/sys/class/net/{name}"));
        let shown = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_owned();
        let address = ethtool::address_of(self.socket.as_fd(), &name)?.map(|byte| format!("{byte:02x}"));
        let has_address = shown("address").split(':').zip(&address).all(|(shown, byte)| shown == byte);
        if shown("ifindex").parse() == Ok(self.ifindex) && has_address {
            Ok(folder)
        } else {
            Err(io::Error::other("/sys is that of another network namespace"))
        }
    }
}

fn file_of(setting: &Setting) -> Option<usize> {
    match setting {
        Setting::GroFlushTimeout => Some(0),
        Setting::NapiDeferHardIrqs => Some(1),
        Setting::Feature(_) | Setting::RssHash | Setting::RssFields(_) => None,
    }
}

/// What [`Device::read`] wrote.
fn rss_hash(text: &str) -> Option<RssHash> {
    let mut words = text.split(' ');
    let (function, transform, digits) = (words.next()?, words.next()?, words.next()?);
    let key = HEXLOWER.decode(digits.as_bytes()).ok()?;
    Some(RssHash { function: function.parse().ok()?, transform: transform.parse().ok()?, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = rss_hash("1 0 6d5a00ff").unwrap();
        assert_eq!(hash, RssHash { function: 1, transform: 0, key: vec![0x6d, 0x5a, 0, 0xff] });
        assert_eq!(rss_hash("4 2 ").unwrap().key, Vec::<u8>::new());
        for bad in ["", "1 0", "1 0 6x", "300 0 6d"] {
            assert_eq!(rss_hash(bad), None, "{bad}");
        }
    }
}
