//! What a user can tell Ringtap beneath a program that does not know it: environment and device name.
//!
//! Owns their names, their units and the messages about wrong ones. `ringtap:eth0?max_latency=100us&backend=xdp` wins over
//! RINGTAP_MAX_LATENCY and RINGTAP_BACKEND, which are not read in set-user-ID programs.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use libc::c_char;

/// In front of a device name with options.
const SCHEME: &str = "ringtap:";

/// Who captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// AF_XDP where nobody on this host would miss the packets, else a packet ring; where neither can be had, the real libpcap.
    #[default]
    Auto,
    /// AF_XDP or an error.
    Xdp,
    /// A packet ring or an error.
    Packet,
    /// recvmmsg(2) or an error.
    Socket,
    /// The real libpcap.
    System,
}

/// Everything that can be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    pub backend: Choice,
    /// Longest time from a packet's arrival to its delivery; `None`: by the program's own mode.
    pub max_latency: Option<Duration>,
    /// Slots of each ring; `None`: by the program's buffer size.
    pub ring: Option<u32>,
    /// Packets may be taken away from the host.
    pub take: bool,
    /// Pause between polls of the kernel's NAPI where AF_XDP has the device; zero leaves it alone, `None`: by the bound.
    pub napi_pacing: Option<Duration>,
}

/// A device name as given, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Device {
    /// What the kernel and the real libpcap call it.
    pub name: CString,
    pub settings: Settings,
}

impl Device {
    /// Reads a device name and the environment.
    ///
    /// # Errors
    /// A sentence for the errbuf.
    pub fn parse(given: &CStr, environment: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut settings = Settings::default();
        for (variable, option) in VARIABLES {
            if let Some(value) = environment(variable).filter(|value| !value.is_empty()) {
                settings.set(option, &value).map_err(|error| format!("{variable}: {error}"))?;
            }
        }
        let Some(text) = given.to_str().ok().and_then(|text| text.strip_prefix(SCHEME)) else {
            return Ok(Self { name: given.to_owned(), settings });
        };
        let (name, options) = text.split_once('?').unwrap_or((text, ""));
        if name.is_empty() {
            return Err(format!("{SCHEME} is not followed by an interface's name"));
        }
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, "1"));
            settings.set(key, value).map_err(|error| format!("{SCHEME}{name}: {error}"))?;
        }
        // Part of a C string: there is no zero inside.
        Ok(Self { name: CString::new(name).unwrap_or_default(), settings })
    }
}

/// Environment variables and the options they stand for.
const VARIABLES: [(&str, &str); 5] = [
    ("RINGTAP_BACKEND", "backend"),
    ("RINGTAP_MAX_LATENCY", "max_latency"),
    ("RINGTAP_RING", "ring"),
    ("RINGTAP_TAKE", "take"),
    ("RINGTAP_NAPI_PACING", "napi_pacing"),
];

impl Settings {
    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "backend" => {
                self.backend = match value {
                    "auto" => Choice::Auto,
                    "xdp" => Choice::Xdp,
                    "packet" => Choice::Packet,
                    "socket" => Choice::Socket,
                    "system" => Choice::System,
                    _ => return Err(format!("backend {value:?} is none of auto, xdp, packet, socket, system")),
                };
            }
            "max_latency" => {
                let bound = duration(value)?;
                if !(Duration::from_micros(10)..=Duration::from_secs(1)).contains(&bound) {
                    return Err(format!("max_latency {value:?} is not from 10us to 1s"));
                }
                self.max_latency = Some(bound);
            }
            "ring" => {
                let slots = value.parse().ok().filter(|slots| (64..=1 << 20).contains(slots));
                self.ring = Some(slots.ok_or_else(|| format!("ring {value:?} is not from 64 to 1048576 slots"))?);
            }
            "take" => {
                self.take = match value {
                    "1" | "yes" => true,
                    "0" | "no" => false,
                    _ => return Err(format!("take {value:?} is neither 1 nor 0")),
                };
            }
            "napi_pacing" if matches!(value, "0" | "off") => self.napi_pacing = Some(Duration::ZERO),
            "napi_pacing" => self.napi_pacing = Some(duration(value)?),
            _ => {
                return Err(format!(
                    "there is no option {option:?}; there are backend, max_latency, ring, take, napi_pacing"
                ));
            }
        }
        Ok(())
    }
}

