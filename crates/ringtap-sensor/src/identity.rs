//! Owns: who the sensor says it is: its name, the boot of its host, its key, and the file that makes its epochs grow.
//! Does not: say when an epoch begins.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use nix::fcntl::{Flock, FlockArg};
use ringtap::{Error, Result};
use ringtap_datagram::{Clock, Key, Origin, SensorId};
use ringtap_run::secrets::read_private;
use ringtap_run::service_manager::state_folder;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::options::AlarmOptions;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Who the sensor is to a correlator
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct Table {
    /// Its name; --sensor-id goes before it
    pub(crate) sensor_id: Option<String>,
    /// Its key, NUMBER:HEXDIGITS with 32 to 128 digits; --key goes before it
    #[schemars(extend("writeOnly" = true))]
    pub(crate) key: Option<String>,
    /// The file that makes its epochs grow; left out: in the state folder, by its name. --epoch-file goes before it
    pub(crate) epoch_file: Option<PathBuf>,
}

/// Who it is, in all its epochs.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) sensor: SensorId,
    pub(crate) boot_id: [u8; 16],
    pub(crate) clock: Clock,
    /// `None`: nothing leaves this process.
    pub(crate) key: Option<Key>,
}

impl Who {
    /// As messages of this epoch name it.
    pub(crate) fn origin(&self, epoch: u64) -> Origin {
        Origin { sensor: self.sensor, boot_id: self.boot_id, clock: self.clock, epoch }
    }
}

/// Who it is, and its epochs.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) who: Arc<Who>,
    pub(crate) epochs: Epochs,
}

impl Identity {
    /// By options, else by the table; in the first epoch that is greater than those before.
    ///
    /// # Errors
    /// Name or key are missing or wrong; the key can be read by others; the epochs' file can't be used, or another sensor of that name
    /// does.
    pub(crate) fn of(options: &AlarmOptions, table: &Table, clock: Clock, now_ns: u64) -> Result<Self> {
        let missing = |what, way_out| Err(Error::usage("send alarms", "to a correlator", what).way_out(way_out));
        let Some(sensor) = name(options, table)? else {
            return missing("the sensor has no name", "give it one: --sensor-id NAME");
        };
        let key = match (&options.key, &table.key) {
            (Some(path), _) => key(&read_private("key", path)?, &path.display().to_string())?,
            (None, Some(text)) => key(text, "[alarms] key")?,
            (None, None) => {
                return missing("the sensor has no key", "give it one: --key FILE, with NUMBER:HEXDIGITS in it");
            }
        };
        let epochs = match options.epoch_file.as_ref().or(table.epoch_file.as_ref()) {
            Some(path) => Epochs::open(path, now_ns)?,
            None => {
                // One file for each name.
                let folder = state_folder();
                std::fs::create_dir_all(&folder).map_err(|error| {
                    Error::os("make the folder of epochs", folder.display().to_string(), &error)
                        .way_out("name a file elsewhere: --epoch-file FILE")
                })?;
                Epochs::open(&folder.join(format!("{sensor}.epoch")), now_ns)?
            }
        };
        Ok(Self { who: Arc::new(Who { sensor, boot_id: boot_id()?, clock, key: Some(key) }), epochs })
    }

    /// To a correlator in the same process alone, which keeps what it is told in `store`: nobody has to believe it.
    ///
    /// # Errors
    /// The epochs' file can't be used.
    pub(crate) fn within(
        sensor: SensorId,
        options: &AlarmOptions,
        table: &Table,
        store: Option<&Path>,
        now_ns: u64,
    ) -> Result<Self> {
        let named = options.epoch_file.as_ref().or(table.epoch_file.as_ref()).cloned();
        let epochs = match named.or(store.map(|store| store.join(format!("{sensor}.epoch")))) {
            Some(path) => Epochs::open(&path, now_ns)?,
            None => Epochs { file: None, last: now_ns },
        };
        Ok(Self { who: Arc::new(Who { sensor, boot_id: boot_id()?, clock: Clock::Host, key: None }), epochs })
    }
}

/// The sensor's name: by options, else by the table.
///
/// # Errors
/// It is none.
pub(crate) fn name(options: &AlarmOptions, table: &Table) -> Result<Option<SensorId>> {
    let named = table.sensor_id.as_ref().map(|name| {
        name.parse().map_err(|error| Error::usage("use", format!("{name:?} in [alarms] as sensor-id"), error))
    });
    options.sensor_id.map(Ok).or(named).transpose()
}

