//! Handshakes, on threads of their own.
//!
//! ```text
//!   accepted ──► queue ──► tls-handshake-N ──┬──► done(Arrived::Secure)   the connection's core
//!                                            ├──► done(Arrived::Plain)    only where a port
//!                                            │                            serves both
//!                                            └──► refused, late or full: logged, closed
//! ```
//!
//! The private key's signature takes up to 5 ms of a processor, and looking up an address takes as long
//! as DNS takes: neither may delay the requests of a core.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use environment::threads;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::acceptor::{Acceptor, Refused};
use crate::facts::{ClientCertificate, Facts};
use crate::greetings::{Greeting, Greetings};
use crate::remedy::Remedy;
use crate::stream::{DetachedStream, SecureStream, Socket};
use crate::{addresses, words};

/// A handshake that takes longer is ended; etcd's limit.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a refused side may take to read why.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes of a refused side that are read and dropped.
const FAREWELL_BYTES_MAX: u64 = 64 * 1024;
/// Handshakes that are under way at a time.
const HANDSHAKES_MAX: usize = 1024;
/// Threads that look up names for one thread of handshakes.
const LOOKUPS_MAX: usize = 4;
/// First byte of every TLS connection: a record with a handshake.
const TLS_RECORD: u8 = 0x16;

/// A socket that no runtime has, in non-blocking mode.
#[derive(Debug)]
pub enum RawSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// Protocols that a port accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    Tls,
    /// TLS, and connections without it; the first byte tells which.
    Both,
}

/// A connection that passed.
#[derive(Debug)]
pub enum Arrived {
    /// After its handshake, with the certificate by which a client is known.
    Secure(Box<DetachedStream>, Option<ClientCertificate>),
    /// Without TLS, on a port that accepts both.
    Plain(RawSocket),
}

type Done = Box<dyn FnOnce(Arrived) + Send>;
type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Arrival {
    socket: RawSocket,
    accepts: Accepts,
    acceptor: Arc<Acceptor>,
    greeting: Greeting,
    ended: Ended,
    done: Done,
}

/// The threads of handshakes. Dropping this ends them, with the handshakes that are under way.
#[derive(Debug)]
pub struct Handshakes {
    queues: Vec<UnboundedSender<Arrival>>,
    threads: Vec<JoinHandle<()>>,
    greetings: Arc<Greetings>,
    next: AtomicUsize,
}

impl Handshakes {
    /// Starts `threads` threads.
    pub fn start(threads: usize) -> io::Result<Handshakes> {
        let mut handshakes = Handshakes {
            queues: Vec::new(),
            threads: Vec::new(),
            greetings: Arc::new(Greetings::new(HANDSHAKES_MAX)),
            next: AtomicUsize::new(0),
        };
        for number in 0..threads.max(1) {
            let runtime = Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .thread_name("tls-names")
                .max_blocking_threads(LOOKUPS_MAX)
                .build()?;
            let (queue, arrivals) = unbounded_channel();
            let body = move || run(runtime, arrivals);
            let thread = threads::spawn(&format!("tls-shake-{number}"), body)?;
            handshakes.queues.push(queue);
            handshakes.threads.push(thread);
        }
        Ok(handshakes)
    }

    /// Shakes hands on an accepted connection, unless `ended` comes first. Calls `done` if it
    /// passes, on a thread of handshakes; else logs why not, and drops `done`.
    pub fn begin(
        &self,
        socket: RawSocket,
        accepts: Accepts,
        acceptor: &Arc<Acceptor>,
        ended: impl Future<Output = ()> + Send + 'static,
        done: impl FnOnce(Arrived) + Send + 'static,
    ) {
        let from = match &socket {
            RawSocket::Tcp(socket) => socket.peer_addr().ok(),
            RawSocket::Unix(_) => None,
        };
        let arrival = Arrival {
            socket,
            accepts,
            acceptor: Arc::clone(acceptor),
            greeting: self.greetings.enter(from.map(|from| from.ip())),
            ended: Box::pin(ended),
            done: Box::new(done),
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        // The threads end after this value, so the queue is open.
        let _ = self.queues[number].send(arrival);
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::warn!("a thread of TLS handshakes panicked");
            }
        }
    }
}

