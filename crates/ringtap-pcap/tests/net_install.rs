//! `make install-pcap`: a program is built through its pkg-config file, the manual's ways to make the library the system's are
//! followed word by word on a copy of the system's folders, and all is undone.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{our_library, output, run, system_library};

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn make(target: &str, prefix: &str, destination: &str) {
    let built = format!("PCAP_BUILT={}", our_library().display());
    let mut make = Command::new("make");
    make.arg("-C").arg(root()).args([target, &format!("PREFIX={prefix}"), &format!("DESTDIR={destination}"), &built]);
    output(&mut make);
}

fn files(folder: &Path) -> Vec<String> {
    let listed = output(Command::new("find").arg(folder).args(["!", "-type", "d", "-printf", "%P\n"]));
    let mut names: Vec<_> = listed.lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn a_program_is_built_and_runs_with_what_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    make("install-pcap", prefix.to_str().unwrap(), "");
    let expected = ["lib/ringtap/libpcap.so", "lib/ringtap/pkgconfig/libpcap.pc", "share/man/man7/ringtap-pcap.7"];
    let installed = files(&prefix);
    assert!(expected.iter().all(|name| installed.iter().any(|file| file == name)), "{installed:?}");

    let pkg_config = |flag: &str| {
        let found = output(
            Command::new("pkg-config")
                .args([flag, "libpcap"])
                .env("PKG_CONFIG_PATH", prefix.join("lib/ringtap/pkgconfig")),
        );
        found.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (source, program) = (folder.path().join("version.c"), folder.path().join("version"));
    let text = "#include <pcap/pcap.h>\n#include <stdio.h>\nint main(void) { puts(pcap_lib_version()); return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-H"]).args(pkg_config("--cflags")).arg(&source).arg("-o").arg(&program);
    let built = run(cc.args(pkg_config("--libs")));
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success(), "{said}");
    let header = prefix.join("lib/ringtap/include/pcap/pcap.h");
    assert!(said.contains(header.to_str().unwrap()), "the installed header: {said}");
    let version = output(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib/ringtap")));
    assert!(version.contains("live capture by Ringtap"), "{version}");
    // Programs find it by the name they would find the system's by.
    let dynamic = output(Command::new("readelf").arg("-dW").arg(&program));
    let soname = system_library();
    let soname = output(Command::new("readelf").arg("-dW").arg(soname));
    let soname = soname.lines().find_map(|line| line.split_once("soname: [")?.1.strip_suffix(']')).unwrap().to_owned();
    assert!(dynamic.contains(&format!("Shared library: [{soname}]")), "{dynamic}");

    make("uninstall-pcap", prefix.to_str().unwrap(), "");
    assert_eq!(files(&prefix), [""; 0], "nothing is left");
}

/// As packagers do it: staged elsewhere, for the place it will have.
#[test]
fn a_staged_installation_speaks_of_its_final_place() {
    let stage = tempfile::tempdir().unwrap();
    make("install-pcap", "/opt/ringtap", stage.path().to_str().unwrap());
    let pc = std::fs::read_to_string(stage.path().join("opt/ringtap/lib/ringtap/pkgconfig/libpcap.pc")).unwrap();
    assert!(pc.contains("libdir=/opt/ringtap/lib/ringtap\n") && !pc.contains('@'), "{pc}");
}

/// The blocks of commands of the manual's last part: what makes it the system's, what undoes that, twice.
fn commands(prefix: &str, lib: &str) -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/ringtap-pcap.7")).unwrap();
    let part = page.split_once(".SH MAKING IT THE SYSTEM'S\n").unwrap().1;
    let blocks = part.split(".nf\n").skip(1).map(|rest| rest.split_once(".fi").unwrap().0);
    blocks.map(|block| block.replace("\\-", "-").replace("PREFIX", prefix).replace("LIB", lib)).collect()
}

/// On overlays in a mount namespace of its own: the real folders stay as they are.
#[test]
fn net_the_manuals_commands_make_it_the_systems_and_undo_that() {
    const TEST: &str = "net_the_manuals_commands_make_it_the_systems_and_undo_that";
    assert!(nix::unistd::Uid::effective().is_root(), "did not run: {TEST}: it needs root");
    assert!(Path::new("/usr/bin/dpkg-divert").exists(), "did not run: {TEST}: dpkg-divert is not there");
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    make("install-pcap", prefix.to_str().unwrap(), "");
    let lib = system_library().parent().unwrap().to_str().unwrap().to_owned();
    let blocks = commands(prefix.to_str().unwrap(), &lib);
    assert_eq!(blocks.len(), 4, "{blocks:?}");
    let says =
        "tcpdump --version 2>&1 | grep 'libpcap version'; ldconfig; tcpdump --version 2>&1 | grep 'libpcap version'";
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let script = format!(
        "set -e
mount -t tmpfs none {work}
for folder in {lib} /var/lib/dpkg /etc /var/cache/ldconfig; do
    place={work}/$(echo $folder | tr / _)
    mkdir -p $place/upper $place/work
    mount -t overlay none -o lowerdir=$folder,upperdir=$place/upper,workdir=$place/work $folder
done
{}
{says}
{}
{says}
{}
{says}
{}
{says}
",
        blocks[0],
        blocks[1],
        blocks[2],
        blocks[3],
        work = work.display(),
    );
    let done = run(Command::new("unshare").args(["--mount", "--propagation", "private", "bash", "-c", &script]));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let ours: Vec<bool> =
        said.lines().filter(|line| line.contains("libpcap version")).map(|line| line.contains("Ringtap")).collect();
    assert_eq!(ours, [true, true, false, false, true, true, false, false], "{said}");
    assert!(!Path::new(&lib).join("libpcap.so.99").exists(), "outside nothing has changed");
}
