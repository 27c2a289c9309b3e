//! Ten thousand clients that are connected and idle.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::served::{Served, until};

const CONNECTIONS: u64 = 10_000;
/// The process has other files open, too.
const FILES: u64 = CONNECTIONS + 500;
/// Allowed difference of open files: the log may open or close segments during the test.
const LOG_FILES: u64 = 4;
/// 177 MiB were measured (108 MiB of a release build).
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// The preface of an HTTP/2 client, with an empty frame of settings.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// The acknowledgement of the server's settings.
const AGREED: &[u8] = b"\x00\x00\x00\x04\x01\x00\x00\x00\x00";
const FRAME_HEADER_BYTES: usize = 9;
const KIND_SETTINGS: u8 = 4;

/// A connection on which both sides have agreed to speak HTTP/2.
fn shake_hands(address: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(HELLO).unwrap();
    let mut header = [0; FRAME_HEADER_BYTES];
    socket.read_exact(&mut header).unwrap();
    assert_eq!(header[3], KIND_SETTINGS, "{header:?}");
    socket.write_all(AGREED).unwrap();
    socket
}

/// Raises the soft limit of open files; false if the hard limit, which only root may raise,
/// is too low.
fn may_open(files: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < files) {
        return false;
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).is_ok()
}

#[tokio::test]
async fn ten_thousand_idle_connections_refuse_no_client_and_free_all_descriptors() {
    if !may_open(FILES) {
        let limit = getrlimit(Resource::Nofile).maximum;
        eprintln!("SKIPPED: {FILES} open files are needed and {limit:?} are allowed (ulimit -Hn)");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let served = Served::start(place.path(), &[]);
    assert!(served.open_files_max() >= FILES);
    let client = served.connect().await;
    client.put("before", b"1".to_vec()).await.unwrap();
    let files = served.open_files();

    let idle: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| shake_hands(served.address()))
        .collect();
    assert!(served.open_files() >= files + CONNECTIONS - LOG_FILES);

    let other = served.connect().await;
    let mut watch = other.watch("watched", "", 0).await;
    let revision = other.put("watched", b"2".to_vec()).await.unwrap();
    assert_eq!(other.get("watched").await.unwrap(), b"2");
    let events = watch.next().await.events;
    assert_eq!(events[0].kv.as_ref().unwrap().mod_revision(), revision);
    let resident_bytes = served.resident_bytes();
    assert!(
        resident_bytes < MEMORY_BYTES_MAX,
        "{resident_bytes} bytes of memory for {CONNECTIONS} connections"
    );

    drop((watch, other, idle));
    until("all handles are given back", || {
        served.open_files() <= files + LOG_FILES
    })
    .await;
    assert_eq!(client.get("before").await.unwrap(), b"1");
}
