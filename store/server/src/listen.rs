//! The listening sockets for clients and for other members.
//!
//! ```text
//!   http://localhost:2379 ──► 127.0.0.1:2379, [::1]:2379 ──► one socket each
//!   unix:///run/x.sock    ──► one socket
//!   http://localhost:2380 ──► 127.0.0.1:2380, [::1]:2380 ──► one socket each, for members
//! ```
//!
//! Each address has one socket for the life of the process, and one core accepts on it: the
//! acceptor hands each connection to the core where the fewest live anyway (`worker.rs`). A
//! socket for each core would need SO_REUSEPORT, with which a second server could listen at
//! the same address and take half of the clients. Without it the kernel lets at most one socket
//! listen, however many servers start at the same moment.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::PeerListener;
use environment::randomness::Random;
use environment::real::{RealClock, RealDisk};
use environment::{Clock, Disk};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tls::Accepts;
use tracing::warn;

use crate::Error;
use crate::config::{self, Address, ChosenPort, Config, Url};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// How often an address is asked for while another process seems to use it.
const ATTEMPTS: usize = 4;

/// The longest wait between two attempts, in microseconds.
const WAIT_MICROSECONDS_MAX: u64 = 16_000;

/// A listening socket, before a runtime takes it.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The sockets of one URL.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// One listener for each address.
    pub(crate) listeners: Vec<Listener>,
    /// TCP addresses at which clients can connect, with the port that the system chose.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The file of a Unix socket.
    pub(crate) socket_file: Option<SocketFile>,
}

impl Bound {
    /// The port that the system chose, if `url` has port 0.
    pub(crate) fn chosen_port(&self, url: &Url) -> Option<ChosenPort> {
        let host = url.host_with_any_port()?.to_owned();
        let port = self.addresses.first()?.port();
        Some(ChosenPort { host, port })
    }
}

/// A URL to listen at, and what is accepted there.
pub(crate) struct Place<'a> {
    pub(crate) url: &'a Url,
    /// `None` for connections without TLS.
    pub(crate) accepts: Option<Accepts>,
}

/// The URLs of a flag. One with and one without TLS at the same address and port are one place.
fn places(urls: &[Url]) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for url in urls {
        let is_there = |place: &&mut Place<'_>| {
            let has_port = matches!(url.address(), Address::Tcp { port: 1.., .. });
            has_port && place.url.address() == url.address()
        };
        match places.iter_mut().find(is_there) {
            Some(place) if place.url.is_secure() != url.is_secure() => {
                place.accepts = Some(Accepts::Both);
            }
            _ => places.push(Place {
                url,
                accepts: url.is_secure().then_some(Accepts::Tls),
            }),
        }
    }
    places
}

/// Listens at all URLs of a flag.
pub(crate) fn bind_all<'a>(
    flag: &'static str,
    urls: &'a [Url],
    share_port: bool,
) -> impl Iterator<Item = Result<(Place<'a>, Bound), Error>> {
    let places = places(urls).into_iter();
    places.map(move |place| match bind(place.url, share_port) {
        Ok(bound) => Ok((place, bound)),
        Err(source) => Err(Error::Listen {
            url: place.url.as_str().to_owned(),
            flag,
            source,
        }),
    })
}

/// Listens at `url`. With `share_port` other processes may listen there as well.
fn bind(url: &Url, share_port: bool) -> io::Result<Bound> {
    match url.address() {
        Address::Tcp { host, port } => bind_host(host, *port, share_port),
        Address::Unix { path } => bind_file(path),
    }
}

/// The sockets for other members.
#[derive(Debug, Default)]
pub(crate) struct BoundForPeers {
    pub(crate) listeners: Vec<PeerListener>,
    pub(crate) chosen: Vec<ChosenPort>,
}

