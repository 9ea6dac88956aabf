//! `ringtap config`, and tables of options: faults with their lines, no secret shown, what options and file say together, the examples.

mod capture_support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use capture_support::{Ended, frames, ringtap};
use serde_json::Value;

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn text(ended: &Ended) -> String {
    String::from_utf8(ended.stdout.clone()).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One fault in each table that has one, all of them told.
#[test]
fn each_fault_is_told_with_its_line_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        folder.path(),
        "ringtap.toml",
        "[trap]\ncomunities = [\"s3cret\"]\n[bounds]\nflows = \"s3cret\"\n[blinding]\ninterval = -1\n[capture]\n\
         interfaces = \"eth1\"\nmax-latency = \"5\"\nbackend = \"xpd\"\ntake = \"yes\"\n[kafka]\nsasl = 1\n\
         [[correlate.sensor]]\nid = \"a\"\n[sensr]\n",
    );
    let ended = ringtap(&["config", "check", &file]);
    assert_eq!(ended.code(), 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    let faults = [
        (2, "unknown field `comunities`, the nearest known name is `communities`"),
        (4, "invalid type, expected"),
        (6, "invalid value, expected"),
        (8, "unknown field `interfaces`, the nearest known name is `interface`"),
        (9, "max-latency: \"5\" has no unit"),
        (10, "unknown value `xpd`, the nearest known name is `xdp`"),
        (11, "take: expected true or false"),
        (13, "invalid type, expected"),
        (14, "missing field `key-files`"),
        (16, "unknown table `sensr`"),
    ];
    for (line, what) in faults {
        let told = ended.stderr.lines().find(|told| told.contains(&format!("ringtap.toml:{line}: ")));
        assert!(told.is_some_and(|told| told.contains(what)), "{line}: {what}\n{}", ended.stderr);
    }
    assert_eq!(ended.stderr.lines().count(), faults.len(), "{}", ended.stderr);
    let shown = ringtap(&["config", "show", &file]);
    assert!(shown.code() == 1 && shown.stdout.is_empty(), "what is wrong is not in effect");
    let none = ringtap(&["config", "check", "/nowhere/ringtap.toml"]);
    assert!(none.code() == 1 && none.stderr.contains("/nowhere/ringtap.toml"), "{}", none.stderr);
    let broken = ringtap(&["config", "check", &write(folder.path(), "broken.toml", "[trap\n")]);
    assert!(broken.code() == 1 && broken.stderr.contains("broken.toml:1: "), "{}", broken.stderr);
}

/// What a program would find at its start, beyond the form.
#[test]
fn keys_that_exclude_one_another_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[capture]\ninterface = \"eth1\"\nwrite = \"a.pcapng\"\npcap-over-ip = 57012\nkeep = \"60s\"\n";
    let ended = ringtap(&["config", "check", &write(folder.path(), "both.toml", text)]);
    assert_eq!(ended.code(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("both.toml:5: ") && ended.stderr.contains("exclude one another"), "{}", ended.stderr);
    // What the program would not read is not right either.
    let open = write(folder.path(), "open.toml", "[capture]\ninterface = \"eth1\"\n");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o666)).unwrap();
    let ended = ringtap(&["config", "check", &open]);
    assert!(ended.code() == 1 && ended.stderr.contains("others may write it"), "{}", ended.stderr);
    // What is missing may be typed.
    let part = write(folder.path(), "part.toml", "[capture]\nrotate-keep = 3\n");
    assert_eq!(ringtap(&["config", "check", &part]).code(), 0);
}

