//! Members on loopback, with a handler that records events.
#![allow(dead_code, reason = "no test needs all of it")]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use peers::{BoxFuture, Handler, Lane, LinkError, Peers, PeersOptions, Stream};

pub const CLUSTER: u64 = 0xc1;

/// Kind of a message for which the [`Recorder`] closes the connection.
pub const UNACCEPTABLE: u8 = 250;

/// Time limit of a wait; a test that waits longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A call of the handler.
#[derive(Debug)]
pub enum Event {
    Message(u64, Lane, u8, Bytes),
    Link(u64, Lane, Result<(), LinkError>),
    /// A sender announced its addresses.
    Announced(u64, Vec<String>),
}

/// A handler that records its calls.
#[derive(Clone)]
pub struct Recorder {
    events: Sender<Event>,
    /// Senders that count as removed.
    pub removed: Arc<Mutex<HashSet<u64>>>,
    /// Senders that are not admitted.
    pub strangers: Arc<Mutex<HashSet<u64>>>,
    messages: Arc<Mutex<usize>>,
    /// A sender that counts as removed after the next call of `is_removed` for it.
    pub removed_next: Arc<Mutex<Option<u64>>>,
}

/// The recorded events.
pub struct Events(Receiver<Event>);

impl Recorder {
    pub fn new() -> (Arc<Recorder>, Events) {
        let (events, receiver) = channel();
        let recorder = Recorder {
            events,
            removed: Arc::default(),
            strangers: Arc::default(),
            messages: Arc::default(),
            removed_next: Arc::default(),
        };
        (Arc::new(recorder), Events(receiver))
    }

    /// Number of messages so far.
    pub fn count_messages(&self) -> usize {
        *self.messages.lock().unwrap()
    }

    fn record(&self, event: Event) {
        // The test may have dropped the receiver.
        let _ = self.events.send(event);
    }
}

impl Events {
    /// Waits for the first event that `wanted` accepts, and drops the others.
    ///
    /// # Panics
    ///
    /// If no such event has come after [`PATIENCE`].
    pub fn wait<T>(&self, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        let began = now();
        loop {
            let event = self
                .0
                .recv_timeout(PATIENCE.saturating_sub(began.elapsed()));
            let event = event.expect("the expected event did not come");
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    }

    pub fn message(&self) -> (u64, Lane, u8, Bytes) {
        self.wait(|event| match event {
            Event::Message(from, lane, kind, payload) => Some((from, lane, kind, payload)),
            _ => None,
        })
    }

    pub fn connected(&self, wanted: Lane) {
        self.wait(|event| match event {
            Event::Link(_, lane, Ok(())) if lane == wanted => Some(()),
            _ => None,
        });
    }

    pub fn disconnected(&self, wanted: Lane) -> LinkError {
        self.wait(|event| match event {
            Event::Link(_, lane, Err(error)) if lane == wanted => Some(error),
            _ => None,
        })
    }
}

impl Handler for Recorder {
    fn message(&self, from: u64, lane: Lane, kind: u8, payload: Bytes) -> Result<(), String> {
        if kind == UNACCEPTABLE {
            return Err("no honest member sends this".to_owned());
        }
        *self.messages.lock().unwrap() += 1;
        self.record(Event::Message(from, lane, kind, payload));
        Ok(())
    }

    fn stream(&self, _: u64, _: u8, header: Bytes, mut stream: Stream) -> BoxFuture<()> {
        Box::pin(async move {
            stream.send(0, header).await.unwrap();
            while let Ok(Some(frame)) = stream.receive().await {
                stream.send(frame.kind, frame.payload).await.unwrap();
            }
            let _ = stream.finish().await;
        })
    }

    fn inquiry(&self, kind: u8, question: Bytes) -> Result<Bytes, String> {
        match kind {
            1 => Ok(question),
            kind => Err(format!("questions of kind {kind} are not answered here")),
        }
    }

    fn is_removed(&self, sender: u64) -> bool {
        let mut removed = self.removed.lock().unwrap();
        let answer = removed.contains(&sender);
        let next = self
            .removed_next
            .lock()
            .unwrap()
            .take_if(|it| *it == sender);
        removed.extend(next);
        answer
    }

    fn admits(&self, sender: u64) -> bool {
        !self.strangers.lock().unwrap().contains(&sender)
    }

    fn announced(&self, sender: u64, addresses: &[String]) {
        self.record(Event::Announced(sender, addresses.to_vec()));
    }