/// Listens for the other members of a cluster.
pub(crate) fn bind_peers(config: &Config) -> Result<BoundForPeers, Error> {
    const FLAG: &str = "listen-peer-urls";
    let refuse = |text: &str| {
        let remedy =
            "other members come over TCP: write http://address:port or https://address:port";
        Error::Config(config::Error::bad(FLAG, text, remedy))
    };
    if config.addresses.listen_peer.is_empty() {
        return Err(refuse(""));
    }
    let mut peers = BoundForPeers::default();
    let addresses = &config.addresses;
    for bound in bind_all(FLAG, &addresses.listen_peer, addresses.share_port) {
        let (Place { url, accepts }, bound) = bound?;
        peers.chosen.extend(bound.chosen_port(url));
        for listener in bound.listeners {
            match listener {
                Listener::Tcp(socket) => peers.listeners.push(PeerListener { socket, accepts }),
                Listener::Unix(_) => return Err(refuse(url.as_str())),
            }
        }
    }
    Ok(peers)
}

/// Binds the sockets for other members now if the system chooses their port, which then
/// replaces port 0 in the configuration: a member's URLs are part of its identity.
pub(crate) fn bind_chosen_peer_ports(
    config: &mut Config,
) -> Result<Option<Vec<PeerListener>>, Error> {
    let mut urls = config.addresses.listen_peer.iter();
    let is_chosen = urls.any(|url| url.host_with_any_port().is_some());
    if !(config.addresses.awaits_peers && is_chosen) {
        return Ok(None);
    }
    let bound = bind_peers(config)?;
    config.fill_peer_ports(&bound.chosen);
    Ok(Some(bound.listeners))
}

fn bind_host(host: &str, port: u16, share_port: bool) -> io::Result<Bound> {
    let mut bound = Bound::default();
    let mut port = port;
    for (place, address) in addresses(host)?.into_iter().enumerate() {
        match bind_address(SocketAddr::new(address, port), share_port) {
            Ok((socket, address)) => {
                port = address.port();
                bound.addresses.push(address);
                bound.listeners.push(Listener::Tcp(socket));
            }
            // A machine without IPv6 still has a localhost.
            Err(error) if place > 0 && error.kind() == io::ErrorKind::AddrNotAvailable => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bound)
}

/// The addresses of a host: `localhost` means both loopback addresses, an empty host every
/// address.
fn addresses(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok(match host {
        "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        "" => vec![Ipv6Addr::UNSPECIFIED.into()],
        host => vec![host.parse().map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{host} is not an IP address"),
            )
        })?],
    })
}

/// The socket, and its address with the port that the system chose.
///
/// Where several processes listen at one address at the same instant, Linux may refuse all of
/// them: it marks a socket as listening before it looks for others (`inet_csk_listen_start`).
/// So each asks again after waits of random lengths, and one of them gets the address.
fn bind_address(address: SocketAddr, share_port: bool) -> io::Result<(TcpListener, SocketAddr)> {
    for _ in 1..ATTEMPTS {
        match listen_at(address, share_port) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            ended => return ended,
        }
        let wait_microseconds = Random::from_system()?.below(WAIT_MICROSECONDS_MAX);
        RealClock.sleep(Duration::from_micros(wait_microseconds));
    }
    listen_at(address, share_port)
}

fn listen_at(address: SocketAddr, share_port: bool) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = socket(address, share_port)?;
    socket.listen(BACKLOG)?;
    let socket: TcpListener = socket.into();
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn socket(address: SocketAddr, share_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // Connections of an earlier run that linger are no reason to fail.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share_port)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// The file of a socket that listens; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = RealDisk.remove(&self.0) {
            warn!(%error, "cannot remove the socket's file");
        }
    }
}

fn bind_file(path: &Path) -> io::Result<Bound> {
    make_room(path)?;
    let listener = UnixListener::bind(path)?;
    let mut bound = Bound {
        socket_file: Some(SocketFile(path.to_owned())),
        ..Bound::default()
    };
    listener.set_nonblocking(true)?;
    bound.listeners.push(Listener::Unix(listener));
    Ok(bound)
}

/// Removes the socket file that an earlier run left behind: one that no process listens
/// on. Any other file stays.
fn make_room(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        let what = "a file that is no socket is in the way";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    match connect_at_once(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => RealDisk.remove(path),
        // A socket in use makes `bind` fail, and `bind` reports any other problem, too.
        _ => Ok(()),
    }
}