fn boot_id() -> Result<[u8; 16]> {
    let text = std::fs::read_to_string(BOOT_ID).map_err(|error| Error::os("read", BOOT_ID, &error))?;
    let digits: String = text.trim().chars().filter(|letter| *letter != '-').collect();
    let boot_id = HEXLOWER.decode(digits.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    boot_id.ok_or_else(|| Error::failed("read", BOOT_ID, "it is no UUID"))
}

/// The key of a text.
///
/// # Errors
/// It is none; what it says is not told.
pub(crate) fn key(text: &str, place: &str) -> Result<Key> {
    text.parse().map_err(|error| {
        Error::usage("use the key in", place, error)
            .way_out("one line: its number, a colon, and 32 to 128 hexadecimal digits")
    })
}

/// The last epoch, in a file that one sensor at a time has. So an epoch is greater than all before, whatever the clock says.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// With its name; `None`: nobody remembers what was before.
    file: Option<(Flock<File>, String)>,
    last: u64,
}

impl Epochs {
    /// Begins the first epoch: the nanoseconds since 1970, if that is greater than the last one, so that a lost file does no harm.
    fn open(path: &Path, now_ns: u64) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |error: std::io::Error| {
            Error::os("keep the epoch in", &name, &error).way_out("name a file elsewhere: --epoch-file FILE")
        };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => {
                Error::failed("keep the epoch in", &name, "another sensor of this name runs")
                    .way_out("give each sensor a name of its own: --sensor-id NAME")
            }
            errno => failed(errno.into()),
        })?;
        let mut text = String::new();
        (&*file).take(64).read_to_string(&mut text).map_err(failed)?;
        let last = match text.trim() {
            "" => Some(0),
            number => number.parse().ok(),
        };
        let next =
            last.and_then(|last: u64| last.checked_add(1)).filter(|next| *next < u64::MAX / 2).ok_or_else(|| {
                Error::failed("keep the epoch in", &name, "it does not hold an epoch")
                    .way_out("write the last epoch into it that the correlator knows of this sensor, or remove it")
            })?;
        let first = next.max(now_ns);
        write(&file, first).map_err(failed)?;
        Ok(Self { file: Some((file, name)), last: first })
    }

    /// The epoch now.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The next one, which is noted before it is used.
    ///
    /// # Errors
    /// It could not be noted, but holds: only the next start may give it again.
    pub(crate) fn next(&mut self) -> Result<u64> {
        self.last += 1;
        if let Some((file, name)) = &self.file {
            write(file, self.last).map_err(|error| Error::os("keep the epoch in", name, &error))?;
        }
        Ok(self.last)
    }
}

/// In one block, always of the same length.
fn write(mut file: &File, epoch: u64) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(format!("{epoch:020}\n").as_bytes())?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn epochs_grow_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("north.epoch");
        let mut epochs = Epochs::open(&path, 1000).unwrap();
        assert_eq!((epochs.last(), epochs.next().unwrap()), (1000, 1001));
        let error = Epochs::open(&path, 2000).unwrap_err().to_string();
        assert!(error.contains("another sensor"), "{error}");
        drop(epochs);
        let epochs = Epochs::open(&path, 7).unwrap();
        assert_eq!(epochs.last(), 1002, "the clock was set back");
        drop(epochs);
        assert_eq!(Epochs::open(&path, 5000).unwrap().last(), 5000);
        for broken in ["x\n", "-1\n", "18446744073709551615\n", &"9".repeat(70)] {
            std::fs::write(&path, broken).unwrap();
            let error = Epochs::open(&path, 1).unwrap_err().to_string();
            assert!(error.contains("north.epoch") && error.contains("does not hold an epoch"), "{error}");
        }
    }

    #[test]
    fn name_and_key_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let secret = "00112233445566778899aabbccddeeff";
        let file = folder.path().join("key");
        let of = |options: &AlarmOptions, table: &Table| {
            Identity::of(options, table, Clock::Host, 1).map_err(|error| error.to_string())
        };
        let (mut options, mut table) = (AlarmOptions::default(), Table::default());
        assert!(of(&options, &table).unwrap_err().contains("--sensor-id"));
        table.sensor_id = Some("North".to_owned());
        assert!(of(&options, &table).unwrap_err().contains("a-z"));
        options.sensor_id = Some("north".parse().unwrap());
        options.epoch_file = Some(folder.path().join("epoch"));
        assert!(of(&options, &table).unwrap_err().contains("--key"));
        table.key = Some(format!("3:{secret}zz"));
        let error = of(&options, &table).unwrap_err();
        assert!(error.contains("[alarms] key") && !error.contains(secret), "{error}");
        table.key = Some(format!("3:{secret}"));
        assert_eq!(of(&options, &table).unwrap().who.key.as_ref().unwrap().id(), 3);
        options.key = Some(file.clone());
        std::fs::write(&file, format!("4:{secret}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = of(&options, &table).unwrap_err();
        assert!(error.contains("chmod 600") && !error.contains(secret), "{error}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let identity = of(&options, &table).unwrap();
        assert_eq!((identity.who.key.as_ref().unwrap().id(), identity.epochs.last()), (4, 2));
        assert!(!format!("{identity:?}").contains("0011"));
        assert_eq!(identity.who.origin(9).sensor.as_str(), "north");
    }
}
