use ringtap::Backend;

use super::*;

fn options() -> Options {
    Options::new(Live::new("a"), "b")
}

#[test]
fn what_makes_no_sense_is_refused() {
    let live = |backend| Live { backend, ..Live::new("a") };
    let refused = [
        (Options { slots: 100, ..options() }, "--out-ring"),
        (Options { slots: 1 << 17, ..options() }, "--out-ring"),
        (Options { count: Some(0), ..options() }, "--count"),
        (Options { first: live(Backend::Vfio), ..options() }, "vfio does not forward"),
        (Options { first: live(Backend::Pcap), ..options() }, "pcap does not forward"),
    ];
    for (options, part) in refused {
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for backend in [Backend::Auto, Backend::Xdp, Backend::Packet, Backend::Socket] {
        assert!(Options { first: live(backend), ..options() }.check().is_ok());
    }
}