/// Connects without blocking: if the backlog is full the call fails instead of waiting, and
/// a full backlog means that a process listens.
fn connect_at_once(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::config::testing;

    fn url(text: &str) -> Url {
        let listen = format!("--listen-client-urls={text}");
        let words = [
            listen.as_str(),
            "--advertise-client-urls=http://localhost:1",
        ];
        testing::config(&words).addresses.listen_client[0].clone()
    }

    #[test]
    fn localhost_is_both_loopbacks_on_one_port_with_a_socket_each() {
        let bound = bind(&url("http://localhost:0"), false).unwrap();
        assert!(bound.addresses[0].is_ipv4());
        assert!(
            bound
                .addresses
                .iter()
                .all(|address| address.port() == bound.addresses[0].port())
        );
        assert_eq!(bound.listeners.len(), bound.addresses.len());
    }

    #[test]
    fn an_address_with_and_without_tls_is_one_place() {
        let words = [
            "--listen-client-urls=http://127.0.0.1:7,https://127.0.0.1:7,https://127.0.0.1:8",
            "--advertise-client-urls=http://localhost:1",
            "--auto-tls",
        ];
        let urls = testing::config(&words).addresses.listen_client;
        let accepts: Vec<_> = places(&urls).iter().map(|it| it.accepts).collect();
        assert_eq!(accepts, [Some(Accepts::Both), Some(Accepts::Tls)]);
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_unless_both_share_it() {
        let first = bind(&url("http://127.0.0.1:0"), false).unwrap();
        let taken = format!("http://{}", first.addresses[0]);
        for share_port in [false, true] {
            let error = bind(&url(&taken), share_port).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        }
        let first = bind(&url("http://127.0.0.1:0"), true).unwrap();
        let shared = format!("http://{}", first.addresses[0]);
        assert!(bind(&url(&shared), true).is_ok(), "both asked for sharing");
    }

    /// Each round frees the port, and then all threads ask for it at the same moment.
    #[test]
    fn of_many_concurrent_binds_to_a_port_one_succeeds() {
        const ASKING: usize = 4;
        const ROUNDS: usize = 100;
        let first = bind(&url("http://127.0.0.1:0"), false).unwrap();
        let wanted = url(&format!("http://{}", first.addresses[0]));
        drop(first);
        let start = std::sync::Barrier::new(ASKING);
        let ask = || {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                start.wait();
                let bound = bind(&wanted, false);
                // The port is given back once all have asked for it.
                start.wait();
                rounds.push(bound.is_ok());
            }
            rounds
        };
        let outcomes: Vec<Vec<bool>> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..ASKING).map(|_| scope.spawn(ask)).collect();
            let ended = asking.into_iter().map(|thread| thread.join().unwrap());
            ended.collect()
        });
        for round in 0..ROUNDS {
            let got = outcomes.iter().filter(|rounds| rounds[round]).count();
            assert_eq!(got, 1, "round {round}");
        }
    }

    #[test]
    fn a_socket_file_of_an_earlier_run_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("unix://{}/s.sock", directory.path().display());
        let mut killed = bind(&url(&text), false).unwrap();
        std::mem::forget(killed.socket_file.take());
        drop(killed);
        let bound = bind(&url(&text), false).unwrap();
        assert_eq!(bound.listeners.len(), 1);
    }

    #[test]
    fn a_socket_file_goes_with_its_socket_and_a_live_one_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.sock");
        let url = url(&format!("unix://{}", path.display()));
        let live = bind(&url, false).unwrap();
        let error = bind(&url, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(&path).unwrap();
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_with_a_full_backlog_is_in_use_and_does_not_block_a_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.sock");
        let busy = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        busy.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        busy.listen(0).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            client.set_nonblocking(true).unwrap();
            match client.connect(&SockAddr::unix(&path).unwrap()) {
                Ok(()) => waiting.push(client),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let error = bind(&url(&format!("unix://{}", path.display())), false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_file_that_is_no_socket_is_never_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes");
        drop(
            RealDisk
                .open(&path, environment::OpenMode::CreateNew)
                .unwrap(),
        );
        let error = bind(&url(&format!("unix://{}", path.display())), false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists());
    }
}
