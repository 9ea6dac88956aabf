//! Owns: feeding any bytes to `ringtap-wire`. The first byte chooses the link type, the rest is the packet.
//! Does not: hold the rules; those are the oracle of the crate's own tests, agreement with etherparse included.
#![no_main]

#[path = "../links.rs"]
mod links;
#[path = "../../crates/ringtap-wire/tests/oracle/mod.rs"]
mod oracle;

use libfuzzer_sys::fuzz_target;
use ringtap_wire::{
    Arp, Cooked, Ethernet, Extension, Geneve, Gre, Icmpv4, Icmpv6, Ip, Llc, Ppp, Pppoe, Sctp, Tcp, Udp, Vxlan,
    checksum, family, is_extension,
};

fuzz_target!(|input: &[u8]| {
    let Some((&choice, data)) = input.split_first() else { return };
    let link = links::LINKS[usize::from(choice) % links::LINKS.len()];
    oracle::agree(data, link);
    let whole = oracle::check(data, link);
    for cut in [1, 7, data.len() / 2] {
        oracle::prefix(&data[..data.len().saturating_sub(cut)], link, &whole);
    }
    views(data);
});

/// Each view on its own, on bytes that no other header has vouched for.
fn views(data: &[u8]) {
    let inside = |part: &[u8]| assert!(part.len() <= data.len());
    if let Ok(view) = Ethernet::new(data) {
        inside(view.payload());
    }
    if let Ok(view) = Llc::new(data) {
        let _ = (view.snap(), view.ether_type());
    }
    if let Ok(view) = Arp::new(data) {
        let _ = (view.ipv4(), view.target_hardware(), view.target_protocol());
    }
    match Ip::new(data) {
        Ok(Ip::V4(view)) => {
            inside(view.payload());
            assert!(view.options().count() <= 40);
            let _ = (view.is_source_routed(), checksum::ipv4_header(view.header()));
        }
        Ok(Ip::V6(view)) => {
            inside(view.payload());
            let _ = (view.declared_length(), view.extensions().count());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    for kind in (0..=u8::MAX).filter(|&kind| is_extension(kind)) {
        if let Ok(view) = Extension::new(kind, data) {
            inside(view.bytes());
            let _ = (view.options().count(), view.fragment(), view.routing(), view.authentication());
        }
    }
    if let Ok(view) = Tcp::new(data) {
        inside(view.payload());
        assert!(view.options().count() <= 40);
    }
    if let Ok(view) = Udp::new(data) {
        inside(view.payload());
    }
    if let Ok(view) = Icmpv4::new(data) {
        let _ = (view.query(), view.is_error(), view.payload());
    }
    if let Ok(view) = Icmpv6::new(data) {
        let _ = (view.query(), view.is_error(), view.payload());
    }
    if let Ok(view) = Sctp::new(data) {
        assert!(view.chunks().count() <= data.len() / 4);
    }
    if let Ok(view) = Gre::new(data) {
        let _ = (view.checksum(), view.key(), view.sequence(), view.call());
        inside(view.payload());
    }
    if let Ok(view) = Vxlan::new(data) {
        inside(view.payload());
    }
    if let Ok(view) = Geneve::new(data) {
        inside(view.options());
        inside(view.payload());
    }
    if let Ok(view) = Pppoe::new(data) {
        inside(view.payload());
    }
    if let Ok(view) = Ppp::new(data) {
        inside(view.payload());
    }
    for view in [Cooked::new(data), Cooked::new_2(data)].into_iter().flatten() {
        let _ = (view.address(), view.follows(), view.packet_type(), view.interface_index());
        inside(view.payload());
    }
    let _ = family(data);
    assert_eq!(checksum::internet(data), checksum::Sum::new().with(data).finish());
    let _ = checksum::sctp(data);
}
