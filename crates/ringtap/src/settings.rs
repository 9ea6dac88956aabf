//! What Ringtap changes on a device, and putting it back, whatever way a process ends.
//!
//! Owns the settings in force of one receiver. Each change is noted in `/run/ringtap` before it is made (`note`), and made on the
//! `device`. The old values come back when the last receiver that changed a setting ends. Who puts them back: the receiver itself;
//! where it has given up the right by then, the keeper (`sys::keeper`) or, beneath programs that are not ours, a right
//! to write that outlives privileges (`sys::write_right`); after a kill -9 of all of these, the next start.
//! What goes by itself when a process ends (XDP programs on their link, promiscuous mode of a packet socket) is not here.

mod device;
mod note;

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use device::Device;
pub(crate) use device::Setting;
use note::Note;
pub(crate) use note::put_back_leftovers;

/// Settings in force for one receiver; dropping it puts the old ones back.
#[derive(Debug)]
pub(crate) struct Settings(Arc<Mutex<InForce>>);

#[derive(Debug)]
struct InForce {
    device: Device,
    /// `None` before the first change.
    note: Option<Note>,
    beneath_others: bool,
    pid: u32,
}

/// What [`restore_at_exit`] would find.
static IN_FORCE: Mutex<Vec<Weak<Mutex<InForce>>>> = Mutex::new(Vec::new());

impl Settings {
    /// For a device of the calling thread's network namespace. Changes nothing yet.
    ///
    /// `beneath_others` says that the process is not ours and may give up its privileges: only what can be put back all the same
    /// is changed then.
    ///
    /// # Errors
    /// No socket can be had.
    pub(crate) fn of(ifindex: u32, beneath_others: bool) -> io::Result<Self> {
        let in_force = InForce { device: Device::of(ifindex)?, note: None, beneath_others, pid: std::process::id() };
        let this = Self(Arc::new(Mutex::new(in_force)));
        if beneath_others && let Ok(mut all) = IN_FORCE.lock() {
            all.retain(|settings| settings.strong_count() > 0);
            all.push(Arc::downgrade(&this.0));
        }
        Ok(this)
    }

    /// Changes a setting, after its old value was noted. May be called again with another value.
    ///
    /// # Errors
    /// The device has no such setting or does not let it be changed; it can't be noted (then it is not changed).
    pub(crate) fn set(&self, setting: Setting, value: &str) -> io::Result<()> {
        let mut in_force = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let InForce { device, note, beneath_others, .. } = &mut *in_force;
        if *beneath_others {
            device.keep_right(&setting)?;
        }
        // What is not there needs no note.
        device.read(&setting)?;
        let note = match note {
            Some(known) => known,
            None => note.insert(Note::join(device)?),
        };
        note.change(device, setting, value)
    }

    /// The value of a setting at the moment.
    ///
    /// # Errors
    /// The device has no such setting.
    pub(crate) fn read(&self, setting: &Setting) -> io::Result<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).device.read(setting)
    }
}

/// Reads settings of a device without a thought of changing them.
#[derive(Debug)]
pub(crate) struct Reader(Device);

impl Reader {
    /// Of a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// No socket can be had.
    pub(crate) fn of(ifindex: u32) -> io::Result<Self> {
        Device::of(ifindex).map(Self)
    }

    /// # Errors
    /// As [`Settings::read`].
    pub(crate) fn read(&mut self, setting: &Setting) -> io::Result<String> {
        self.0.read(setting)
    }
}

impl InForce {
    /// What can't be put back for want of rights stays noted.
    fn put_back(&mut self) {
        if let Some(note) = self.note.take() {
            let _ = note.leave(&mut self.device);
        }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put_back();
    }
}

