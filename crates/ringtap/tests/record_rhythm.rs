//! How often the writer thread wakes, and that standard output and single flushes work. The first test looks at
//! threads of this process by name; the other one runs in a process of its own.

#[path = "record_support/mod.rs"]
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use ringtap::record::RecordConfig;
use support::{drain, push, start};

/// Voluntary context switches of the writer thread: it went to sleep so often.
fn sleeps() -> u64 {
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        if std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "ringtap-writer") {
            let status = std::fs::read_to_string(path.join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            return line.trim().parse().unwrap();
        }
    }
    panic!("no thread named ringtap-writer");
}

/// Sleeps in so many milliseconds while packets come at `distance`.
fn sleeps_while(producer: &mut ringtap::record::SpoolProducer, milliseconds: u64, distance: Option<Duration>) -> u64 {
    let (before, start) = (sleeps(), Instant::now());
    while start.elapsed() < Duration::from_millis(milliseconds) {
        if distance.is_some() {
            push(producer, 1, b"x");
        }
        std::thread::sleep(distance.unwrap_or(Duration::from_millis(milliseconds)));
    }
    sleeps() - before
}

#[test]
fn the_writer_sleeps_when_idle_and_wakes_rarely_when_not() {
    let directory = tempfile::tempdir().unwrap();
    let (recorder, mut producer) = start(RecordConfig::new(directory.path().join("r.pcapng")));
    push(&mut producer, 1, b"x");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(sleeps_while(&mut producer, 500, None), 0, "idle: nobody wakes it");
    // 50 a second, and a few for writes that had to wait.
    for distance in [1, 20, 41, 100] {
        let sleeps = sleeps_while(&mut producer, 1000, Some(Duration::from_millis(distance)));
        assert!(sleeps <= 55, "{sleeps} sleeps in a second with a packet each {distance} ms");
    }
    let written = recorder.packets();
    let summary = recorder.finish(Vec::new()).unwrap();
    assert!(written > 100 && summary.packets >= written);

    let path = directory.path().join("f.pcapng");
    let (recorder, mut producer) = start(RecordConfig { flush_each: true, ..RecordConfig::new(&path) });
    (0..100).for_each(|stamp| push(&mut producer, stamp, b"x"));
    recorder.finish(Vec::new()).unwrap();
    assert_eq!(support::read(&path).len(), 100);
}

/// The test runs itself again with its standard output in a file, and looks for the capture in there.
#[test]
fn standard_output_takes_a_whole_capture() {
    const INSIDE: &str = "RINGTAP_TEST_STDOUT";
    if std::env::var_os(INSIDE).is_some() {
        let (recorder, mut producer) = start(RecordConfig::new("-"));
        (0..100).for_each(|stamp| push(&mut producer, stamp, b"to standard output"));
        let summary = recorder.finish(Vec::new()).unwrap();
        assert_eq!((summary.packets, summary.files.len()), (100, 0));
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "standard_output_takes_a_whole_capture", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    // The test harness writes its own lines before and after.
    let begin = output.stdout.windows(4).position(|bytes| bytes == [0x0a, 0x0d, 0x0d, 0x0a]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stdout.pcapng");
    std::fs::write(&path, &output.stdout[begin..]).unwrap();
    let mut source = ringtap::source::file::FileSource::open(&[&path], ringtap::source::file::Pace::AsFast).unwrap();
    let seen = drain(&mut source);
    assert_eq!(seen.len(), 100);
    assert!(seen.iter().all(|seen| seen.data == b"to standard output"));
}
