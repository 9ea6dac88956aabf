//! What is announced, posted within TLS and with a token: to a server of Python's standard library, and to Prometheus' Alertmanager.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use ringtap_snmp::encode::{Item, Trap};
use serde_json::Value;

use crate::support::{IF_INDEX, PATIENCE, Station, config, link_down, port, run, send};

/// Answers each POST with the next of these statuses, and then with 200; says what it got.
const SERVER: &str = r#"
import http.server, json, ssl, sys
answers = [int(code) for code in sys.argv[4].split(",") if code]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        code = answers.pop(0) if answers else 200
        print(json.dumps({"code": code, "path": self.path, "authorization": self.headers["authorization"], "body": json.loads(body)}), flush=True)
        self.send_response(code)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *arguments):
        pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[3])), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(json.dumps(server.server_port), flush=True)
server.serve_forever()
"#;

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A receiver within TLS.
struct Server {
    _program: Program,
    port: u16,
    requests: Receiver<Value>,
}

impl Server {
    fn start(test: &str, folder: &Path, port: u16, answers: &str) -> Self {
        let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", SERVER, &at("server.pem"), &at("server.key"), &port.to_string(), answers])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("did not run: {test}: python3: {error}"));
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = said.next().expect("the server starts").unwrap().parse().unwrap();
        let (tell, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for line in said.map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).unwrap());
            }
        });
        Self { _program: Program(child), port, requests }
    }

    fn next(&self) -> Value {
        self.requests.recv_timeout(PATIENCE).unwrap()
    }
}

