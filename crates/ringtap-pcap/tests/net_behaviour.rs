//! tests/c/behaviour on every back end, and on the system's libpcap as the judge of the test itself.

mod support;

use std::process::Command;
use std::sync::OnceLock;

use ringtap_testbed::{Testbed, TestbedConfig};
use support::clients::{Library, on_each};
use support::{compile, our_folder, output, run};

/// Cases that hold for the system's libpcap too. The others speak of what it leaves open (a timeout while nothing comes, a
/// ring's drops) or of what only ours promises.
const COMMON: [&str; 20] = [
    "counts",
    "immediate",
    "nonblocking",
    "storm",
    "breakloop",
    "setfilter",
    "stamps",
    "stamp_types",
    "vlan",
    "inject",
    "removal",
    "removal_by_descriptor",
    "down_and_up",
    "devices",
    "privilege",
    "errors",
    "nested",
    "fork",
    "napi_pause",
    "cancel",
];

const OURS: [Library; 3] = [Library::Ours("packet"), Library::Ours("xdp"), Library::Ours("socket")];

struct Tools {
    program: std::path::PathBuf,
    library: tempfile::TempDir,
    _folder: tempfile::TempDir,
}

fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        Tools { program: compile("behaviour", folder.path(), &[]), library: our_folder(), _folder: folder }
    })
}

/// Runs one case with each library at the same time.
fn cases(name: &str, libraries: &[Library], settings: &[(&str, &str)]) {
    on_each(libraries, |library| case(name, library, settings));
}

/// Runs one case on a fresh pair of interfaces. The settings are of our library.
fn case(name: &str, library: Library, settings: &[(&str, &str)]) {
    assert!(nix::unistd::Uid::effective().is_root(), "did not run: {name}: it needs root");
    let mtu = if name == "oversize" { 60_000 } else { 1500 };
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let tools = tools();
    let done = testbed.receiver().run(|| {
        let add = format!("link add cap0 mtu {mtu} type veth peer name peer0 mtu {mtu}");
        output(Command::new("ip").args(add.split_whitespace()));
        for end in ["cap0", "peer0"] {
            // Nothing is on the wire but what the case sends.
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").ok();
            output(Command::new("ip").args(["link", "set", end, "up"]));
        }
        if name == "refused_filter" {
            // The namespace's own limit; older kernels have one for all, which is left alone.
            std::fs::write("/proc/sys/net/core/optmem_max", "1024").ok();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut command = Command::new("timeout");
        command.arg("60").arg(&tools.program).args([name, "cap0", "peer0"]);
        if let Library::Ours(backend) = library {
            command.env("RINGTAP_TEST_OURS", "1").env("RINGTAP_BACKEND", backend);
            command.env("LD_LIBRARY_PATH", tools.library.path()).envs(settings.iter().copied());
        }
        run(&mut command)
    });
    let done = done.unwrap();
    assert!(done.status.success(), "{name} on {library:?}: {} {}", done.status, String::from_utf8_lossy(&done.stderr));
}

macro_rules! cases {
    ($($test:ident: $name:literal $(with $settings:expr)?;)*) => {
        $(
            #[test]
            fn $test() {
                let settings: &[(&str, &str)] = &[$($settings)?];
                let system = COMMON.contains(&$name).then_some(Library::System);
                cases($name, &OURS.into_iter().chain(system).collect::<Vec<_>>(), settings);
            }
        )*
    };
}

cases! {
    net_counts_of_dispatch_loop_and_next: "counts";
    net_timeouts_end_a_call: "timeout";
    net_immediate_mode_does_not_wait: "immediate";
    net_nonblocking_with_a_descriptor: "nonblocking";
    net_select_before_blocking_dispatch: "select_blocking";
    net_storm_by_timer: "storm";
    net_breakloop_from_signal_thread_and_callback: "breakloop";
    net_setfilter_while_running: "setfilter";
    net_snapshot_length: "snaplen";
    net_time_stamps: "stamps";
    net_time_stamp_types: "stamp_types";
    net_vlan_tags_are_where_they_were: "vlan";
    net_directions: "direction";
    net_inject_and_sendpacket: "inject";
    net_interface_removed: "removal";
    net_interface_removed_while_polled: "removal_by_descriptor";
    net_interface_down_and_up_again: "down_and_up";
    net_devices_are_listed_as_always: "devices";
    net_no_privilege_has_its_code_and_words: "privilege";
    net_errors_have_libpcaps_codes_and_words: "errors";
    net_counters_add_up: "stats" with ("RINGTAP_RING", "512");
    net_calls_from_the_callback: "nested";
    net_fork_chroot_and_setuid_after_opening: "fork";
    net_napi_is_as_before_however_a_client_ends: "napi_pause";
    net_open_close_cycles_leave_nothing: "cycles";
    net_a_thread_is_cancelled_and_joined: "cancel";
    net_counts_are_asked_for_by_handlers_and_threads: "asked_meanwhile";
    net_callbacks_may_jump_away: "jump" with ("RINGTAP_RING", "512");
}

/// The kernel's limit for socket options is lowered below what the filter takes.
#[test]
fn net_filters_that_the_kernel_refuses_run_in_user_space() {
    cases("refused_filter", &OURS, &[]);
}

/// AF_XDP has no frames that large, and opens nothing then.
#[test]
fn net_packets_larger_than_a_frame_are_whole() {
    cases("oversize", &[Library::Ours("packet"), Library::Ours("auto"), Library::System], &[]);
}

/// What is asked of the environment is refused by name.
#[test]
fn net_wrong_settings_are_named() {
    let tools = tools();
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-i", "lo", "-c", "1"]).env("LD_LIBRARY_PATH", tools.library.path());
    let said = run(tcpdump.env("RINGTAP_MAX_LATENCY", "soon"));
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("RINGTAP_MAX_LATENCY: \"soon\" is no time"), "{text}");
}
