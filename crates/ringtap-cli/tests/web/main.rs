//! The page of a running program (`--web`), as a browser shows it: the station's and the correlator's, which need no privileges. Those of
//! capture, sensor and forwarder are in the tests of these.

mod browser;

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use browser::Browser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// What no test should ever wait for.
const PATIENCE: Duration = Duration::from_secs(60);
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
/// What a hostile device might send.
const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>";

/// A program that ends with the test.
struct Program(Child);

impl Program {
    /// Starts it and waits until its page answers.
    fn start(arguments: &[&str], page: SocketAddr) -> Self {
        let mut command = Command::new(RINGTAP);
        command.args(arguments).args(["--web", &page.to_string()]);
        let mut this = Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(page).is_err() {
            assert!(Instant::now() < until && this.0.try_wait().unwrap().is_none(), "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        this
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// A port that is free for TCP and UDP.
fn free() -> SocketAddr {
    loop {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

/// A trap of version 2c by net-snmp: linkDown of an interface, with a description.
fn link_down(to: SocketAddr, interface: u32, describes: &str) {
    let (index, text) = (interface.to_string(), describes);
    let object = |name: &str| format!("1.3.6.1.2.1.2.2.1.{name}.{interface}");
    let status = Command::new("snmptrap")
        .args(["-m", "", "-v2c", "-c", "public", &to.to_string(), "", "1.3.6.1.6.3.1.1.5.3"])
        .args([&object("1"), "i", &index, &object("7"), "i", "1", &object("8"), "i", "2", &object("2"), "s", text])
        .status()
        .unwrap_or_else(|error| panic!("did not run: snmptrap: {error}"));
    assert!(status.success());
}

fn station(folder: &Path, more: &[&str]) -> (Program, SocketAddr, String) {
    let (snmp, page) = (free(), free());
    let store = folder.join("store");
    let arguments = ["trap", "--listen", &snmp.to_string(), "--store", store.to_str().unwrap()];
    (Program::start(&[&arguments, more].concat(), page), snmp, format!("http://{page}"))
}

#[test]
fn alarms_come_live_and_nothing_from_the_network_is_markup() {
    let folder = tempfile::tempdir().unwrap();
    let (_station, snmp, page) = station(folder.path(), &[]);
    let browser = Browser::open(1280, 900, true);
    browser.go(&page);
    browser.wait_for_all("#liveness", "live");
    browser.wait_for("#alarms", "none");
    link_down(snmp, 7, HOSTILE);
    // Nobody loaded it again.
    browser.wait_for("#alarms tbody", "linkDown");
    browser.wait_for("#verdict", "Nothing lost");
    // By the keyboard alone: past the skip link and the heading's, to the alarm; and its page.
    browser.keys(TAB);
    assert_eq!(browser.text(":focus"), "Skip to the content");
    // Tables that scroll can be reached, too.
    let reached = (0..6).any(|_| {
        browser.keys(TAB);
        browser.text(":focus") == "1"
    });
    assert!(reached, "the alarm can't be reached: {}", browser.text(":focus"));
    // What has the focus keeps it while the parts are replaced.
    link_down(snmp, 8, "quiet");
    let rows = "return document.querySelectorAll('#alarms tbody tr').length";
    let until = Instant::now() + PATIENCE;
    while browser.script(rows) != 2 {
        assert!(Instant::now() < until, "the second alarm does not come");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(browser.text(":focus"), "1", "the focus is where it was");
    browser.picture("station");
    browser.keys(ENTER);
    browser.wait_for("h2", "Alarm 1");
    browser.wait_for("#notifications", "<img src=x onerror=");
    assert_eq!(browser.script("return document.images.length + document.querySelectorAll('main script').length"), 0);
    assert!(!browser.script("return document.title").as_str().unwrap().contains("taken"));
    browser.picture("station-alarm");
    // No alarm, and no path.
    for path in ["/alarm/99", "/alarm/x", "/nothing/1", "/nothing"] {
        browser.go(&format!("{page}{path}"));
        browser.wait_for("h2", "Nothing here");
    }
}

#[test]
fn a_page_is_whole_without_scripts_on_a_phone_and_in_the_dark() {
    let folder = tempfile::tempdir().unwrap();
    let (_station, snmp, page) = station(folder.path(), &[]);
    for interface in 1..=30 {
        link_down(snmp, interface, &"a very long description ".repeat(10));
    }
    let browser = Browser::open(500, 900, false);
    let until = Instant::now() + PATIENCE;
    loop {
        browser.go(&page);
        if browser.text("#alarms").matches("linkDown").count() == 30 {
            break;
        }
        assert!(Instant::now() < until, "{}", browser.text("body"));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(browser.text("#liveness"), "as of this moment");
    assert_eq!(browser.script("return document.querySelectorAll('noscript meta[http-equiv=refresh]').length"), 1);
    let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.script(overflow), 0, "wide tables scroll by themselves");
    // Each table is named, each column has a heading.
    let unnamed =
        "return [...document.querySelectorAll('table')].filter(t => !t.caption && !t.closest('details')).length
        + [...document.querySelectorAll('thead th')].filter(h => h.scope !== 'col').length";
    assert_eq!(browser.script(unnamed), 0);
    browser.picture("station-phone");
}

#[test]
fn beyond_loopback_a_token_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (_station, _, page) = station(folder.path(), &["--web-token", token.to_str().unwrap()]);
    let browser = Browser::open(1280, 900, true);
    browser.go(&format!("{page}/alarm/1"));
    browser.wait_for("label", "Token");
    browser.picture("token");
    browser.keys(&format!("wrong{ENTER}"));
    browser.wait_for("[role=alert]", "This is not the token.");
    browser.keys(&format!("0123456789abcdef0123456789abcdef{ENTER}"));
    browser.wait_for("h1", "ringtap trap");
    browser.wait_for_all("#liveness", "live");
    assert!(!browser.script("return document.cookie + location.href").as_str().unwrap().contains("0123456789abcdef"));
    // Who asks for metrics has it in a header.
    let status = |header: Option<&str>| {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent: ureq::Agent = config.into();
        let ask = agent.get(format!("{page}/metrics"));
        let ask = header.into_iter().fold(ask, |ask, value| ask.header("Authorization", value));
        ask.call().unwrap().status().as_u16()
    };
    assert_eq!(status(None), 401);
    assert_eq!(status(Some("Bearer 0123456789abcdef0123456789abcdef")), 200);
}

#[test]
fn without_a_token_it_stays_on_loopback() {
    let output =
        Command::new(RINGTAP).args(["trap", "--listen", "127.0.0.1:0", "--web", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("--web-token FILE"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let (_station, _, page) = station(folder.path(), &[]);
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent: ureq::Agent = config.into();
    // A page of somebody else's whose name was made to lead here.
    let misled = agent.get(format!("{page}/")).header("Host", "rebound.example").call().unwrap();
    assert_eq!(misled.status(), 421);
    let changes = agent.post(format!("{page}/alarm/1")).send("clear=1").unwrap();
    assert_eq!(changes.status(), 405);
    let policy = agent.get(format!("{page}/")).call().unwrap();
    assert!(policy.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
}
