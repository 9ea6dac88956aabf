//! Files of a recording: rotation, modes, errors before and while writing, and that every packet is accounted for.

#[path = "record_support/mod.rs"]
mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ringtap::error::ErrorKind;
use ringtap::record::{Format, InterfaceInfo, LEAST_SPOOL_BYTES, RecordConfig, Recorder, Rotation, Target};
use ringtap::source::StampClock;
use support::{push, read, run, start};

/// What no test should ever wait for.
const PATIENCE: Duration = Duration::from_secs(60);

fn ethernet() -> Vec<InterfaceInfo> {
    vec![InterfaceInfo::ethernet("veth0", StampClock::Recorded)]
}

fn names(directory: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

#[test]
fn rotation_by_size_gives_files_that_are_whole_by_themselves() {
    for (name, format) in [("cap.pcapng", Format::Pcapng), ("cap.pcap", Format::Pcap)] {
        let directory = tempfile::tempdir().unwrap();
        let rotation = Rotation { size: Some(20_000), ..Rotation::default() };
        let config = RecordConfig { rotation, ..RecordConfig::new(directory.path().join(name)) };
        assert_eq!(config.format, format);
        let (recorder, mut producer) = start(config);
        for index in 0..1000 {
            push(&mut producer, index, &[index as u8; 100]);
        }
        let summary = recorder.finish(Vec::new()).unwrap();
        assert_eq!(summary.files, names(directory.path()), "oldest first, and nothing else there");
        assert!((6..9).contains(&summary.files.len()), "{:?}", summary.files);
        let mut stamps = Vec::new();
        for file in &summary.files {
            // The closing statistics come on top of the limit.
            assert!(std::fs::metadata(file).unwrap().len() < 20_200);
            stamps.extend(read(file).iter().map(|seen| seen.stamp_ns));
        }
        assert!(stamps.into_iter().eq(0..1000));
        let total: u64 = summary.files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
        assert_eq!((summary.packets, summary.bytes, summary.deleted), (1000, total, 0));
    }
}

#[test]
fn a_packet_larger_than_the_limit_has_a_file_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let rotation = Rotation { size: Some(1), ..Rotation::default() };
    let (recorder, mut producer) = start(RecordConfig { rotation, ..RecordConfig::new(directory.path().join("c")) });
    (0..3).for_each(|stamp| push(&mut producer, stamp, &[0; 1000]));
    let summary = recorder.finish(Vec::new()).unwrap();
    assert_eq!(summary.files.len(), 3);
    assert!(summary.files.iter().all(|file| read(file).len() == 1));
}

#[test]
fn rotation_by_time_follows_the_stamps_and_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let rotation = Rotation { time: Some(Duration::from_secs(10)), ..Rotation::default() };
    let (recorder, mut producer) =
        start(RecordConfig { rotation, ..RecordConfig::new(directory.path().join("t.pcapng")) });
    let second = 1_000_000_000;
    let start_ns = 1_795_256_100 * second;
    for offset in [0, 9 * second, 10 * second - 1, 10 * second, 15 * second, 65 * second] {
        push(&mut producer, start_ns + offset, b"x");
    }
    let summary = recorder.finish(Vec::new()).unwrap();
    let counts: Vec<usize> = summary.files.iter().map(|file| read(file).len()).collect();
    assert_eq!(counts, [3, 2, 1]);
    assert!(summary.files[1].ends_with("t_00002_20261121T101510Z.pcapng"), "{:?}", summary.files);
    assert!(summary.files[2].ends_with("t_00003_20261121T101605Z.pcapng"), "{:?}", summary.files);
}

#[test]
fn only_so_many_files_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("k_00000_old.pcapng"), b"somebody else's").unwrap();
    let rotation = Rotation { size: Some(2000), keep: Some(3), ..Rotation::default() };
    let (recorder, mut producer) =
        start(RecordConfig { rotation, ..RecordConfig::new(directory.path().join("k.pcapng")) });
    for index in 0..500 {
        push(&mut producer, index, &[0; 100]);
    }
    let summary = recorder.finish(Vec::new()).unwrap();
    assert_eq!(summary.files.len(), 3);
    assert_eq!(names(directory.path()).len(), 4, "files of others are left alone");
    assert_eq!((summary.packets, summary.error.is_none()), (500, true));
    assert!(summary.deleted > 20, "{}", summary.deleted);
    let last: Vec<u64> = summary.files.iter().flat_map(|file| read(file)).map(|seen| seen.stamp_ns).collect();
    assert_eq!(*last.last().unwrap(), 499);
    assert!(last.windows(2).all(|pair| pair[1] == pair[0] + 1), "the newest, without a gap");
}