/// Reads `250us`, `1ms` or `0.5s`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time such as 250us, 1ms or 0.5s");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let seconds = match &text[digits..] {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// A variable of the environment, unless the program runs with more rights than its user (secure_getenv(3)).
pub fn environment(variable: &str) -> Option<String> {
    unsafe extern "C" {
        fn secure_getenv(name: *const c_char) -> *const c_char;
    }
    let name = CString::new(variable).ok()?;
    // SAFETY: a terminated name; the answer is null or a string that is copied before anything can change it.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| OsStr::from_bytes(CStr::from_ptr(value).to_bytes()).to_string_lossy().into_owned())
    }
}

/// The interface's own name where `device` has our scheme; `None` for every other name.
///
/// # Safety
/// `device` is null or a string.
pub unsafe fn plain_name(device: *const c_char) -> Option<CString> {
    if device.is_null() {
        return None;
    }
    // SAFETY: by contract.
    let text = unsafe { CStr::from_ptr(device) }.to_str().ok()?.strip_prefix(SCHEME)?;
    CString::new(text.split('?').next().unwrap_or(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, variables: &[(&str, &str)]) -> Result<Device, String> {
        let value = |wanted: &str| {
            variables.iter().find(|(variable, _)| *variable == wanted).map(|(_, value)| (*value).to_owned())
        };
        Device::parse(&CString::new(name).unwrap(), value)
    }

    #[test]
    fn plain_names_stay_as_they_are() {
        for name in ["eth0", "any", "", "usbmon1", "xringtap:eth0?x"] {
            let device = parse(name, &[]).unwrap();
            assert_eq!((device.name.to_str().unwrap(), device.settings), (name, Settings::default()));
        }
    }

    #[test]
    fn the_name_wins_over_the_environment() {
        let variables = [("RINGTAP_BACKEND", "system"), ("RINGTAP_MAX_LATENCY", "2ms"), ("RINGTAP_TAKE", "")];
        let device = parse("ringtap:eth0?backend=xdp&ring=128&take&napi_pacing=off", &variables).unwrap();
        assert_eq!(device.name.to_str().unwrap(), "eth0");
        assert_eq!(
            device.settings,
            Settings {
                backend: Choice::Xdp,
                max_latency: Some(Duration::from_millis(2)),
                ring: Some(128),
                take: true,
                napi_pacing: Some(Duration::ZERO),
            }
        );
        assert_eq!(parse("eth0", &variables).unwrap().settings.backend, Choice::System);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, variable, words) in [
            ("ringtap:", ("X", ""), "not followed"),
            ("ringtap:eth0?colour=red", ("X", ""), "no option \"colour\""),
            ("ringtap:eth0?max_latency=5", ("X", ""), "\"5\" is no time"),
            ("ringtap:eth0?max_latency=2s", ("X", ""), "10us to 1s"),
            ("ringtap:eth0?max_latency=1e999s", ("X", ""), "is no time"),
            ("ringtap:eth0?ring=63", ("X", ""), "64 to"),
            ("eth0", ("RINGTAP_BACKEND", "dpdk"), "RINGTAP_BACKEND: backend \"dpdk\""),
            ("any", ("RINGTAP_TAKE", "maybe"), "neither"),
        ] {
            let error = parse(name, &[variable]).unwrap_err();
            assert!(error.contains(words), "{name}: {error}");
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(duration("250us").unwrap(), Duration::from_micros(250));
        assert_eq!(duration("0.5s").unwrap(), Duration::from_millis(500));
        for bad in ["", "us", "1", "1m", "..s", "-1ms"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
