//! Where clients and other members come in.
//!
//! ```text
//!   http://localhost:2379 ──► 127.0.0.1:2379, [::1]:2379 ──► one socket per core each
//!   unix:///run/x.sock    ──► one socket, on the first core
//!   http://localhost:2380 ──► 127.0.0.1:2380, [::1]:2380 ──► one socket each, for members
//! ```
//!
//! Sockets of one address share its port with SO_REUSEPORT, so that each core
//! has an accept queue of its own. Because that would let a second server
//! share the port as well, and take half of the clients, every address is
//! first bound without it: that fails when anyone else listens there.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use environment::Disk;
use environment::real::RealDisk;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tracing::warn;

use crate::Error;
use crate::config::{self, Config, Place, Url};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A listening socket, before a runtime takes it.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The sockets of one URL.
#[derive(Debug)]
pub(crate) struct Bound {
    /// For each core, its sockets.
    pub(crate) by_core: Vec<Vec<Listener>>,
    /// Where clients can connect; with the port that the system chose.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The file of a Unix socket.
    pub(crate) socket_file: Option<SocketFile>,
}

/// Listens at `url` with one socket per core.
pub(crate) fn bind(url: &Url, cores: usize, share_port: bool) -> io::Result<Bound> {
    assert!(cores > 0, "a server needs a core to run on");
    match url.place() {
        Place::Tcp { host, port } => bind_host(host, *port, cores, share_port),
        Place::Unix { path } => bind_file(path, cores),
    }
}

/// Listens for the other members of a cluster.
pub(crate) fn bind_peers(config: &Config) -> Result<Vec<TcpListener>, Error> {
    const FLAG: &str = "listen-peer-urls";
    let refuse = |text: &str| {
        let remedy = "other members come over TCP: write http://address:port";
        Error::Config(config::Error::bad(FLAG, text, remedy))
    };
    if config.listen_peer.is_empty() {
        return Err(refuse(""));
    }
    let mut listeners = Vec::new();
    for url in &config.listen_peer {
        let bound = bind(url, 1, config.share_port).map_err(|source| Error::Listen {
            url: url.as_str().to_owned(),
            flag: FLAG,
            source,
        })?;
        for listener in bound.by_core.into_iter().flatten() {
            match listener {
                Listener::Tcp(listener) => listeners.push(listener),
                Listener::Unix(_) => return Err(refuse(url.as_str())),
            }
        }
    }
    Ok(listeners)
}

fn bind_host(host: &str, port: u16, cores: usize, share_port: bool) -> io::Result<Bound> {
    let mut bound = Bound::empty(cores);
    let mut port = port;
    for (place, address) in addresses(host)?.into_iter().enumerate() {
        match bind_address(SocketAddr::new(address, port), cores, share_port) {
            Ok((sockets, address)) => {
                port = address.port();
                bound.addresses.push(address);
                for (core, socket) in bound.by_core.iter_mut().zip(sockets) {
                    core.push(Listener::Tcp(socket));
                }
            }
            // A machine without IPv6 still has a localhost.
            Err(error) if place > 0 && error.kind() == io::ErrorKind::AddrNotAvailable => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bound)
}

/// The addresses behind a host; `localhost` is both loopbacks, nothing at all
/// is every address.
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

fn bind_address(
    address: SocketAddr,
    cores: usize,
    share_port: bool,
) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let mut address = address;
    if !share_port {
        let alone = socket(address, false)?;
        address = local(&alone)?;
    }
    let mut sockets = Vec::with_capacity(cores);
    for _ in 0..cores {
        let socket = socket(address, true)?;
        address = local(&socket)?;
        socket.listen(BACKLOG)?;
        sockets.push(socket.into());
    }
    Ok((sockets, address))
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

fn local(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?.as_socket();
    Ok(address.expect("a TCP socket has an IP address"))
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

fn bind_file(path: &Path, cores: usize) -> io::Result<Bound> {
    make_room(path)?;
    let listener = UnixListener::bind(path)?;
    let mut bound = Bound::empty(cores);
    bound.socket_file = Some(SocketFile(path.to_owned()));
    listener.set_nonblocking(true)?;
    bound.by_core[0].push(Listener::Unix(listener));
    Ok(bound)
}

/// A socket left behind by an earlier run is removed: one that nobody listens
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
        // Binding finds out why nobody else can be there, or that somebody is.
        _ => Ok(()),
    }
}

/// Never waits: where very many clients wait to be accepted there is no room
/// for one more, and somebody listens.
fn connect_at_once(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

impl Bound {
    fn empty(cores: usize) -> Bound {
        Bound {
            by_core: (0..cores).map(|_| Vec::new()).collect(),
            addresses: Vec::new(),
            socket_file: None,
        }
    }
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
        testing::config(&words).listen_client[0].clone()
    }

    #[test]
    fn localhost_is_both_loopbacks_on_one_port_with_a_socket_per_core() {
        let bound = bind(&url("http://localhost:0"), 3, false).unwrap();
        assert!(bound.addresses[0].is_ipv4());
        assert!(
            bound
                .addresses
                .iter()
                .all(|address| address.port() == bound.addresses[0].port())
        );
        for core in &bound.by_core {
            assert_eq!(core.len(), bound.addresses.len());
        }
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_although_ports_are_shared_among_cores() {
        let first = bind(&url("http://127.0.0.1:0"), 2, false).unwrap();
        let taken = format!("http://{}", first.addresses[0]);
        let error = bind(&url(&taken), 2, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(bind(&url(&taken), 2, true).is_ok(), "sharing was asked for");
    }

    #[test]
    fn a_socket_file_of_an_earlier_run_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("unix://{}/s.sock", directory.path().display());
        let mut killed = bind(&url(&text), 2, false).unwrap();
        std::mem::forget(killed.socket_file.take());
        drop(killed);
        let bound = bind(&url(&text), 2, false).unwrap();
        assert_eq!(bound.by_core[0].len(), 1);
        assert!(bound.by_core[1].is_empty());
    }

    #[test]
    fn a_socket_file_goes_with_its_socket_and_a_live_one_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.sock");
        let url = url(&format!("unix://{}", path.display()));
        let live = bind(&url, 1, false).unwrap();
        let error = bind(&url, 1, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(&path).unwrap();
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_whose_clients_all_wait_is_in_use_and_keeps_nobody_waiting() {
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
        let error = bind(&url(&format!("unix://{}", path.display())), 1, false).unwrap_err();
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
        let error = bind(&url(&format!("unix://{}", path.display())), 1, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists());
    }
}