/// Puts back what was set beneath other programs and is still in force, for a library whose handles nobody closed before exit(3).
/// A child leaves its parent's settings alone.
pub fn restore_at_exit() {
    let Ok(all) = IN_FORCE.try_lock() else { return };
    for settings in all.iter().filter_map(Weak::upgrade) {
        if let Ok(mut in_force) = settings.try_lock()
            && in_force.pid == std::process::id()
        {
            in_force.put_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use ringtap_testbed::{Testbed, TestbedConfig};

    use super::*;

    const VLAN: &str = "rx-vlan-hw-parse";

    fn vlan() -> Setting {
        Setting::Feature(VLAN.to_owned())
    }

    /// What kill -9 does to a user.
    fn kill(settings: &Settings) {
        settings.0.lock().unwrap().note = None;
    }

    /// Values of all three settings.
    fn values(ifindex: u32) -> [String; 3] {
        let mut device = Device::of(ifindex).unwrap();
        [Setting::GroFlushTimeout, Setting::NapiDeferHardIrqs, vlan()].map(|setting| device.read(&setting).unwrap())
    }

    /// Values after leftovers were put back; not at once, as a program that another test starts holds our files until its exec.
    fn settled(ifindex: u32, wanted: [&str; 3]) -> [String; 3] {
        for _ in 0..200 {
            assert_eq!(put_back_leftovers(), Vec::<String>::new());
            if values(ifindex) == wanted {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        values(ifindex)
    }

    /// Notes of devices of this namespace that are not empty.
    fn notes() -> usize {
        let namespace = Device::namespace().unwrap();
        let files = std::fs::read_dir("/run/ringtap").into_iter().flatten().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with(&format!("{namespace}-"))).count()
    }

    /// Runs a part in a testbed's receiving host, with the index of its interface.
    fn on_a_device(test: &str, part: impl FnOnce(u32) + Send) {
        let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{test}: {error}"));
        let ifindex = testbed.receiver().link().index;
        testbed.receiver().run(|| part(ifindex)).unwrap();
    }

    #[derive(Debug, Clone, Copy)]
    enum Way {
        End,
        Kill,
    }

    #[test]
    fn net_old_values_come_back_when_the_last_user_ends_and_not_before() {
        on_a_device("net_old_values_come_back", |ifindex| {
            let before = values(ifindex);
            for (first_is_a, way) in [(true, Way::End), (false, Way::End), (true, Way::Kill), (false, Way::Kill)] {
                let start = |flush: &str| {
                    let settings = Settings::of(ifindex, false).unwrap();
                    settings.set(Setting::GroFlushTimeout, flush).unwrap();
                    settings.set(Setting::NapiDeferHardIrqs, "2").unwrap();
                    settings.set(vlan(), "off").unwrap();
                    settings
                };
                let (a, b) = (start("50000"), start("70000"));
                assert_eq!(values(ifindex), ["70000", "2", "off"]);
                let (first, last, of_last) = if first_is_a { (a, b, "70000") } else { (b, a, "50000") };
                if matches!(way, Way::Kill) {
                    kill(&first);
                }
                drop(first);
                // Whoever starts meanwhile finds out who is gone.
                assert_eq!(
                    settled(ifindex, [of_last, "2", "off"]),
                    [of_last, "2", "off"],
                    "{way:?}, A first: {first_is_a}"
                );
                if matches!(way, Way::Kill) {
                    kill(&last);
                    assert_eq!(values(ifindex), [of_last, "2", "off"]);
                    settled(ifindex, before.each_ref().map(String::as_str));
                }
                drop(last);
                assert_eq!(values(ifindex), before, "{way:?}, A first: {first_is_a}");
                assert_eq!(notes(), 0);
            }
        });
    }

    #[test]
    fn net_one_user_ends_while_the_next_starts_and_the_first_values_come_back() {
        on_a_device("net_one_user_ends_while_the_next_starts", |ifindex| {
            let before = values(ifindex);
            let namespace = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let namespace = &namespace;
                    scope.spawn(move || {
                        nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                        for round in 0..50 {
                            let settings = Settings::of(ifindex, false).unwrap();
                            settings.set(vlan(), "off").unwrap();
                            if (round + thread) % 3 == 0 {
                                kill(&settings);
                                put_back_leftovers();
                            }
                        }
                    });
                }
            });
            assert_eq!((values(ifindex), notes()), (before, 0));
        });
    }

    #[test]
    fn net_a_device_of_that_name_and_index_in_another_namespace_is_not_taken_for_ours() {
        on_a_device("net_a_device_of_that_name_and_index", |ifindex| {
            let mut ours = Device::of(ifindex).unwrap();
            let name = ours.name();
            std::thread::scope(|scope| {
                // This /sys goes on to show our device.
                scope.spawn(|| {
                    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                    let words = format!("link add {name} index {ifindex} type veth peer name other index 99");
                    let done = std::process::Command::new("ip").args(words.split(' ')).status().unwrap();
                    assert!(done.success(), "ip {words}");
                    let mut theirs = Device::of(ifindex).unwrap();
                    assert_eq!(theirs.name(), name);
                    let refused = theirs.write(&Setting::GroFlushTimeout, "777").unwrap_err();
                    assert!(refused.to_string().contains("another network namespace"), "{refused}");
                });
            });
            assert_ne!(ours.read(&Setting::GroFlushTimeout).unwrap(), "777");
        });
    }

    #[test]
    fn net_what_somebody_else_set_and_another_device_of_that_name_stay_as_they_are() {
        on_a_device("net_what_somebody_else_set", |ifindex| {
            let settings = Settings::of(ifindex, false).unwrap();
            settings.set(Setting::GroFlushTimeout, "50000").unwrap();
            Device::of(ifindex).unwrap().write(&Setting::GroFlushTimeout, "777").unwrap();
            drop(settings);
            assert_eq!((values(ifindex)[0].as_str(), notes()), ("777", 0));

            let settings = Settings::of(ifindex, false).unwrap();
            let name = settings.0.lock().unwrap().device.name();
            settings.set(vlan(), "off").unwrap();
            kill(&settings);
            let ip = |text: &str| {
                let done = std::process::Command::new("ip").args(text.split(' ')).status().unwrap();
                assert!(done.success(), "ip {text}");
            };
            ip(&format!("link del {name}"));
            ip(&format!("link add {name} type veth peer name other"));
            let again = crate::sys::netlink::link_by_name(&name).unwrap().index;
            Device::of(again).unwrap().write(&vlan(), "off").unwrap();
            assert_eq!(put_back_leftovers(), Vec::<String>::new());
            assert_eq!((values(again)[2].as_str(), notes()), ("off", 0));
        });
    }
}
