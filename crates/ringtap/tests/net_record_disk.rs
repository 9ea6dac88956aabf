//! What a recording does when the disk has limits: size of a file, a full file system, one to be kept free; and a file that
//! was moved away. Each case mounts a small file system in a mount namespace of its own.

mod record_support;

use std::path::Path;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use record_support::{read, run};
use ringtap::record::{Format, InterfaceInfo, RecordConfig, Recorder, Rotation, SpoolProducer};
use ringtap::source::StampClock;

const KIB: usize = 1 << 10;

fn start(config: RecordConfig) -> (Recorder, SpoolProducer) {
    let (recorder, mut spools) =
        Recorder::start(config, vec![InterfaceInfo::ethernet("test0", StampClock::Realtime)]).unwrap();
    (recorder, spools.remove(0))
}

fn push(producer: &mut SpoolProducer, number: u64, bytes: usize) {
    assert!(producer.push_blocking(0, number + 1, bytes as u32, &vec![number as u8; bytes]));
    producer.wake();
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `work` on a thread with a file system of this size at a folder that only it sees.
fn on_disk_of(size: &str, work: impl FnOnce(&Path) + Send) {
    assert!(nix::unistd::Uid::effective().is_root(), "did not run: net_record_disk: it needs root");
    std::thread::scope(|scope| {
        let run = scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let options = format!("size={size}");
            mount(Some("none"), folder.path(), Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).unwrap();
            work(folder.path());
            nix::mount::umount(folder.path()).unwrap();
        });
        if let Err(panic) = run.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn net_a_full_disk_ends_the_recording_and_what_is_there_is_whole() {
    on_disk_of("512k", |folder| {
        let path = folder.join("full.pcapng");
        let (recorder, mut producer) = start(RecordConfig::new(&path));
        for number in 0..1000 {
            push(&mut producer, number, KIB);
        }
        wait_until("an error", || recorder.error().is_some());
        assert!(recorder.error().unwrap().to_string().contains("ENOSPC"), "{:?}", recorder.error());
        let summary = recorder.finish(Vec::new()).unwrap();
        assert!(summary.packets > 300 && summary.lost.output_packets > 300, "{summary:?}");
        assert_eq!(summary.packets + summary.lost.packets(), 1000);
        assert_eq!(read(&path).len() as u64, summary.packets);
    });
}

/// Bytes that do not compress.
fn noise(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..KIB).map(|_| next()).collect()
}

fn push_noise(producer: &mut SpoolProducer, packets: u64) {
    for number in 0..packets {
        assert!(producer.push_blocking(0, number + 1, KIB as u32, &noise(number)));
        producer.wake();
    }
}

/// The zstd program accepts the file, and so do we; how many packets are in it.
fn whole_zstd(path: &Path) -> u64 {
    let tested = run("zstd", &["-q", "-t", path.to_str().unwrap()]);
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
    read(path).len() as u64
}

#[test]
fn net_a_full_disk_leaves_a_complete_frame() {
    on_disk_of("512k", |folder| {
        let path = folder.join("full.pcapng.zst");
        let (recorder, mut producer) = start(RecordConfig::new(&path));
        // Slowly at first: what one write can't take is lost as a whole.
        push_noise(&mut producer, 100);
        wait_until("packets", || recorder.packets() == 100);
        push_noise(&mut producer, 1000);
        wait_until("an error", || recorder.error().is_some());
        assert!(recorder.error().unwrap().to_string().contains("ENOSPC"), "{:?}", recorder.error());
        let summary = recorder.finish(Vec::new()).unwrap();
        assert!(summary.packets >= 100 && summary.lost.output_packets > 300, "{summary:?}");
        assert_eq!(summary.packets + summary.lost.packets(), 1100);
        assert_eq!(whole_zstd(&path), summary.packets);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), summary.bytes);
    });
}

