//! The testbed itself: hosts, wire, silence, parallel runs, and that nothing is left however the process ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap::netdev;
use ringtap_testbed::{
    GeneratorConfig, NAMESPACE_MARK, NAPI_PRIORITY, Pattern, Profile, Testbed, TestbedConfig, WireCounters,
    in_testbed_namespace,
};

fn testbed() -> Testbed {
    Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn interfaces() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| fs::metadata(format!("/sys/class/net/{name}/ifindex")).is_ok())
        // Fallback tunnels that some kernels put into every namespace.
        .filter(|name| name == "lo" || name.starts_with("snd") || name.starts_with("rcv") || name == "eth0")
        .collect();
    names.sort();
    names
}

#[test]
fn net_hosts_see_their_own_devices_and_each_other() {
    let testbed = testbed();
    let outside = interfaces();
    for (host, peer) in [(testbed.sender(), testbed.receiver()), (testbed.receiver(), testbed.sender())] {
        assert_eq!(host.run(interfaces).unwrap(), ["lo", host.interface()]);
        assert!(host.run(in_testbed_namespace).unwrap().unwrap());
        assert_eq!(
            host.run(|| fs::read_to_string("/sys/class/net/lo/ifalias")).unwrap().unwrap().trim(),
            NAMESPACE_MARK
        );
        for (own, other) in [
            (IpAddr::V4(host.link().ipv4), IpAddr::V4(peer.link().ipv4)),
            (IpAddr::V6(host.link().ipv6), IpAddr::V6(peer.link().ipv6)),
        ] {
            let listener = peer.run(|| UdpSocket::bind((other, 7)).unwrap()).unwrap();
            listener.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            host.run(|| UdpSocket::bind((own, 0)).unwrap().send_to(b"hello", (other, 7)).unwrap()).unwrap();
            let mut buffer = [0; 16];
            let (length, from) = listener.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.ip()), (&b"hello"[..], own));
        }
    }
    assert_eq!(interfaces(), outside, "the machine's own devices are untouched");
    assert!(!in_testbed_namespace().unwrap());
}

#[test]
fn net_wire_is_silent() {
    let testbed = testbed();
    testbed.enable_receiver_napi().unwrap();
    let before = WireCounters::read(&testbed).unwrap();
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(WireCounters::read(&testbed).unwrap(), before);
}

#[test]
fn net_testbeds_run_beside_each_other() {
    thread::scope(|scope| {
        for count in [100u64, 200, 300, 400] {
            scope.spawn(move || {
                let testbed = testbed();
                testbed.enable_receiver_napi().unwrap();
                let before = WireCounters::read(&testbed).unwrap();
                let config = GeneratorConfig {
                    priority: None,
                    ..GeneratorConfig::for_testbed(&testbed, 64, Profile::endless(Pattern::Constant { pps: 20e3 }))
                };
                let report = testbed.generate(config.count(count)).unwrap().join().unwrap();
                let after = WireCounters::read(&testbed).unwrap();
                assert_eq!(report.accepted, Some(count));
                let received = |wire: &WireCounters| wire.receiver.link("rx_packets").unwrap();
                assert_eq!(received(&after) - received(&before), count);
            });
        }
    });
}

#[test]
fn net_programs_run_inside_and_end_with_their_handle() {
    let testbed = testbed();
    let output = testbed.receiver().run(|| Command::new("ip").args(["-brief", "link"]).output().unwrap()).unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(testbed.receiver().interface()));
    let mut command = testbed.receiver().command("sleep");
    command.arg("1000").stdout(Stdio::null());
    let mut program = testbed.receiver().start(command).unwrap();
    let pid = program.child().id();
    assert!(fs::metadata(format!("/proc/{pid}")).is_ok());
    drop(program);
    assert!(fs::metadata(format!("/proc/{pid}")).is_err());
    let absent = testbed.receiver().start(testbed.receiver().command("no-such-program"));
    // setpriv starts and then finds nothing to execute.
    assert_eq!(absent.unwrap().child().wait().unwrap().code(), Some(127));
}