fn run(runtime: Runtime, mut arrivals: UnboundedReceiver<Arrival>) {
    runtime.block_on(async {
        while let Some(arrival) = arrivals.recv().await {
            tokio::spawn(arrival.serve());
        }
    });
    runtime.shutdown_background();
}

impl Refused {
    fn because(reason: impl Into<String>, remedy: Remedy) -> Refused {
        Refused {
            reason: reason.into(),
            remedy,
            certificate: None,
            is_end: false,
        }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused {
            reason: words::reason(&error),
            remedy: words::remedy(&error),
            certificate: None,
            is_end: words::is_end(&error),
        }
    }
}

impl Arrival {
    async fn serve(self) {
        let Ok(socket) = Socket::of(self.socket) else {
            // The connection has ended already.
            return;
        };
        let from = socket.peer_addr();
        let shaking = shake(&self.acceptor, self.accepts, socket, from);
        let outcome = tokio::select! {
            outcome = timeout(HANDSHAKE_TIME_MAX, shaking) => outcome.unwrap_or_else(|_| {
                let seconds = HANDSHAKE_TIME_MAX.as_secs();
                let late = format!("the handshake took longer than {seconds} s");
                Err(Refused::because(late, Remedy::Late))
            }),
            () = self.ended => return,
            () = self.greeting.ended() => Err(Refused::because(
                "too many handshakes are under way, most of them from this address",
                Remedy::Crowd,
            )),
        };
        drop(self.greeting);
        let refused = match outcome {
            Ok(arrived) => return (self.done)(arrived),
            Err(refused) => refused,
        };
        // Only the line about this connection remains of it.
        drop(self.done);
        if let Some(wait) = self.acceptor.log_refusal(from, &refused) {
            sleep(wait).await;
            self.acceptor.log_unlogged();
        }
    }
}

async fn shake(
    acceptor: &Acceptor,
    accepts: Accepts,
    mut socket: Socket,
    from: Option<SocketAddr>,
) -> Result<Arrived, Refused> {
    if let Socket::Tcp(tcp) = &mut socket
        && is_plain(tcp).await?
    {
        return match accepts {
            Accepts::Both => Ok(Arrived::Plain(socket.take()?)),
            Accepts::Tls => {
                explain(tcp).await;
                let reason = "tls: first record does not look like a TLS handshake";
                Err(Refused::because(reason, Remedy::SpeakTls))
            }
        };
    }
    let shaking = TlsAcceptor::from(acceptor.config()).accept(socket);
    let stream = match shaking.into_fallible().await {
        Ok(stream) => stream,
        Err((error, socket)) => {
            let _ = timeout(FAREWELL_TIME_MAX, read_off(socket)).await;
            return Err(error.into());
        }
    };
    let session = stream.get_ref().1;
    if let Some(from) = from.filter(|_| acceptor.checks_addresses())
        && let Some(certificate) = session.peer_certificates().and_then(|all| all.first())
    {
        let facts = Facts::of(certificate);
        let facts = facts.map_err(|reason| Refused::because(reason, Remedy::Reissue))?;
        if let Err(reason) = addresses::check(&facts, from.ip()).await {
            return Err(Refused {
                certificate: Some(Box::new(facts)),
                ..Refused::because(reason, Remedy::FitAddress)
            });
        }
    }
    let certificate = acceptor.certificate_of(session);
    let stream = SecureStream::new(stream.into()).detach()?;
    Ok(Arrived::Secure(Box::new(stream), certificate))
}

/// Whether the first byte is not TLS's. It stays in the socket.
async fn is_plain(tcp: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    match tcp.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0] != TLS_RECORD),
    }
}

/// Ends the sending direction and reads what the other side still sends, a little at most: unread
/// bytes would reset the connection before the other side has read why it was refused.
async fn read_off(mut socket: Socket) -> io::Result<()> {
    socket.shutdown().await?;
    let mut rest = tokio::io::AsyncReadExt::take(socket, FAREWELL_BYTES_MAX);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Answers a client that speaks HTTP where HTTPS is spoken, as Go's servers do.
async fn explain(tcp: &mut TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\n\
        Client sent an HTTP request to an HTTPS server.\n";
    // A client that has gone needs no answer.
    let _ = tcp.write_all(ANSWER).await;
    let _ = tcp.shutdown().await;
    // Unread bytes would reset the connection before the answer is read.
    let mut rest = [0; 4096];
    let _ = tcp.try_read(&mut rest);
}
