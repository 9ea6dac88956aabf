//! SIGHUP during a replay, in a process of its own: output files are opened again and the run goes on, as live.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use ringtap_samples::Sample;
use ringtap_samples::files::{self, Format, Order};
use ringtap_samples::frames::Ends;
use ringtap_sensor::{Event, Input, Options, run};

const PACKETS: usize = 40;

fn wait_for(path: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    while !path.exists() {
        assert!(Instant::now() < until, "there is no {}", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_hangup_opens_the_output_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (capture, rules, eve, moved) = (at("in"), at("my.rules"), at("eve.json"), at("eve.old"));
    std::fs::write(&rules, "alert udp any any -> any any (content:\"EVIL\"; sid:77;)\n").unwrap();
    nix::unistd::mkfifo(&capture, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let frame = Ends::new("198.51.100.7", "203.0.113.9").udp_frame([5000, 9999], b"..EVIL..");
    let sample = Sample { name: "in".to_owned(), link: 1, packets: vec![frame; PACKETS] };
    let bytes = files::file(&sample, Format::Pcap(Order::Little));
    let mut options = Options::new(Input::Files(vec![capture.clone()]));
    (options.no_sandbox, options.rules.files) = (true, vec![rules]);
    (options.outputs.eve, options.outputs.events) = (Some(eve.clone()), vec![Event::Alert]);
    let (current, old) = (eve.clone(), moved.clone());
    let sender = std::thread::spawn(move || {
        // Opens when the sensor does, which hears signals by then.
        let mut pipe = std::fs::OpenOptions::new().write(true).open(capture).unwrap();
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        pipe.write_all(first).unwrap();
        wait_for(&current);
        std::fs::rename(&current, &old).unwrap();
        raise(Signal::SIGHUP).unwrap();
        wait_for(&current);
        pipe.write_all(rest).unwrap();
    });
    let done = run(&options, None).unwrap();
    sender.join().unwrap();
    assert!(done.failure.is_none());
    let summary = done.summary.object();
    let ended = (&summary["ending"], &summary["packets"], &summary["reloads"]);
    assert_eq!(ended, (&"end_of_file".into(), &PACKETS.into(), &0.into()), "{summary}");
    let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
    let (before, after) = (lines(&moved), lines(&eve));
    assert_eq!(before + after, PACKETS);
    assert!(after > 0, "the file was opened again");
}
