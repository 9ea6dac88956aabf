//! Owns: which addresses are served, what is at which path, and the program's part of it ([`View`]).
//! Does not: speak HTTP ([`crate::http`]), or draw ([`crate::page`]).

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_run::notes;

use crate::content::{Item, Now, Table};
use crate::guard::Guard;
use crate::http::{self, Answer, Content, Request};
use crate::live::{Busy, Live};
use crate::page;

/// What a program shows. Asked by threads of the server: account and lists once a second at most, lists and items one at a time and with
/// rests (see `live`), metrics by whoever asks for them. None of it may hold up the program: lock, copy, let go.
pub trait View: Send + Sync + 'static {
    /// The command that it is.
    fn program(&self) -> &'static str;

    /// What it watches: interfaces, addresses, files.
    fn object(&self) -> String;

    /// Its metrics as OpenMetrics text.
    fn metrics(&self) -> String;

    /// Its account.
    fn now(&self) -> Now;

    /// What it found: the lists below its account, each bounded; always the same ones.
    fn lists(&self) -> Vec<Table> {
        Vec::new()
    }

    /// What a row leads to: `/KIND/ID`; `None`: there is none.
    ///
    /// # Errors
    /// It can't be read.
    fn item(&self, kind: &str, id: &str) -> Result<Option<Item>> {
        let _ = (kind, id);
        Ok(None)
    }
}

/// Where a page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAt {
    /// Its address.
    pub address: SocketAddr,
    /// The file with the token that opens it; `None`: it is for loopback alone.
    pub token: Option<PathBuf>,
}

/// What is served, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Metrics for Prometheus, for whoever asks.
    pub metrics: Option<SocketAddr>,
    /// The page; the metrics are there, too.
    pub page: Option<PageAt>,
}

/// Sockets that listen; nobody is answered yet.
#[derive(Default)]
pub struct Bound {
    metrics: Option<TcpListener>,
    page: Option<(TcpListener, Guard)>,
}

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
/// Nothing but what this server sends is loaded or asked, and nobody puts the page into a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

impl Places {
    /// Whether nothing is served.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Listens, so that a wrong address ends the start; before privileges are given up, as the token is read.
    ///
    /// # Errors
    /// An address is taken or not ours; a page beyond loopback has no token, or its file is wrong.
    pub fn bind(&self) -> Result<Bound> {
        let metrics = self.metrics.map(|address| http::listen("metrics", address)).transpose()?;
        if let Some(address) = self.metrics.filter(|address| !address.ip().is_loopback()) {
            notes::warn(&format!("metrics at {address} are open to whoever can reach this address"));
        }
        let page = self.page.as_ref().map(|page| {
            let guard = Guard::new(page.address, page.token.as_deref())?;
            Ok::<_, Error>((http::listen("a page", page.address)?, guard))
        });
        let bound = Bound { metrics, page: page.transpose()? };
        if let Some((listener, _)) = &bound.page {
            let address = listener.local_addr().map_err(|error| Error::os("serve", "a page", &error))?;
            notes::say(&format!("the page is at http://{address}/"));
        }
        Ok(bound)
    }
}

impl Bound {
    /// Begins to answer with what `view` shows; the threads end with the process.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(self, view: Arc<dyn View>) -> Result<()> {
        if let Some(listener) = self.metrics {
            let view = Arc::clone(&view);
            http::start(listener, move |request| metrics(&*view, request))?;
        }
        if let Some((listener, guard)) = self.page {
            let live = Arc::new(Live::new(view));
            http::start(listener, move |request| answer(&live, &guard, request))?;
        }
        Ok(())
    }
}

fn refused_method(request: &Request) -> Option<Answer> {
    let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
    (!is_read).then(|| Answer::text(405, "nothing can be changed here").with("Allow", "GET, HEAD"))
}

fn metrics(view: &dyn View, request: &Request) -> Answer {
    if let Some(refusal) = refused_method(request) {
        return refusal;
    }
    match request.path.as_str() {
        "/metrics" => Answer::new(200, METRICS, view.metrics()),
        _ => Answer::text(404, "the metrics are at /metrics"),
    }
}

fn html(status: u16, text: String) -> Answer {
    Answer::new(status, HTML, text).with("Content-Security-Policy", POLICY).with("Cache-Control", "no-store")
}

fn answer(live: &Arc<Live>, guard: &Guard, request: &Request) -> Answer {
    // What is the same in every copy of the program.
    match request.path.as_str() {
        "/style.css" => return Answer::new(200, "text/css; charset=utf-8", page::STYLE),
        "/live.js" => return Answer::new(200, "text/javascript; charset=utf-8", page::SCRIPT),
        _ => {}
    }
    let login = |was_wrong| html(401, page::login(was_wrong));
    if let Some(refusal) = guard.refusal(request, login).or_else(|| refused_method(request)) {
        return refusal;
    }
    let view = live.view();
    let mut parts = request.path.trim_start_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(""), None, None) => html(200, live.page()),
        (Some("metrics"), None, None) => Answer::new(200, METRICS, view.metrics()),
        (Some("now.json"), None, None) => {
            Answer::new(200, "application/json", live.object().as_bytes()).with("Cache-Control", "no-store")
        }
        (Some("live"), None, None) => {
            let content = Content::Stream(live.stream());
            Answer { status: 200, kind: "text/event-stream", headers: Vec::new(), content }
                .with("Cache-Control", "no-store")
                // A proxy is not to keep events until it has many.
                .with("X-Accel-Buffering", "no")
        }
        (Some(kind), Some(id), None) => match live.item(kind, id) {
            Ok(Ok(Some(item))) => html(200, page::item(view, &item)),
            Ok(Ok(None)) => html(404, page::missing(view)),
            Ok(Err(error)) => html(503, page::unread(view, &error)),
            Err(Busy) => html(503, page::busy(view)).with("Retry-After", "3"),
        },
        _ => html(404, page::missing(view)),
    }
}