    fn link(&self, to: u64, lane: Lane, state: Result<(), &LinkError>) {
        self.record(Event::Link(to, lane, state.map_err(Clone::clone)));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's patience is real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a port of the test's own")]
pub fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Options of member `id` with its own listener, and the listener's address.
pub fn options(id: u64) -> (PeersOptions, String) {
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    (PeersOptions::new(CLUSTER, id, vec![listener]), address)
}

/// A running member of the test.
pub struct Member {
    pub peers: Peers,
    pub address: String,
    pub recorder: Arc<Recorder>,
    pub events: Events,
}

pub fn start(options: (PeersOptions, String)) -> Member {
    let (recorder, events) = Recorder::new();
    Member {
        peers: Peers::start(options.0, Arc::clone(&recorder) as Arc<dyn Handler>).unwrap(),
        address: options.1,
        recorder,
        events,
    }
}

/// Member `id` with the default limits.
pub fn member(id: u64) -> Member {
    start(options(id))
}

impl Member {
    /// Adds `other` to the table as member `id`.
    pub fn knows(&self, id: u64, other: &Member) {
        let addresses = vec![other.address.clone()];
        self.peers.set_member(id, addresses).unwrap();
    }
}

/// Runs `future` on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// The hello of a dialer of release "r1".
pub fn hello(cluster: u64, sender: u64, receiver: u64, lane: u8) -> Vec<u8> {
    hello_with(cluster, (sender, receiver), lane, "")
}

/// The hello of such a dialer with `addresses`.
pub fn hello_with(
    cluster: u64,
    (sender, receiver): (u64, u64),
    lane: u8,
    addresses: &str,
) -> Vec<u8> {
    let mut bytes = b"INKPEERS\x01\x00\x00\x02\x00\x00\x00\x00".to_vec();
    bytes[10] = lane;
    bytes[14..16].copy_from_slice(&(addresses.len() as u16).to_le_bytes());
    for id in [cluster, sender, receiver] {
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes.extend_from_slice(b"r1");
    bytes.extend_from_slice(addresses.as_bytes());
    let crc = crc_fast::crc32_iscsi(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// The welcome of a listener of release "r2".
pub fn welcome(cluster: u64, member: u64) -> Vec<u8> {
    let mut bytes = hello(cluster, member, 0, 0);
    bytes.truncate(40);
    bytes.extend_from_slice(b"r2");
    let crc = crc_fast::crc32_iscsi(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Bytes of a hello or welcome with a release of two characters and no reason.
pub const GREETING_BYTES: usize = 40 + 2 + 4;

/// A frame with one payload.
pub fn frame(kind: u8, role: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&[kind, role, 0, 0]);
    bytes.extend_from_slice(payload);
    let crc = crc_fast::crc32_iscsi(&bytes);
    [&crc.to_le_bytes()[..], &bytes].concat()
}

/// Reads `bytes` bytes.
pub fn read(socket: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    socket.read_exact(&mut read).unwrap();
    read
}

/// Reads until the other side closes the connection.
pub fn read_all(socket: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset ends the connection as well.
    let _ = socket.read_to_end(&mut all);
    all
}

/// Connects to `address` on `lane` and reads the welcome, which must accept.
pub fn enter(address: &str, sender: u64, receiver: u64, lane: u8) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket
        .write_all(&hello(CLUSTER, sender, receiver, lane))
        .unwrap();
    let head = read(&mut socket, 40);
    assert_eq!(head[10], 0, "accepted");
    read(&mut socket, usize::from(head[11]) + 4);
    socket
}

/// Accepts the next connection of the `wanted` lane, or of any, and lets it in as `member`.
/// Returns it with its hello.
fn let_next_in(listener: &TcpListener, member: u64, wanted: Option<u8>) -> (TcpStream, Vec<u8>) {
    loop {
        let (mut socket, _) = listener.accept().unwrap();
        let head = read(&mut socket, 40);
        let addresses = u16::from_le_bytes([head[14], head[15]]);
        let texts = usize::from(head[11]) + usize::from(addresses);
        let rest = read(&mut socket, texts + 4);
        if wanted.is_none_or(|lane| lane == head[10]) {
            socket.write_all(&welcome(CLUSTER, member)).unwrap();
            return (socket, [head, rest].concat());
        }
    }
}

/// Lets in the next connection of `lane`, and closes those of other lanes.
pub fn let_in(listener: &TcpListener, member: u64, lane: u8) -> (TcpStream, Vec<u8>) {
    let_next_in(listener, member, Some(lane))
}

/// Lets in the first connection of each lane, in the order of [`Lane::KEPT`].
pub fn let_all_in(listener: &TcpListener, member: u64) -> Vec<TcpStream> {
    let mut connections = Lane::KEPT.map(|_| let_next_in(listener, member, None));
    connections.sort_by_key(|(_, hello)| hello[10]);
    connections.map(|(socket, _)| socket).into()
}