#[test]
fn net_so_much_of_the_disk_is_left_free() {
    on_disk_of("2m", |folder| {
        let free =
            || nix::sys::statvfs::statvfs(folder).map(|disk| disk.blocks_available() * disk.fragment_size()).unwrap();
        let path = folder.join("free.pcapng");
        let min_free = Some(1 << 20);
        let (recorder, mut producer) = start(RecordConfig { min_free, ..RecordConfig::new(&path) });
        for number in 0..3000 {
            push(&mut producer, number, KIB);
        }
        wait_until("an error", || recorder.error().is_some());
        let error = recorder.error().unwrap().to_string();
        assert!(error.contains("shall stay free; free some space, or lower --min-free"), "{error}");
        let summary = recorder.finish(Vec::new()).unwrap();
        assert!(free() >= 1 << 20, "{}", free());
        assert_eq!(summary.packets + summary.lost.packets(), 3000);
        assert_eq!(read(&path).len() as u64, summary.packets);
        std::fs::remove_file(&path).unwrap();

        // A recording that keeps a number of files gives up its oldest ones.
        let rotation = Rotation { size: Some(200 << 10), keep: Some(100), ..Rotation::default() };
        let (recorder, mut producer) = start(RecordConfig { min_free, rotation, ..RecordConfig::new(&path) });
        for number in 0..3000 {
            push(&mut producer, number, KIB);
        }
        let summary = recorder.finish(Vec::new()).unwrap();
        assert!(summary.error.is_none(), "{summary:?}");
        assert_eq!((summary.packets, summary.lost.packets()), (3000, 0));
        assert!(free() >= 1 << 20 && summary.deleted > 5, "{} free, {summary:?}", free());
        let last: Vec<u64> = summary.files.iter().flat_map(|file| read(file)).map(|seen| seen.stamp_ns).collect();
        assert!(last.len() > 300 && last.last() == Some(&3000), "{} packets", last.len());
        assert!(last.windows(2).all(|pair| pair[1] == pair[0] + 1), "the newest, without a gap");
    });
}

fn limit_file_size(limit: &str) {
    let pid = std::process::id().to_string();
    let done = run("prlimit", &["--pid", &pid, &format!("--fsize={limit}")]);
    assert!(done.status.success(), "{done:?}");
}

/// RLIMIT_FSIZE is of the process, so both cases are in one test; no other one of this program writes a larger file.
#[test]
fn net_a_limit_of_file_size_ends_no_process() {
    let folder = tempfile::tempdir().unwrap();
    // More than the other tests' disks hold.
    limit_file_size("4194304:unlimited");
    let path = folder.path().join("limit.pcapng");
    let (recorder, mut producer) = start(RecordConfig::new(&path));
    for number in 0..10_000 {
        push(&mut producer, number, KIB);
    }
    let summary = recorder.finish(Vec::new()).unwrap();
    let error = summary.error.as_ref().unwrap().to_string();
    assert!(error.contains("EFBIG") && error.contains("rotate by size"), "{error}");
    assert_eq!(summary.packets + summary.lost.packets(), 10_000);
    assert_eq!(read(&path).len() as u64, summary.packets);

    for format in [Format::Pcapng, Format::Pcap] {
        let path = folder.path().join("rotated").with_extension(format.extension());
        let rotation = Rotation { time: Some(Duration::from_secs(3600)), ..Rotation::default() };
        let (recorder, mut producer) = start(RecordConfig { rotation, ..RecordConfig::new(&path) });
        for number in 0..10_000 {
            push(&mut producer, number, KIB);
        }
        let summary = recorder.finish(Vec::new()).unwrap();
        assert!(summary.error.is_none(), "{summary:?}");
        assert_eq!((summary.packets, summary.lost.packets(), summary.files.len()), (10_000, 0, 3));
        let all: Vec<u64> = summary.files.iter().flat_map(|file| read(file)).map(|seen| seen.stamp_ns).collect();
        assert_eq!(all, (1..=10_000).collect::<Vec<_>>(), "each packet once, in order");
    }
    let rotation = Rotation { time: Some(Duration::from_secs(3600)), ..Rotation::default() };
    let path = folder.path().join("packed.pcapng.zst");
    let (recorder, mut producer) = start(RecordConfig { rotation, ..RecordConfig::new(&path) });
    push_noise(&mut producer, 10_000);
    let summary = recorder.finish(Vec::new()).unwrap();
    assert!(summary.error.is_none() && summary.files.len() > 1, "{summary:?}");
    assert_eq!((summary.packets, summary.lost.packets()), (10_000, 0));
    assert_eq!(summary.files.iter().map(|file| read(file).len()).sum::<usize>(), 10_000);
    limit_file_size("unlimited");
}

#[test]
fn a_file_that_was_moved_away_is_followed_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("log.pcapng"), folder.path().join("log.pcapng.1"));
    let (recorder, mut producer) = start(RecordConfig::new(&path));
    push(&mut producer, 0, 100);
    wait_until("a packet", || recorder.packets() == 1);
    assert!(!recorder.has_moved());
    recorder.reopen();
    push(&mut producer, 1, 100);
    wait_until("two packets", || recorder.packets() == 2);
    std::fs::rename(&path, &moved).unwrap();
    assert!(recorder.has_moved());
    recorder.reopen();
    wait_until("a new file", || path.exists());
    push(&mut producer, 2, 100);
    let summary = recorder.finish(Vec::new()).unwrap();
    assert!(summary.error.is_none(), "{summary:?}");
    assert_eq!(summary.files, std::slice::from_ref(&path));
    let stamps = |path: &Path| read(path).iter().map(|seen| seen.stamp_ns).collect::<Vec<_>>();
    assert_eq!((stamps(&moved), stamps(&path)), (vec![1, 2], vec![3]), "a file still there is left alone");
}
