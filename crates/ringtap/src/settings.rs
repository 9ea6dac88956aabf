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

use crate::sys::keeper;

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

/// Those of all receivers.
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
        let mut all = IN_FORCE.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|settings| settings.strong_count() > 0);
        all.push(Arc::downgrade(&this.0));
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

    /// What lifts a change for a while, from another thread and without privileges as well.
    ///
    /// # Errors
    /// The setting was not changed by us, or the right to write can't be kept.
    pub(crate) fn lifter(&self, setting: Setting) -> io::Result<Lifter> {
        let mut in_force = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let InForce { device, note, .. } = &mut *in_force;
        // Without such a right a change could be lifted, and never be made again once the process gave up its privileges.
        device.keep_right(&setting)?;
        let noted = note.as_mut().map_or(Ok(None), |note| note.own_change(&setting))?;
        let (was, to) = noted.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Lifter { settings: Arc::clone(&self.0), setting, was, to })
    }

    /// The value of a setting at the moment.
    ///
    /// # Errors
    /// The device has no such setting.
    pub(crate) fn read(&self, setting: &Setting) -> io::Result<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).device.read(setting)
    }
}

/// Gives a setting that we changed its old value for a while. The note stays as it is: it holds for both values.
#[derive(Debug)]
pub(crate) struct Lifter {
    settings: Arc<Mutex<InForce>>,
    setting: Setting,
    was: String,
    to: String,
}

impl Lifter {
    /// Lifts the change, or makes it again; whether that can go on: not after the change was put back.
    ///
    /// # Errors
    /// Somebody else has changed the setting meanwhile, or it can't be read or written.
    pub(crate) fn lift(&self, lifted: bool) -> io::Result<bool> {
        let mut in_force = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if in_force.note.is_none() {
            return Ok(false);
        }
        let device = &mut in_force.device;
        let value = if lifted { &self.was } else { &self.to };
        let found = device.read(&self.setting)?;
        if found != self.was && found != self.to {
            return Err(io::Error::other(format!("somebody else set it to {found}")));
        }
        device.write(&self.setting, value).map(|()| true)
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
    /// What can't be put back for want of rights stays noted, and the keeper has them.
    fn put_back(&mut self) {
        if let Some(note) = self.note.take()
            && note.leave(&mut self.device).is_err()
        {
            keeper::put_back_now();
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
            && in_force.beneath_others
            && in_force.pid == std::process::id()
        {
            in_force.put_back();
        }
    }
}

/// Before a process with a keeper gives up its privileges: nothing is changed any more, and the notes can't be written.
///
/// # Errors
/// There is no /proc.
pub fn leave_to_keeper() -> io::Result<()> {
    let all = IN_FORCE.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter_map(Weak::upgrade).try_for_each(|settings| {
        let mut in_force = settings.lock().unwrap_or_else(PoisonError::into_inner);
        in_force.note.as_mut().map_or(Ok(()), Note::give_up_writing)
    })
}

#[cfg(test)]
mod tests {
    use ringtap_testbed::{Testbed, TestbedConfig};

    use super::*;

    const VLAN: &str = "rx-vlan-hw-parse";

    fn vlan() -> Setting {
        Setting::Feature(VLAN.to_owned())
    }

    #[test]
    fn net_a_change_is_lifted_for_a_while_and_the_old_value_comes_back_all_the_same() {
        on_a_device("net_a_change_is_lifted", |ifindex| {
            let before = values(ifindex);
            for lifted_last in [false, true] {
                let settings = Settings::of(ifindex, false).unwrap();
                assert!(settings.lifter(Setting::NapiDeferHardIrqs).is_err(), "nothing was changed");
                settings.set(Setting::NapiDeferHardIrqs, "2").unwrap();
                let lifter = settings.lifter(Setting::NapiDeferHardIrqs).unwrap();
                for lifted in [true, false, lifted_last] {
                    assert!(lifter.lift(lifted).unwrap());
                    assert_eq!(values(ifindex)[1], if lifted { before[1].as_str() } else { "2" });
                }
                drop(settings);
                assert_eq!((values(ifindex), notes()), (before.clone(), 0));
                assert!(!lifter.lift(false).unwrap(), "it was put back");
                assert_eq!(values(ifindex), before);
            }
            // What somebody else set is left alone.
            let settings = Settings::of(ifindex, false).unwrap();
            settings.set(Setting::NapiDeferHardIrqs, "2").unwrap();
            let lifter = settings.lifter(Setting::NapiDeferHardIrqs).unwrap();
            Device::of(ifindex).unwrap().write(&Setting::NapiDeferHardIrqs, "7").unwrap();
            let refused = lifter.lift(true).unwrap_err().to_string();
            assert_eq!(refused, "somebody else set it to 7");
            assert_eq!(values(ifindex)[1], "7");
        });
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
    fn net_who_left_a_note_to_the_keeper_stays_its_user_and_can_not_write_it() {
        on_a_device("net_who_left_a_note_to_the_keeper", |ifindex| {
            let before = values(ifindex);
            let settings = Settings::of(ifindex, false).unwrap();
            settings.set(vlan(), "off").unwrap();
            settings.0.lock().unwrap().note.as_mut().unwrap().give_up_writing().unwrap();
            assert!(settings.set(Setting::GroFlushTimeout, "50000").is_err());
            assert_eq!(put_back_leftovers(), Vec::<String>::new());
            assert_eq!(values(ifindex)[2], "off", "it lives");
            drop(settings);
            assert_eq!(values(ifindex)[2], "off", "the keeper's work");
            assert_eq!(settled(ifindex, before.each_ref().map(String::as_str)), before);
            assert_eq!(notes(), 0);
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
