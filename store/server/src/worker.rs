//! One core's runtime: accepts connections, serves them, stops.
//!
//! ```text
//!   kernel ──► accept on one core ─┬─► serve here, if this core has the fewest connections
//!                        │         └─► hand over to the core that has
//!                        └── with TLS: handshake on a thread of its own, then the same
//! ```
//!
//! A core's runtime has one thread, which reads a request and writes its answer; only a
//! command itself goes to the replica's thread. One core accepts on a socket; a connection
//! is moved at most once, when it is accepted, to the core with the fewest connections.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tls::{Arrived, RawSocket};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::warn;

use crate::backend::{Backend, stopped};
use crate::certificates::ClientTls;
use crate::connection::Connection;
use crate::connections::{Admitted, Connections};
use crate::dispatch::{Security, Traffic};
use crate::listen::Listener;

/// Time for open requests to finish when the server stops.
const GRACE: Duration = Duration::from_millis(400);
/// Pause after a failed accept, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bytes of a connection that the kernel takes before it can send them. Later bytes
/// wait behind them: an event of a watch behind a large range. By default the kernel takes
/// mebibytes; here they stay in HTTP/2, which gives each stream its turn.
const KERNEL_BYTES_MAX: u32 = 256 << 10;

/// Period of the timer that is kept running: shorter than any request's timeout.
const TIMER_PERIOD: Duration = Duration::from_secs(1);

/// Keeps a timer that expires sooner than any request's. A timer that becomes a runtime's
/// next one wakes the runtime; without this one, each request's timeout would cost a system
/// call or two.
///
/// On the first core it also checks whether there are descriptors for all connections.
async fn keep_a_timer(connections: Option<Arc<Connections>>) -> Infallible {
    loop {
        tokio::time::sleep(TIMER_PERIOD).await;
        if let Some(connections) = &connections {
            connections.give_way();
        }
    }
}

/// An accepted connection on its way to its core.
pub(crate) struct Accepted {
    arrived: Arrived,
    traffic: Traffic,
    admitted: Admitted,
    seat: Seat,
}

/// Counts a connection at its core until it is dropped.
struct Seat {
    cores: Cores,
    core: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let connections = &self.cores.0[self.core].connections;
        connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All cores, with the number of connections and the queue of each.
#[derive(Clone)]
pub(crate) struct Cores(Arc<Vec<Core>>);

struct Core {
    /// Connections that this core serves or that are in its queue.
    connections: AtomicUsize,
    door: mpsc::UnboundedSender<Accepted>,
}

impl Cores {
    /// `count` cores, and the receiving end of each one's queue.
    pub(crate) fn new(count: usize) -> (Cores, Vec<mpsc::UnboundedReceiver<Accepted>>) {
        let (cores, doors) = (0..count)
            .map(|_| {
                let (door, inside) = mpsc::unbounded_channel();
                (
                    Core {
                        connections: AtomicUsize::new(0),
                        door,
                    },
                    inside,
                )
            })
            .unzip();
        (Cores(Arc::new(cores)), doors)
    }

    /// A seat at the core with the fewest connections; among equals at the one that accepted.
    fn seat(&self, here: usize) -> Seat {
        let live = |core: usize| self.0[core].connections.load(Ordering::Relaxed);
        let fewest = (0..self.0.len()).min_by_key(|core| (live(*core), *core != here));
        let core = fewest.expect("there is at least one core");
        self.0[core].connections.fetch_add(1, Ordering::Relaxed);
        let cores = self.clone();
        Seat { cores, core }
    }
}

/// One core's share of the server.
pub(crate) struct Worker {
    /// Number of the core.
    pub(crate) core: usize,
    pub(crate) cores: Cores,
    /// Connections handed to this core.
    pub(crate) arrivals: mpsc::UnboundedReceiver<Accepted>,
    /// Sockets on which this core accepts.
    pub(crate) listeners: Vec<(Listener, Traffic)>,
    pub(crate) backend: Arc<Backend>,
    /// `None` if no port has TLS.
    pub(crate) tls: Option<Arc<ClientTls>>,
}

impl Worker {
    /// The runtime of a worker. It takes descriptors, so it is made before the server says that it
    /// is ready: a start that lacks them fails, and no core is left out.
    pub(crate) fn runtime() -> io::Result<Runtime> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(16)
            .thread_keep_alive(Duration::from_secs(60))
            .build()
    }

    /// Serves until the server stops. Runs on a thread of its own.
    pub(crate) fn run(self, runtime: Runtime) -> io::Result<()> {
        let outcome = runtime.block_on(self.serve());
        runtime.shutdown_timeout(GRACE);
        outcome
    }

