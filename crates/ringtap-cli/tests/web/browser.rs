//! A browser without a window: Chromium, told what to do by ChromeDriver (W3C WebDriver).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::PATIENCE;

/// Ends with this.
pub struct Browser {
    driver: Child,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// A window of this many pixels; `scripts`: pages may run theirs.
    pub fn open(width: u32, height: u32, scripts: bool) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", profile.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("did not run: chromedriver: {error}"));
        let said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = said
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("successfully on port ")?.1.trim_end_matches('.').to_owned()))
            .expect("chromedriver does not start");
        let data = format!("--user-data-dir={}", profile.path().join("profile").display());
        let size = format!("--window-size={width},{height}");
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &size, &data];
        let mut options = json!({"args": arguments});
        if !scripts {
            options["prefs"] = json!({"profile.managed_default_content_settings.javascript": 2});
        }
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let base = format!("http://127.0.0.1:{port}/session");
        let begun = ask(&base, Some(&wanted));
        let session = format!("{base}/{}", begun["sessionId"].as_str().unwrap());
        Self { driver, session, _profile: profile }
    }

    pub fn go(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    /// What a script of the test's own gives; scripts of the page's may be forbidden meanwhile.
    pub fn script(&self, text: &str) -> Value {
        self.post("execute/sync", &json!({"script": text, "args": []}))
    }

    /// The text of the first element that a selector of CSS finds; nothing if there is none.
    pub fn text(&self, selector: &str) -> String {
        let script = format!("return (document.querySelector({}) || {{}}).innerText || ''", json!(selector));
        self.script(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page has a text at this selector.
    pub fn wait_for(&self, selector: &str, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.text(selector).contains(text) {
            assert!(Instant::now() < until, "no {text:?} at {selector}: {}", self.text("body"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the text at this selector is this one.
    pub fn wait_for_all(&self, selector: &str, text: &str) {
        let until = Instant::now() + PATIENCE;
        while self.text(selector) != text {
            assert!(Instant::now() < until, "{:?} is not {text:?}", self.text(selector));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Types keys, whatever has the focus: U+E004 is Tab, U+E007 is Enter.
    pub fn keys(&self, keys: &str) {
        let pressed = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        });
        let actions: Vec<Value> = pressed.collect();
        self.post("actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}));
    }

    /// Keeps a picture of the page where `RINGTAP_PICTURES` says, if it says so.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("RINGTAP_PICTURES") else { return };
        let picture = ask(&format!("{}/screenshot", self.session), None);
        let bytes = data_encoding::BASE64.decode(picture.as_str().unwrap().as_bytes()).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    fn post(&self, command: &str, value: &Value) -> Value {
        ask(&format!("{}/{command}", self.session), Some(value))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = ureq::delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn ask(url: &str, value: Option<&Value>) -> Value {
    let config =
        ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).proxy(None).build();
    let agent: ureq::Agent = config.into();
    let answer = match value {
        Some(value) => agent.post(url).content_type("application/json").send(value.to_string()),
        None => agent.get(url).call(),
    };
    let text = answer.unwrap().body_mut().with_config().limit(64 << 20).read_to_string().unwrap();
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    let value = answer["value"].take();
    assert!(value["error"].is_null(), "{url}: {value}");
    value
}