#[test]
fn what_makes_no_sense_is_found_too() {
    let folder = tempfile::tempdir().unwrap();
    for (table, part) in [
        ("[[trap.user]]\nname = \"bob\"\nauth = \"SHA\"\nauth-password = \"s3cret\"\n", "at least 8"),
        ("[trap]\ntopology = \"/nowhere/network.toml\"\n", "/nowhere/network.toml"),
        ("[snmp]\nto = \"192.0.2.9:162\"\n", "community"),
        ("[alarms]\nkey = \"1:s3cret\"\n", "hexadecimal"),
        ("[iprep]\ncategories = \"/nowhere/categories\"\n", "/nowhere/categories"),
        ("[rules]\nthresholds = \"/nowhere/threshold.config\"\n", "/nowhere/threshold.config"),
        ("[overlap]\nnonsense = []\n", "nonsense"),
        ("[[correlate.sensor]]\nid = \"a\"\nkey-files = [\"a.key\"]\n", "a.key"),
        ("[kafka]\nsasl = \"PLAIN\"\n", "go together"),
        ("[discover]\n", "[[discover.user]]"),
    ] {
        let ended = ringtap(&["config", "check", &write(folder.path(), "ringtap.toml", table)]);
        assert!(ended.code() == 1 && ended.stderr.contains(part), "{table}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
}

#[test]
fn what_is_in_effect_has_defaults_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        folder.path(),
        "ringtap.toml",
        "[trap]\ncommunities = [\"s3cret\"]\n[[trap.user]]\nname = \"bob\"\nauth = \"SHA\"\nauth-password = \"s3cret42\"\n\
         [trap.webhook]\nurl = \"http://127.0.0.1:1/s3cret\"\n[alarms]\nkey = \"1:00112233445566778899aabbccddeeff\"\n\
         [capture]\ninterface = [\"eth1\", \"eth2\"]\nring = 4096\n",
    );
    let ended = ringtap(&["config", "show", &file]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let shown = text(&ended);
    assert!(!shown.contains("s3cret") && !shown.contains("00112233"), "{shown}");
    for line in [
        "# ringtap trap",
        "communities = [\"***\"]",
        "syslog-severity = 4  # default",
        "[[trap.user]]",
        "name = \"bob\"",
        "auth-password = \"***\"",
        "url = \"***\"",
        "# ringtap sensor",
        "key = \"***\"",
        "budget = 50000  # default",
        "# ringtap capture",
        "interface = [\"eth1\", \"eth2\"]",
        "ring = 4096",
        "max-latency = \"1ms\"  # default",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(!shown.contains("# ringtap split"), "it has no table: {shown}");
}

#[test]
fn options_that_are_typed_go_before_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut pcap = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1].map(u32::to_le_bytes).concat();
    let udp = frames::udp(99, 99, b"x");
    let frame = frames::ipv4(17, [192, 0, 2, 1], [192, 0, 2, 2], 0, &udp);
    for second in 0..5_u32 {
        let length = frame.len() as u32;
        pcap.extend([second, 0, length, length].map(u32::to_le_bytes).concat());
        pcap.extend(&frame);
    }
    let recorded = folder.path().join("five.pcap");
    std::fs::write(&recorded, pcap).unwrap();
    let recorded = recorded.to_str().unwrap();
    // With a file that is read, what is said of an interface does not count.
    let file =
        write(folder.path(), "ringtap.toml", "[capture]\ninterface = \"eth1\"\nring = 64\ncount = 3\njson = true\n");
    let counted = |arguments: &[&str]| {
        let ended = ringtap(&[&["capture", "--config", &file, "-r", recorded], arguments].concat());
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let object: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{}", text(&ended)));
        object["ledger"]["delivered"].clone()
    };
    assert_eq!(counted(&[]), 3);
    assert_eq!(counted(&["--count", "2"]), 2);
    let filtered = write(folder.path(), "filter.toml", "[capture]\nfilter = \"tcp\"\njson = true\n");
    for (words, delivered) in [(&[][..], 0), (&["udp"], 5)] {
        let ended = ringtap(&[&["capture", "--config", &filtered, "-r", recorded], words].concat());
        let object: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
        assert_eq!(object["ledger"]["delivered"], delivered, "{words:?}");
    }
    for (text, part) in [
        ("[capture]\nring = \"many\"\n", "c.toml:2: ring: "),
        ("[capture]\nwrit = \"x\"\n", "c.toml:2: unknown field `writ`, the nearest known name is `write`"),
        ("[captur]\n", "c.toml:1: unknown table `captur`, the nearest known name is `capture`"),
        ("[capture]\nrotate-keep = 3\n", "; options of [capture] of "),
    ] {
        let file = write(folder.path(), "c.toml", text);
        let ended = ringtap(&["capture", "--config", &file, "-r", recorded]);
        let is_one_line = ended.stderr.trim_end().lines().count() == 1;
        assert!(ended.code() == 2 && is_one_line && ended.stderr.contains(part), "{text}: {}", ended.stderr);
    }
    let outputs = write(
        folder.path(),
        "split.toml",
        "[split]\ninterface = \"lo\"\nout = \"a.pcapng\"\nby = \"flow\"\n\
        [forward]\nboth = true\n",
    );
    let ended = ringtap(&["split", "--config", &outputs, "--out-ring", "128"]);
    assert!(ended.code() == 2 && ended.stderr.contains("no output is an interface"), "{}", ended.stderr);
    let ended = ringtap(&["forward", "lo", "--config", &outputs]);
    assert!(ended.code() == 2 && ended.stderr.contains("<B>"), "{}", ended.stderr);
}

#[test]
fn the_examples_are_right() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "north.key", "1:00112233445566778899aabbccddeeff\n");
    write(folder.path(), "south.key", "1:ffeeddccbbaa99887766554433221100\n");
    write(folder.path(), "my.rules", "alert tcp any any -> any any (msg:\"x\"; sid:1;)\n");
    let examples = root().join("packaging/examples");
    let mut count = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let file = write(folder.path(), name, &std::fs::read_to_string(&path).unwrap());
        for command in ["check", "show"] {
            let ended = ringtap(&["config", command, &file]);
            assert_eq!(ended.code(), 0, "{name}: {}", ended.stderr);
            assert!(!text(&ended).contains("001122") && !text(&ended).contains("eight"), "{}", text(&ended));
        }
        count += 1;
    }
    assert_eq!(count, 4);
    let usual =
        write(folder.path(), "ringtap.toml", &std::fs::read_to_string(root().join("packaging/ringtap.toml")).unwrap());
    let ended = ringtap(&["config", "check", &usual]);
    assert!(ended.code() == 0 && text(&ended).contains("ringtap trap"), "{}", ended.stderr);
}

/// The types that read the file say what may be in it: page and schema are made from them.
#[test]
fn page_and_schema_are_of_what_is_read() {
    let page = text(&ringtap(&["config", "schema", "--markdown"]));
    let kept = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap_or_default();
    assert!(page == kept, "write it anew: ringtap config schema --markdown > docs/configuration.md");
    for (line, part) in page.lines().map(|line| (line, line.trim())) {
        let is_key = part.starts_with("| `");
        assert!(!is_key || !part.ends_with("|  |"), "a key without a meaning: {line}");
    }
    let schema: Value = serde_json::from_slice(&ringtap(&["config", "schema"]).stdout).unwrap();
    let tables = schema["properties"].as_object().unwrap();
    assert_eq!(tables.len(), 15);
    assert_eq!(tables["trap"]["properties"]["communities"]["items"]["writeOnly"], true);
    assert_eq!(tables["bounds"]["properties"]["budget"]["default"], 50_000);
    assert_eq!(tables["capture"]["properties"]["take"]["type"], "boolean");
}
