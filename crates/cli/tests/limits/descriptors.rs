//! A process that has no descriptor left for a connection.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::served::Served;

/// Attempts to accept come every 50 to 100 ms, lines about them every 10 s.
const SHORTAGE: Duration = Duration::from_secs(3);
const LINE_EVERY_SECONDS: u64 = 10;

#[tokio::test]
async fn acceptors_warn_seldom_while_there_are_no_descriptors_and_serve_afterwards() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let peer_port = free_ports::reserve_one().unwrap();
    let peer_url = format!("http://127.0.0.1:{peer_port}");
    let words = [
        format!("--log-outputs=stderr,{}", log.display()),
        format!("--listen-peer-urls={peer_url}"),
        format!("--initial-advertise-peer-urls={peer_url}"),
        format!("--initial-cluster=default={peer_url}"),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let served = Served::start(&place.path().join("data"), &words);
    let began = Instant::now();
    let allowed = served.set_open_files_max(3);
    let waiting: Vec<TcpStream> = [served.port, peer_port, served.port, peer_port]
        .into_iter()
        .map(|port| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    tokio::time::sleep(SHORTAGE).await;
    let text = std::fs::read_to_string(&log).unwrap();
    let lines_max = 2 + (began.elapsed().as_secs() / LINE_EVERY_SECONDS) as usize;
    for line in [
        "cannot accept connections of clients",
        "cannot take a connection from another member",
    ] {
        let lines = text.matches(line).count();
        assert!(
            (1..=lines_max).contains(&lines),
            "{lines} of {lines_max}: {text}"
        );
    }
    served.set_open_files_max(allowed);
    let client = served.connect().await;
    client.put("after", b"1".to_vec()).await.unwrap();
    drop(waiting);
}
