//! A process that has no descriptor left for a connection.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use tonic::Code;

use crate::served::Served;

/// The server tries to accept every 50 to 100 ms and logs failures every 10 s.
const SHORTAGE: Duration = Duration::from_secs(3);
const LINE_EVERY_SECONDS: u64 = 10;

#[tokio::test]
async fn acceptors_without_descriptors_warn_at_a_limited_rate_and_recover() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let flags = [
        &format!("--log-outputs=stderr,{}", log.display()),
        "--listen-peer-urls=http://127.0.0.1:0",
        "--initial-advertise-peer-urls=http://127.0.0.1:0",
    ];
    let mut served = Served::start(place.path(), &flags);
    let peer_address = served.peer_address();
    let began = Instant::now();
    let allowed = served.set_open_files_max(3);
    let addresses = [served.address(), &peer_address].repeat(2);
    let waiting: Vec<TcpStream> = addresses
        .into_iter()
        .map(|address| TcpStream::connect(address).unwrap())
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

#[tokio::test]
async fn a_put_without_a_descriptor_for_the_log_is_unavailable_until_one_is_free() {
    const VALUE_BYTES: usize = 64 << 10;
    // More puts than the segments that were made ahead can hold.
    const PUTS_MAX: u32 = 2_000;
    let place = tempfile::tempdir().unwrap();
    let data = place.path();
    let mut served = Served::start(data, &["--segment-bytes=1048576"]);
    let client = served.connect().await;
    client.put("before", b"1".to_vec()).await.unwrap();
    let allowed = served.set_open_files_max(3);
    let mut taken = 0;
    let refusal = loop {
        let key = format!("{taken:04}");
        match client.put(&key, vec![1; VALUE_BYTES]).await {
            Ok(_) => taken += 1,
            Err(refusal) => break refusal,
        }
        assert!(taken < PUTS_MAX, "segments are opened without a descriptor");
    };
    assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
    let text = refusal.message();
    assert!(text.starts_with("inkstone: "), "{text}");
    assert!(text.contains("nothing was written"), "{text}");
    // Reads still succeed, and see only acknowledged puts.
    assert_eq!(client.get("before").await.unwrap(), b"1");
    assert_eq!(client.get(&format!("{taken:04}")).await, None);

    served.set_open_files_max(allowed);
    let mut refusals = 0;
    while let Err(refusal) = client.put("after", b"2".to_vec()).await {
        assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
        refusals += 1;
        assert!(refusals < 3_000, "{refusal}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    served.kill();
    let served = Served::start(data, &["--segment-bytes=1048576"]);
    let client = served.connect().await;
    assert_eq!(client.get("after").await.unwrap(), b"2");
    for number in 0..taken {
        let found = client.get(&format!("{number:04}")).await.unwrap();
        assert_eq!(found, [1; VALUE_BYTES], "{number} was acknowledged");
    }
}
