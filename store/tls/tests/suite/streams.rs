//! Bytes through a connection, with both halves used apart.

use crate::support;

use std::future::pending;
use std::sync::Arc;

use support::Files;
use tls::{Acceptor, Accepts, Arrived, Connector, Endpoint, Handshakes, RawSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const BYTES: usize = 3 << 20;

#[tokio::test]
async fn halves_send_and_receive_at_the_same_time_and_end_in_order() {
    let files = Files::new();
    let acceptor = Arc::new(Acceptor::new(files.server(), Endpoint::Peer).unwrap());
    let handshakes = Handshakes::start(1).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (done, arrived) = oneshot::channel();
    let accepting = async {
        let (socket, _) = listener.accept().await.unwrap();
        let socket = RawSocket::Tcp(socket.into_std().unwrap());
        handshakes.begin(socket, Accepts::Tls, &acceptor, pending(), move |arrived| {
            done.send(arrived).unwrap();
        });
        match arrived.await.unwrap() {
            Arrived::Secure(stream, None) => stream.attach().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let dialling = async {
        let connector = Connector::new(files.client(), &[]).unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        connector.connect("localhost", socket).await.unwrap()
    };
    let (here, there) = tokio::join!(dialling, accepting);
    let mut tasks = Vec::new();
    for stream in [here, there] {
        let (mut reader, mut writer) = stream.split();
        tasks.push(tokio::spawn(async move {
            writer.write_all(&vec![7; BYTES]).await.unwrap();
            drop(writer);
            BYTES
        }));
        tasks.push(tokio::spawn(async move {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).await.unwrap();
            assert!(all.iter().all(|byte| *byte == 7));
            all.len()
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), BYTES);
    }
}
