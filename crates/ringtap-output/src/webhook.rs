//! HTTP POST of JSON texts to one receiver, with retry.
//!
//! Owns tries, pauses and how long the end may take. It blocks: queue and thread are the caller's, and so is the counting of
//! what was given up. One try is [`Http`]'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap::Error;

use crate::http::{Http, Posted};

/// Tries of one POST, each pause twice the one before.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Once the program ends: what a receiver has not taken after so long, or after the first failure, is given up.
const LAST: Duration = Duration::from_secs(5);

/// One receiver of POSTs.
#[derive(Debug)]
pub struct Webhook {
    http: Http,
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

    /// Posts `what` (`alarms`, for messages) by `http`. Once `ending` is true, a receiver that is slow or gone holds nobody up any more.
    pub fn new(http: Http, what: &'static str, ending: Arc<AtomicBool>) -> Self {
        Self { http, what, first_pause: FIRST_PAUSE, ending, until: None, is_failing: false }
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
            let error = match self.http.post(&body) {
                Posted::Taken => {
                    self.is_failing = false;
                    return true;
                }
                Posted::Refused(error) | Posted::Failed(error) => error,
            };
            if attempt == TRIES || self.is_ending() {
                if !std::mem::replace(&mut self.is_failing, true) {
                    eprintln!("ringtap: {}", Error::failed(format!("post {} to", self.what), self.http.name(), error));
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

    fn http(address: SocketAddr) -> Http {
        Http::new(&format!("http://{address}/alarms"), None, None).unwrap()
    }

    fn texts() -> [String; 2] {
        ["{\"a\":1}".to_owned(), "2".to_owned()]
    }

    #[test]
    fn texts_are_one_array_and_an_error_is_tried_again() {
        let (address, bodies) = receiver(&[503, 200]);
        let mut webhook = Webhook::new(http(address), "alarms", Arc::default());
        assert!(webhook.post(texts()));
        assert_eq!(bodies.join().unwrap(), ["[{\"a\":1},2]"; 2]);
    }

    #[test]
    fn what_is_refused_each_time_is_given_up_and_the_next_is_tried() {
        let (address, bodies) = receiver(&[500, 500, 500, 500, 500, 200]);
        let mut webhook = Webhook::new(http(address), "alarms", Arc::default());
        webhook.first_pause = Duration::from_millis(1);
        assert!(!webhook.post(texts()));
        assert!(webhook.post(texts()));
        assert_eq!(bodies.join().unwrap().len(), 6);
    }

    #[test]
    fn a_redirection_is_neither_followed_nor_taken_for_success() {
        let (address, bodies) = receiver(&[302, 307, 204]);
        let http = http(address);
        for code in [302, 307] {
            let posted = http.post("1");
            assert!(matches!(&posted, Posted::Failed(cause) if cause.contains(&code.to_string())), "{posted:?}");
        }
        assert_eq!(http.post("1"), Posted::Taken);
        assert_eq!(bodies.join().unwrap().len(), 3);
    }

    #[test]
    fn at_the_end_one_failure_is_enough() {
        let (address, bodies) = receiver(&[500]);
        let mut webhook = Webhook::new(http(address), "alarms", Arc::new(AtomicBool::new(true)));
        assert!(!webhook.post(texts()));
        let not_asked = std::iter::from_fn(|| -> Option<String> { panic!("nothing is posted any more") });
        assert!(!webhook.post(not_asked));
        assert_eq!(bodies.join().unwrap().len(), 1);
    }
}
