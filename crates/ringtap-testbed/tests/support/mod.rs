//! A plain UDP receiver: an oracle that knows nothing of the generator but the stamp.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use ringtap_testbed::{Host, Stamp};

pub(crate) const PORT: u16 = 9000;

/// What came: stamp and payload length, in order.
pub(crate) struct Receiver {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Option<Stamp>, usize)>>,
}

impl Receiver {
    pub(crate) fn start(host: &Host, address: IpAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let socket = host.run(|| UdpSocket::bind(SocketAddr::new(address, PORT)).unwrap()).unwrap();
        // The machine may be busy: the buffer takes whatever a test sends.
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let thread = host
            .spawn("udp-receiver", move || {
                let mut got = Vec::new();
                let mut buffer = [0; 4096];
                loop {
                    match socket.recv(&mut buffer) {
                        Ok(length) => got.push((Stamp::from_payload(&buffer[..length]), length)),
                        Err(_) if seen.load(Ordering::Relaxed) => return got,
                        Err(_) => {}
                    }
                }
            })
            .unwrap();
        Self { stop, thread }
    }

    /// All that came until the socket was empty.
    pub(crate) fn finish(self) -> Vec<(Option<Stamp>, usize)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
