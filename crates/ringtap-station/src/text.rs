//! Addresses as text, as `Display` writes them. In a storm each notification's is written twice, and the general machinery of
//! formatting took more of a core than decoding.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

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