#[test]
fn files_are_for_their_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pcapng");
    std::fs::write(&path, b"was there").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (recorder, _producer) = start(RecordConfig::new(&path));
    recorder.finish(Vec::new()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read(&path), []);
}

#[test]
fn a_link_in_a_rotated_files_place_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    std::fs::write(&victim, b"precious").unwrap();
    let base = directory.path().join("l.pcapng");
    let second = ringtap::record::file_name(&base, Format::Pcapng, 2, 20_000_000_000);
    std::os::unix::fs::symlink(&victim, second).unwrap();
    let rotation = Rotation { time: Some(Duration::from_secs(10)), ..Rotation::default() };
    let (recorder, mut producer) = start(RecordConfig { rotation, ..RecordConfig::new(&base) });
    push(&mut producer, 1, b"first");
    push(&mut producer, 20_000_000_000, b"second");
    let summary = recorder.finish(Vec::new()).unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert_eq!((summary.packets, summary.lost.output_packets), (1, 1));
    assert!(summary.error.unwrap().to_string().starts_with("create "));
    assert_eq!(read(&summary.files[0]).len(), 1);
}

#[test]
fn what_cannot_be_recorded_is_told_before_the_capture_begins() {
    let directory = tempfile::tempdir().unwrap();
    let good = || RecordConfig::new(directory.path().join("g.pcapng"));
    let rotation = |rotation| RecordConfig { rotation, ..good() };
    let cases = [
        (RecordConfig::new(directory.path()), ErrorKind::Failed, "is a directory; name a file in it"),
        (RecordConfig::new(directory.path().join("no/such")), ErrorKind::Failed, "ENOENT"),
        (RecordConfig::new("/dev/full"), ErrorKind::Failed, "write to /dev/full: ENOSPC"),
        (RecordConfig::new("/proc/version"), ErrorKind::Failed, "/proc/version"),
        (RecordConfig { spools: 0, ..good() }, ErrorKind::Usage, "at least one"),
        (RecordConfig { spool_bytes: 100, ..good() }, ErrorKind::Usage, "at least 64 KiB"),
        (RecordConfig { spool_bytes: 1 << 45, ..good() }, ErrorKind::Failed, "use a smaller spool"),
        (RecordConfig { cpu: Some(4000), ..good() }, ErrorKind::Usage, "CPU 4000"),
        (rotation(Rotation { size: Some(0), ..Default::default() }), ErrorKind::Usage, "more than 0"),
        (rotation(Rotation { time: Some(Duration::ZERO), ..Default::default() }), ErrorKind::Usage, "more than 0"),
        (
            rotation(Rotation { size: Some(1), keep: Some(0), ..Default::default() }),
            ErrorKind::Usage,
            "keep at least one",
        ),
        (rotation(Rotation { keep: Some(2), ..Default::default() }), ErrorKind::Usage, "also rotate"),
        (
            RecordConfig { target: Target::Stdout, ..rotation(Rotation { size: Some(1), ..Default::default() }) },
            ErrorKind::Usage,
            "rotation needs files",
        ),
    ];
    for (config, kind, expected) in cases {
        let error = Recorder::start(config, ethernet()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error} // {expected}");
        assert_eq!(error.kind(), kind, "{error}");
    }
    let mixed = vec![ethernet().remove(0), InterfaceInfo { link_type: 105, ..ethernet().remove(0) }];
    let error = Recorder::start(RecordConfig::new(directory.path().join("x.pcap")), mixed).unwrap_err().to_string();
    assert!(error.contains("one link type only; use pcapng"), "{error}");
    let error = Recorder::start(good(), Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn pushed_is_written_plus_lost_to_the_packet() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("o.pcapng");
    let config = RecordConfig { spool_bytes: LEAST_SPOOL_BYTES, spools: 2, ..RecordConfig::new(&path) };
    let (recorder, producers) = Recorder::start(config, ethernet()).unwrap();
    let threads: Vec<_> = producers
        .into_iter()
        .map(|mut producer| {
            std::thread::spawn(move || {
                let (mut taken, mut refused_bytes) = (0_u64, 0_u64);
                for index in 0..100_000_u64 {
                    let data = &[1; 300][..(index % 300) as usize];
                    if producer.push(0, index, 300, data) {
                        taken += 1;
                    } else {
                        refused_bytes += data.len() as u64;
                    }
                    producer.wake();
                    // Two bursts with a pause: the writer falls asleep in between.
                    if index == 50_000 {
                        std::thread::sleep(Duration::from_millis(150));
                    }
                }
                assert_eq!(producer.lost(), (100_000 - taken, refused_bytes));
                (taken, refused_bytes)
            })
        })
        .collect();
    let (taken, refused_bytes) = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
    let summary = recorder.finish(Vec::new()).unwrap();
    assert_eq!(summary.packets, taken);
    assert_eq!(read(&path).len() as u64, taken);
    assert_eq!(summary.lost.packets(), 200_000 - taken);
    assert_eq!((summary.lost.spool_bytes, summary.lost.output_packets), (refused_bytes, 0));
}

#[test]
fn what_was_pushed_by_a_producer_that_is_gone_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.pcapng");
    let (recorder, producers) =
        Recorder::start(RecordConfig { spools: 2, ..RecordConfig::new(&path) }, ethernet()).unwrap();
    let mut producers = producers.into_iter();
    let mut first = producers.next().unwrap();
    std::thread::spawn(move || assert!(first.push(0, 1, 1, b"a"))).join().unwrap();
    let began = Instant::now();
    while recorder.packets() < 1 {
        assert!(began.elapsed() < PATIENCE, "a producer that ends wakes the writer");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut second = producers.next().unwrap();
    assert!(second.push(0, 2, 1, b"b"));
    drop(second);
    assert_eq!(recorder.finish(Vec::new()).unwrap().packets, 2);
}

#[test]
fn a_pipe_whose_reader_goes_away_is_an_error_told_once_and_losses_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(run("mkfifo", &[path.to_str().unwrap()]).status.success());
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            use std::io::Read;
            std::fs::File::open(path).unwrap().read_exact(&mut [0; 16]).unwrap();
        }
    });
    let (recorder, mut producer) = start(RecordConfig::new(&path));
    reader.join().unwrap();
    for index in 0..100 {
        push(&mut producer, index, b"lost");
    }
    let began = Instant::now();
    while recorder.error().is_none() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    let summary = recorder.finish(Vec::new()).unwrap();
    assert_eq!((summary.packets, summary.lost.output_packets, summary.lost.output_bytes), (0, 100, 400));
    let error = summary.error.unwrap().to_string();
    assert!(error.contains("EPIPE") && error.contains("its reader has gone; 0 packets were written before"), "{error}");
}

