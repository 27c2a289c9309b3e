//! Answers to HTTP clients at the peer port.
//!
//! A browser or an etcd client that was given the peer port by mistake gets an HTTP error
//! that says so. A connection that sends anything else but a greeting is closed.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::socket::Socket;

/// First bytes of HTTP requests; HTTP/2 begins with `PRI`.
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
/// Bytes of the request that are read before the connection is closed, and the time limit
/// for that. Closing a connection with unread bytes would reset it, and the client would not
/// see the answer.
const REQUEST_BYTES_MAX: u64 = 64 << 10;
const REQUEST_TIME_MAX: Duration = Duration::from_secs(1);

const PAGE: &str = "This port is for the members of an Inkstone cluster, which speak a protocol \
                    of their own here. Clients connect to the client port.\n";

/// Whether an HTTP request may begin with `first`.
pub(crate) fn speaks_http(first: &[u8]) -> bool {
    METHODS.iter().any(|method| {
        let length = method.len().min(first.len());
        first[..length] == method[..length]
    })
}

/// Answers with an HTTP error page that explains the port.
pub(crate) async fn answer(mut socket: Socket) -> std::io::Result<()> {
    let bytes = PAGE.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {bytes}\r\nConnection: close\r\n\r\n{PAGE}"
    );
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await?;
    let mut rest = socket.take(REQUEST_BYTES_MAX);
    // A client that sends more, or for longer, is cut off.
    let _ = timeout(
        REQUEST_TIME_MAX,
        tokio::io::copy(&mut rest, &mut tokio::io::sink()),
    )
    .await;
    Ok(())
}