/// A certificate for this host in `server.pem` with `server.key`, signed by `ca.pem`; another authority in `other.pem`.
fn certificates(test: &str, folder: &Path) -> PathBuf {
    let openssl = |arguments: &str| {
        let arguments: Vec<String> =
            arguments.split(' ').map(|word| word.replace("@", &format!("{}/", folder.display()))).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(test, "openssl", &arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    for name in ["ca", "other"] {
        openssl(&format!("{new} -subj /CN={name} -keyout @{name}.key -out @{name}.pem"));
    }
    openssl(&format!(
        "{new} -subj /CN=localhost -CA @ca.pem -CAkey @ca.key -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext \
         basicConstraints=CA:FALSE -keyout @server.key -out @server.pem"
    ));
    folder.join("ca.pem")
}

fn token(folder: &Path) -> PathBuf {
    let path = folder.join("token");
    std::fs::write(&path, "s3cret-token\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn link(index: u32) -> Trap {
    let mut name = IF_INDEX;
    name[10] = index;
    Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&name, Item::Integer(index.into()))
}

/// The objects of announcements, in order.
fn objects(request: &Value) -> Vec<u64> {
    let all = request["body"].as_array().unwrap().iter();
    all.map(|it| it["object"].as_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn net_trap_posts_within_tls_with_a_token_and_loses_nothing_over_kills_of_both() {
    const TEST: &str = "net_trap_posts_within_tls_with_a_token_and_loses_nothing_over_kills_of_both";
    let folder = tempfile::tempdir().unwrap();
    let ca = certificates(TEST, folder.path());
    let token = token(folder.path());
    let server = Server::start(TEST, folder.path(), 0, "503,401");
    // By name: the sandbox lets it be looked up.
    let text = format!(
        "[trap.webhook]\nurl = \"https://localhost:{}/alarms?key=s3cret-key\"\ntoken-file = {token:?}\nca = {ca:?}\n",
        server.port
    );
    let config = config(folder.path(), &text);
    let (store, address) = (folder.path().join("store"), format!("127.0.0.1:{}", port()));
    let arguments = ["--listen", &address, "--config", &config];
    let station = Station::start(&store, &arguments);
    send(&link(1), &address);
    for code in [503, 401, 200] {
        let request = server.next();
        assert_eq!(
            (&request["code"], &request["authorization"], &request["path"]),
            (&code.into(), &"Bearer s3cret-token".into(), &"/alarms?key=s3cret-key".into()),
            "{request}"
        );
        assert_eq!((objects(&request), &request["body"][0]["announcement"]), (vec![1], &1.into()));
    }
    // The receiver is gone, and the station killed.
    let port = server.port;
    drop(server);
    (2..=4).for_each(|index| send(&link(index), &address));
    drop(station.wait_for(4));
    // What is announced is in the store a moment later.
    std::thread::sleep(Duration::from_millis(500));
    station.kill();
    let station = Station::start(&store, &arguments);
    send(&link(5), &address);
    drop(station.wait_for(5));
    let server = Server::start(TEST, folder.path(), port, "");
    let mut heard = Vec::new();
    while heard.last() != Some(&5) {
        heard.extend(objects(&server.next()));
    }
    // It may have been posted and its cursor not written when it was killed.
    heard.retain(|object| *object != 1);
    assert_eq!(heard, [2, 3, 4, 5]);
    let ended = station.end_anyhow();
    let object = ended.said.last().unwrap();
    assert_eq!(
        (&object["not_told"], &object["posts"]["webhook"]["waiting"], &object["posts"]["webhook"]["lost"]),
        (&0.into(), &0.into(), &0.into()),
        "{object}"
    );
    assert!(ended.errors.contains(&format!("webhook at https://localhost:{port}: ")), "{}", ended.errors);
    assert!(ended.errors.contains("it takes announcements again"), "{}", ended.errors);
    assert!(!ended.errors.contains("s3cret"), "{}", ended.errors);
}

#[test]
fn net_trap_posts_to_nobody_whose_certificate_is_not_trusted() {
    const TEST: &str = "net_trap_posts_to_nobody_whose_certificate_is_not_trusted";
    let folder = tempfile::tempdir().unwrap();
    certificates(TEST, folder.path());
    let (token, other) = (token(folder.path()), folder.path().join("other.pem"));
    let server = Server::start(TEST, folder.path(), 0, "");
    let text = format!(
        "[trap.webhook]\nurl = \"https://localhost:{}/\"\ntoken-file = {token:?}\nca = {other:?}\n",
        server.port
    );
    let config = config(folder.path(), &text);
    let (store, address) = (folder.path().join("store"), format!("127.0.0.1:{}", port()));
    let station = Station::start(&store, &["--listen", &address, "--config", &config]);
    send(&link_down(), &address);
    drop(station.wait_for(1));
    std::thread::sleep(Duration::from_secs(1));
    let ended = station.end_anyhow();
    let object = ended.said.last().unwrap();
    assert_eq!((&object["posts"]["webhook"]["waiting"], &object["not_told"]), (&1.into(), &0.into()), "{object}");
    assert!(ended.succeeded && ended.errors.contains("ertificate"), "{}", ended.errors);
    assert!(server.requests.try_recv().is_err(), "not a byte of it, and no token");
}

#[test]
fn net_trap_posts_around_what_is_refused_for_good() {
    const TEST: &str = "net_trap_posts_around_what_is_refused_for_good";
    let folder = tempfile::tempdir().unwrap();
    let ca = certificates(TEST, folder.path());
    // The first three wait for one POST; that is refused, then the first of them alone.
    let server = Server::start(TEST, folder.path(), 0, "503,400,400");
    let text = format!("[trap.webhook]\nurl = \"https://127.0.0.1:{}/\"\nca = {ca:?}\n", server.port);
    let config = config(folder.path(), &text);
    let (store, address) = (folder.path().join("store"), format!("127.0.0.1:{}", port()));
    let station = Station::start(&store, &["--listen", &address, "--config", &config]);
    send(&link(1), &address);
    assert_eq!(server.next()["code"], 503);
    (2..=3).for_each(|index| send(&link(index), &address));
    let mut taken = Vec::new();
    while taken.last() != Some(&3) {
        let request = server.next();
        if request["code"] == 200 {
            taken.extend(objects(&request));
        }
    }
    let object = station.end();
    let (refused, posted) = (&object["posts"]["webhook"]["refused"], &object["posts"]["webhook"]["posted"]);
    assert_eq!(
        (refused.as_u64().unwrap() + posted.as_u64().unwrap(), taken.len() as u64),
        (3, posted.as_u64().unwrap())
    );
    assert_eq!((refused, &object["not_told"]), (&object["not_told"], refused), "{object}");
    assert!(refused.as_u64() >= Some(1), "{object}");
}

/// The alerts that an Alertmanager has now, by its own interface.
fn alerts(port: u16) -> Option<Vec<Value>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET /api/v2/alerts HTTP/1.0\r\nhost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

#[test]
fn net_trap_alarms_are_alerts_of_a_real_alertmanager_until_they_are_cleared() {
    const TEST: &str = "net_trap_alarms_are_alerts_of_a_real_alertmanager_until_they_are_cleared";
    let folder = tempfile::tempdir().unwrap();
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let to = free();
    let file = folder.path().join("alertmanager.yml");
    std::fs::write(&file, "route:\n  receiver: nobody\nreceivers:\n  - name: nobody\n").unwrap();
    let start = || {
        let child = Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{to}"))
            .arg("--cluster.listen-address=")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("did not run: {TEST}: prometheus-alertmanager: {error}"));
        Program(child)
    };
    let wait_for = |what: &str, is_it: &dyn Fn(&[Value]) -> bool| {
        let until = Instant::now() + PATIENCE;
        loop {
            let there = alerts(to);
            if there.as_deref().is_some_and(is_it) {
                return there.unwrap();
            }
            assert!(Instant::now() < until, "{what}: {there:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let program = start();
    let text = format!(
        "[trap.alertmanager]\nurl = \"http://127.0.0.1:{to}/\"\nresend = \"1s\"\nlabels = {{ site = \"north\" }}\n"
    );
    let config = config(folder.path(), &text);
    let (store, address) = (folder.path().join("store"), format!("127.0.0.1:{}", port()));
    let station = Station::start(&store, &["--listen", &address, "--config", &config]);
    (3..=4).for_each(|index| send(&link(index), &address));
    let there = wait_for("two alerts", &|alerts| alerts.len() == 2);
    let third = there.iter().find(|alert| alert["labels"]["object"] == "3").unwrap();
    let labels = serde_json::json!({
        "alertname": "linkDown", "instance": "127.0.0.1", "object": "3", "severity": "major", "site": "north",
    });
    assert_eq!((&third["labels"], &third["annotations"]["summary"]), (&labels, &"linkDown 3 of 127.0.0.1".into()));
    // Longer than what is told counts: it is told again.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(alerts(to).unwrap().len(), 2);
    let mut name = IF_INDEX;
    name[10] = 4;
    send(&Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 4], 1).with(&name, Item::Integer(4)), &address);
    wait_for("one is over", &|alerts| alerts.len() == 1 && alerts[0]["labels"]["object"] == "3");
    // Another Alertmanager, that knows nothing yet.
    drop(program);
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
    let _program = start();
    wait_for("it is told again", &|alerts| alerts.len() == 1);
    // A station that starts says what is raised, without a new notification; one that is gone says nothing, and what it said is over.
    let object = station.end();
    assert_eq!((&object["posts"]["alertmanager"]["posted"], &object["not_told"]), (&3.into(), &0.into()), "{object}");
    wait_for("what nobody tells of is over", &|alerts| alerts.is_empty());
    let station = Station::start(&store, &["--listen", &address, "--config", &config]);
    wait_for("it is told after a restart", &|alerts| alerts.len() == 1);
    station.end();
}
