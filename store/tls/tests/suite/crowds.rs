//! Many clients that never finish their handshake.

use crate::support;

use support::{Files, Server};
use tls::{Accepts, HANDSHAKE_TIME_MAX};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn silent_and_slow_clients_do_not_keep_a_healthy_one_out() {
    let files = Files::new();
    let server = Server::start(files.server(), Accepts::Tls).await;
    let mut crowd = Vec::new();
    for number in 0..1500 {
        let mut client = TcpStream::connect(("127.0.0.1", server.port))
            .await
            .unwrap();
        if number % 2 == 0 {
            // The beginning of a record that never ends.
            client.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
        }
        crowd.push(client);
        if number % 100 == 0 {
            server.greets(&files.client(), "localhost").await.unwrap();
        }
    }
    server.greets(&files.client(), "localhost").await.unwrap();
    // Connections beyond the bound were closed, the oldest first.
    let mut oldest = crowd.remove(0);
    let mut rest = Vec::new();
    let _ = oldest.read_to_end(&mut rest).await;
}

/// Takes as long as a handshake may, many times as long on a machine under load.
#[tokio::test]
async fn a_handshake_that_never_ends_is_ended() {
    let files = Files::new();
    let server = Server::start(files.server(), Accepts::Tls).await;
    let mut client = TcpStream::connect(("127.0.0.1", server.port))
        .await
        .unwrap();
    let mut rest = Vec::new();
    let ended = timeout(HANDSHAKE_TIME_MAX * 6, client.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the handshake has no deadline");
    assert!(rest.is_empty());
}