    async fn serve(mut self) -> io::Result<()> {
        let mut helpers = JoinSet::new();
        helpers.spawn(cluster::batch_wakes());
        let connections = &self.backend.resources.connections;
        let looked_after = (self.core == 0).then(|| Arc::clone(connections));
        helpers.spawn(keep_a_timer(looked_after));
        let mut accepting = JoinSet::new();
        for (listener, traffic) in std::mem::take(&mut self.listeners) {
            let acceptor = Acceptor {
                cores: self.cores.clone(),
                core: self.core,
                traffic,
                connections: Arc::clone(&self.backend.resources.connections),
                tls: self.tls.clone(),
            };
            match listener {
                Listener::Tcp(listener) => {
                    accepting.spawn(acceptor.tcp(TcpListener::from_std(listener)?));
                }
                Listener::Unix(listener) => {
                    accepting.spawn(acceptor.unix(UnixListener::from_std(listener)?));
                }
            }
        }
        let mut stopping = self.backend.stopping.clone();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stopped(&mut stopping) => break,
                Some(accepted) = self.arrivals.recv() => self.open(accepted, &mut connections),
                Some(_) = connections.join_next() => {}
            }
        }
        accepting.shutdown().await;
        let all_closed = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, all_closed).await;
        Ok(())
    }

    fn open(&self, accepted: Accepted, connections: &mut JoinSet<()>) {
        let Accepted {
            arrived,
            traffic,
            admitted,
            seat,
        } = accepted;
        let (socket, security) = match arrived {
            Arrived::Plain(socket) => (Ok(socket), Security::default()),
            Arrived::Secure(stream, certificate) => {
                let security = Security {
                    is_secure: true,
                    certificate,
                };
                (Err(stream), security)
            }
        };
        let connection = |from| Connection {
            traffic,
            backend: Arc::clone(&self.backend),
            admitted,
            security,
            from,
        };
        let backend = Arc::clone(&self.backend);
        let began = match socket {
            Ok(RawSocket::Tcp(socket)) => TcpStream::from_std(socket).map(|socket| {
                let connection = connection(socket.peer_addr().ok());
                connections.spawn(present(backend, seat, connection.serve(socket)))
            }),
            Ok(RawSocket::Unix(socket)) => UnixStream::from_std(socket).map(|socket| {
                let connection = connection(None);
                connections.spawn(present(backend, seat, connection.serve(socket)))
            }),
            Err(secure) => secure.attach().map(|stream| {
                let connection = connection(stream.peer_addr());
                connections.spawn(present(backend, seat, connection.serve(stream)))
            }),
        };
        if let Err(error) = began {
            warn!(%error, "cannot serve an accepted connection");
        }
    }
}

/// Serves a connection and counts it while it is served.
async fn present(backend: Arc<Backend>, seat: Seat, serving: impl Future<Output = ()>) {
    let _open = backend.metrics.connections.hold();
    serving.await;
    drop(seat);
}

/// Accepts on one socket.
struct Acceptor {
    cores: Cores,
    core: usize,
    traffic: Traffic,
    connections: Arc<Connections>,
    tls: Option<Arc<ClientTls>>,
}

impl Acceptor {
    async fn tcp(self, listener: TcpListener) {
        loop {
            let accepted = listener.accept().await.and_then(|(socket, _)| {
                socket.set_nodelay(true)?;
                // A system without this option serves as well, with longer queues.
                let _ = SockRef::from(&socket).set_tcp_notsent_lowat(KERNEL_BYTES_MAX);
                Ok(RawSocket::Tcp(socket.into_std()?))
            });
            self.place(accepted).await;
        }
    }

    async fn unix(self, listener: UnixListener) {
        loop {
            let accepted = listener.accept().await;
            let accepted = accepted.and_then(|(socket, _)| socket.into_std());
            self.place(accepted.map(RawSocket::Unix)).await;
        }
    }

    async fn place(&self, accepted: io::Result<RawSocket>) {
        match accepted {
            // A connection that the table does not admit is closed.
            Ok(socket) => {
                if let Some(admitted) = self.connections.admit() {
                    self.begin(socket, admitted);
                }
            }
            Err(error) => {
                self.connections.note_not_accepted(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    /// Gives the connection to a core, with TLS after its handshake.
    fn begin(&self, socket: RawSocket, admitted: Admitted) {
        let (cores, core, traffic) = (self.cores.clone(), self.core, self.traffic);
        let activity = Arc::clone(admitted.activity());
        let hand_over = move |arrived| {
            let seat = cores.seat(core);
            let core = seat.core;
            let accepted = Accepted {
                arrived,
                traffic,
                admitted,
                seat,
            };
            // A core that has stopped drops the connection, which closes it.
            let _ = cores.0[core].door.send(accepted);
        };
        match (traffic.accepts, &self.tls) {
            (None, _) => hand_over(Arrived::Plain(socket)),
            (Some(accepts), Some(tls)) => {
                let ended = async move { activity.ended().await };
                tls.handshakes
                    .begin(socket, accepts, &tls.acceptor, ended, hand_over);
            }
            (Some(_), None) => unreachable!("a port with TLS has a certificate"),
        }
    }
}