#[test]
fn net_panic_inside_comes_out() {
    let testbed = testbed();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        testbed.sender().run(|| panic!("inside")).unwrap();
    }));
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
}

#[test]
fn net_napi_thread_is_placed() {
    let testbed = testbed();
    let core = testbed.config().receiver_core;
    let too_early = testbed.pin_napi(core).unwrap_err().to_string();
    assert!(too_early.contains("attach the receiver first"), "{too_early}");
    testbed.enable_receiver_napi().unwrap();
    let threads = testbed.pin_napi(core).unwrap();
    assert_eq!(threads.len(), 1);
    let index = testbed.receiver().link().index;
    assert_eq!(testbed.receiver().run(|| netdev::napi_threads(index)).unwrap().unwrap(), threads, "as the kernel says");
    let stat = fs::read_to_string(format!("/proc/{}/stat", threads[0])).unwrap();
    // proc(5): fields 40 and 41 are priority and policy; the name, field 2, may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    assert_eq!((fields[37], fields[38]), (NAPI_PRIORITY.to_string().as_str(), "1"));
    let allowed = fs::read_to_string(format!("/proc/{}/status", threads[0])).unwrap();
    assert!(allowed.contains(&format!("Cpus_allowed_list:\t{core}\n")), "{allowed}");
    testbed.unpin_napi().unwrap();
    assert_eq!(testbed.receiver().run(|| netdev::napi_threads(index)).unwrap().unwrap(), Vec::<i32>::new());
}

#[test]
fn net_absurd_testbeds_are_refused() {
    for (config, word) in [
        (TestbedConfig { queues: 0, ..TestbedConfig::default() }, "0 queues"),
        (TestbedConfig { mtu: 100, ..TestbedConfig::default() }, "MTU 100"),
        (TestbedConfig { receiver_core: 10_000, ..TestbedConfig::default() }, "CPU 10000"),
    ] {
        let error = Testbed::new(config).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

const CHILD: &str = "RINGTAP_TESTBED_TO_BE_KILLED";

/// Not a test by itself: what the next test kills, in a process of its own.
#[test]
fn net_child_that_is_killed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let testbed = testbed();
    testbed.enable_receiver_napi().unwrap();
    let napi = testbed.pin_napi(testbed.config().receiver_core).unwrap();
    let config = GeneratorConfig {
        priority: None,
        ..GeneratorConfig::for_testbed(&testbed, 64, Profile::endless(Pattern::Constant { pps: 5e3 }))
    };
    // Bounded, should the parent fail to kill us.
    let generator = testbed.generate(config.count(150_000)).unwrap();
    let mut command = testbed.sender().command("sleep");
    command.arg("30").stdout(Stdio::null()).stderr(Stdio::null());
    let mut program = testbed.sender().start(command).unwrap();
    // setpriv asks for its end with ours before it becomes the program; until then it would outlive us.
    let comm = format!("/proc/{}/comm", program.child().id());
    while fs::read_to_string(&comm).unwrap().trim() != "sleep" {
        thread::sleep(Duration::from_millis(1));
    }
    println!("running {} {}", napi[0], program.child().id());
    let _ = generator.join();
}

#[test]
fn net_nothing_is_left_after_sigkill() {
    drop(testbed());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "net_child_that_is_killed", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The harness prints its own words first, on the same line or on others.
    let ids: Vec<i32> = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| {
            let (_, rest) = line.split_once("running ")?;
            let ids: Vec<i32> = rest.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            (ids.len() == 2).then_some(ids)
        })
        .expect("the child says what it started");
    let alive = |id: i32| fs::metadata(format!("/proc/{id}")).is_ok();
    assert!(ids.iter().all(|&id| alive(id)));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    // The NAPI thread ends when the device goes, and the device goes with the last descriptor of its namespace.
    let until = Instant::now() + Duration::from_secs(20);
    while ids.iter().any(|&id| alive(id)) {
        assert!(Instant::now() < until, "still there: {ids:?} (NAPI thread of the device, program inside)");
        thread::sleep(Duration::from_millis(20));
    }
}