/// A disk of 256 KiB in a mount namespace of its own; the test runs itself again in there.
#[test]
fn net_a_full_disk_leaves_what_is_written_readable_and_the_rest_counted() {
    const INSIDE: &str = "RINGTAP_TEST_SMALL_DISK";
    if let Some(disk) = std::env::var_os(INSIDE) {
        return on_a_full_disk(Path::new(&disk));
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().to_str().unwrap();
    let program = std::env::current_exe().unwrap();
    let script = r#"mount -t tmpfs -o size=256k tmpfs "$1" && exec "$2" --exact "$3" --nocapture"#;
    let name = "net_a_full_disk_leaves_what_is_written_readable_and_the_rest_counted";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", disk, program.to_str().unwrap(), name])
        .env(INSIDE, disk)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("Operation not permitted"), "did not run: {name}: mounting a small disk needs root");
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn on_a_full_disk(disk: &Path) {
    for (name, format) in [("full.pcapng", Format::Pcapng), ("full.pcap", Format::Pcap)] {
        let path = disk.join(name);
        let (recorder, mut producer) = start(RecordConfig { format, ..RecordConfig::new(&path) });
        for index in 0..1000 {
            push(&mut producer, index, &[5; 1001]);
        }
        let summary = recorder.finish(Vec::new()).unwrap();
        let error = summary.error.unwrap().to_string();
        assert!(error.contains("ENOSPC") && error.contains(name) && error.contains("free some space"), "{error}");
        assert!(summary.packets > 100, "{}", summary.packets);
        assert_eq!(summary.packets + summary.lost.output_packets, 1000);
        assert_eq!(summary.lost.output_bytes, summary.lost.output_packets * 1001);
        assert_eq!(summary.lost.spool_packets, 0);
        let seen = read(&path);
        assert_eq!(seen.len() as u64, summary.packets, "all that is said to be written, whole and in order");
        assert!(seen.iter().map(|seen| seen.stamp_ns).eq(0..summary.packets));
        std::fs::remove_file(path).unwrap();
    }
}
