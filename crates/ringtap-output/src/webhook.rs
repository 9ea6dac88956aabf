//! HTTP POST of JSON texts to one receiver, with retry.
//!
//! Owns tries, pauses and how long the end may take. It blocks: queue and thread are the caller's, and so is the counting of
//! what was given up. TLS is not spoken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

/// Tries of one POST, each pause twice the one before.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for a receiver's answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Once the program ends: what a receiver has not taken after so long, or after the first failure, is given up.
const LAST: Duration = Duration::from_secs(5);

/// One receiver of POSTs.
#[derive(Debug)]
pub struct Webhook {
    agent: ureq::Agent,
    url: String,
    /// What the texts are, in the plural.
    what: &'static str,
    first_pause: Duration,
    ending: Arc<AtomicBool>,
    /// The end came: nothing is posted after this.
    until: Option<Instant>,
    is_failing: bool,
}

impl Webhook {
    /// Most texts that should go into one POST.
    pub const BATCH: usize = 500;

    /// Refuses what can't be posted to.
    ///
    /// # Errors
    /// Another scheme than `http://`.
    pub fn check(url: &str) -> Result<()> {
        if url.starts_with("http://") {
            return Ok(());
        }
        // Without the rest, which may hold a token.
        let scheme = url.split_once("://").map_or("what has no scheme", |(scheme, _)| scheme);
        Err(Error::usage("use", format!("{scheme:?} for the webhook"), "only http:// is spoken")
            .way_out("post to a relay on this host that speaks TLS"))
    }

    /// Posts `what` (`alarms`, for messages) to `url`, of `http://`. Once `ending` is true, a receiver that is slow or gone holds
    /// nobody up any more.
    pub fn new(url: impl Into<String>, what: &'static str, ending: Arc<AtomicBool>) -> Self {
        let agent = ureq::Agent::config_builder().timeout_global(Some(ANSWER)).max_redirects(0).build().into();
        Self { agent, url: url.into(), what, first_pause: FIRST_PAUSE, ending, until: None, is_failing: false }
    }

    /// Posts texts, each a JSON value, as one array; whether the receiver took them. The first failure of a series is told on
    /// standard error. Texts are not asked for when nothing is posted any more.
    pub fn post(&mut self, texts: impl IntoIterator<Item = String>) -> bool {
        if self.is_ending() && *self.until.get_or_insert_with(|| Instant::now() + LAST) <= Instant::now() {
            return false;
        }
        let body = format!("[{}]", Vec::from_iter(texts).join(","));
        let mut pause = self.first_pause;
        for attempt in 1..=TRIES {
            let Err(error) = self.agent.post(&self.url).header("content-type", "application/json").send(&body) else {
                self.is_failing = false;
                return true;
            };
            if attempt == TRIES || self.is_ending() {
                if !std::mem::replace(&mut self.is_failing, true) {
                    eprintln!("ringtap: {}", Error::failed(format!("post {} to", self.what), &self.url, error));
                }
                break;
            }
            thread::sleep(pause);
            pause *= 2;
        }
        if self.is_ending() {
            self.until = Some(Instant::now());
        }
        false
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread::JoinHandle;

    use super::*;

    /// A receiver that answers one request with each status, in turn; the bodies it got.
    fn receiver(statuses: &'static [u16]) -> (SocketAddr, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = move |status: &u16| {
            let (stream, _) = listener.accept().unwrap();
            let mut request = BufReader::new(stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                request.read_line(&mut line).unwrap();
                match line.trim().to_ascii_lowercase().split_once(": ") {
                    Some(("content-length", value)) => length = value.parse().unwrap(),
                    Some(("content-type", value)) => assert_eq!(value, "application/json"),
                    None if line == "\r\n" => break,
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            request.read_exact(&mut body).unwrap();
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            request.into_inner().write_all(head.as_bytes()).unwrap();
            String::from_utf8(body).unwrap()
        };
        (address, thread::spawn(move || statuses.iter().map(answer).collect()))
    }

    fn texts() -> [String; 2] {
        ["{\"a\":1}".to_owned(), "2".to_owned()]
    }

    #[test]
    fn texts_are_one_array_and_an_error_is_tried_again() {
        let (address, bodies) = receiver(&[503, 200]);
        let mut webhook = Webhook::new(format!("http://{address}/alarms"), "alarms", Arc::default());
        assert!(webhook.post(texts()));
        assert_eq!(bodies.join().unwrap(), ["[{\"a\":1},2]"; 2]);
    }

    #[test]
    fn what_is_refused_each_time_is_given_up_and_the_next_is_tried() {
        let (address, bodies) = receiver(&[500, 500, 500, 500, 500, 200]);
        let mut webhook = Webhook::new(format!("http://{address}/"), "alarms", Arc::default());
        webhook.first_pause = Duration::from_millis(1);
        assert!(!webhook.post(texts()));
        assert!(webhook.post(texts()));
        assert_eq!(bodies.join().unwrap().len(), 6);
    }

    #[test]
    fn at_the_end_one_failure_is_enough() {
        let (address, bodies) = receiver(&[500]);
        let mut webhook = Webhook::new(format!("http://{address}/"), "alarms", Arc::new(AtomicBool::new(true)));
        assert!(!webhook.post(texts()));
        let not_asked = std::iter::from_fn(|| -> Option<String> { panic!("nothing is posted any more") });
        assert!(!webhook.post(not_asked));
        assert_eq!(bodies.join().unwrap().len(), 1);
    }
}
