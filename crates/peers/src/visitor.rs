//! Those who come to the wrong door.
//!
//! A browser or a client that was given the peer port gets an answer in its
//! own language; everything else that is no greeting is hung up on.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::socket::Socket;

/// How HTTP requests begin; HTTP/2 begins with `PRI`.
const METHODS: [&[u8]; 10] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"CONNECT ",
    b"OPTIONS ",
    b"TRACE ",
    b"PATCH ",
    b"PRI ",
];
/// How much of the request is read before the connection is closed, and for
/// how long: closing with bytes unread would take the answer back.
const REQUEST_BYTES_MAX: u64 = 64 << 10;
const REQUEST_TIME_MAX: Duration = Duration::from_secs(1);

const PAGE: &str = "This port is for the members of an Inkstone cluster, which speak a protocol \
                    of their own here. Clients connect to the client port.\n";

/// Whether `first` is how an HTTP request begins.
pub(crate) fn speaks_http(first: &[u8]) -> bool {
    METHODS.iter().any(|method| {
        let length = method.len().min(first.len());
        first[..length] == method[..length]
    })
}

/// Says what this port is.
pub(crate) async fn answer(mut socket: Socket) -> std::io::Result<()> {
    let bytes = PAGE.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {bytes}\r\nConnection: close\r\n\r\n{PAGE}"
    );
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await?;
    let mut rest = socket.take(REQUEST_BYTES_MAX);
    // An impatient or talkative visitor is cut off: both are fine.
    let _ = timeout(
        REQUEST_TIME_MAX,
        tokio::io::copy(&mut rest, &mut tokio::io::sink()),
    )
    .await;
    Ok(())
}
