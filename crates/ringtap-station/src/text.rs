//! Texts of alarms: addresses as `Display` writes them, and lengths with a bound. In a storm each notification's is written twice, and the general machinery of
//! formatting took more of a core than decoding.

use std::fmt::Write;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use twox_hash::XxHash64;

/// Appends an address.
pub fn push_ip(out: &mut String, ip: IpAddr) {
    match ip {
        IpAddr::V4(v4) => {
            for (index, octet) in v4.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push('.');
                }
                push_number(out, octet.into());
            }
        }
        IpAddr::V6(_) => {
            let _ = write!(out, "{ip}");
        }
    }
}

/// Appends an address with its port.
pub fn push_socket(out: &mut String, address: SocketAddr) {
    match address {
        SocketAddr::V4(v4) => {
            push_ip(out, (*v4.ip()).into());
            out.push(':');
            push_number(out, v4.port());
        }
        SocketAddr::V6(_) => {
            let _ = write!(out, "{address}");
        }
    }
}

/// Cuts a text to `most` bytes, of which the last 17 tell it from others that begin alike: the same text gets the same end, also after
/// a restart.
pub fn cut(text: &mut String, most: usize) {
    /// A mark and 16 digits.
    const END: usize = 17;
    if text.len() <= most {
        return;
    }
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(text.as_bytes());
    let end = (0..=most.saturating_sub(END)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.truncate(end);
    let _ = write!(text, "~{:016x}", hasher.finish());
}

fn push_number(out: &mut String, number: u16) {
    let mut digits = [0; 5];
    let mut rest = number;
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend(digits[at..].iter().map(|&digit| char::from(digit)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_too_long_is_cut_and_still_differs() {
        let cut_of = |text: &str| {
            let mut text = text.to_owned();
            cut(&mut text, 40);
            text
        };
        assert_eq!(cut_of("short"), "short");
        let [one, two] = ["1", "2"].map(|end| cut_of(&("ä".repeat(5000) + end)));
        assert!(one != two && one.starts_with("äää") && one.len() <= 40 && two.len() <= 40, "{one} {two}");
        assert_eq!(one, cut_of(&("ä".repeat(5000) + "1")));
    }

    proptest! {
        #[test]
        fn addresses_are_written_as_display_writes_them(address: SocketAddr) {
            let (mut with_port, mut without) = (String::new(), String::new());
            push_socket(&mut with_port, address);
            push_ip(&mut without, address.ip());
            prop_assert_eq!((with_port, without), (address.to_string(), address.ip().to_string()));
        }
    }
}
