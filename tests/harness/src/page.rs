//! Pages that a server shows over HTTP (health, readiness, metrics), and calls in JSON.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time limit for each part of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug)]
pub struct Page {
    /// Status code, such as 200.
    pub status: u16,
    pub body: String,
}

/// Gets the page `path` of the server at `address` (`host:port`).
pub fn get(address: &str, path: &str) -> io::Result<Page> {
    // With HTTP/1.0 the body is one piece, and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    exchange(address, &request, ANSWER_MAX)
}

/// Sends `body`, JSON, to the call `path` of the server at `address` (`host:port`); waits for
/// each part of the answer at most `patience`.
pub fn post(address: &str, path: &str, body: &str, patience: Duration) -> io::Result<Page> {
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(address, &request, patience)
}

fn exchange(address: &str, request: &str, patience: Duration) -> io::Result<Page> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| {
        let what = format!("no answer in HTTP: {answer:?}");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// The value of an unlabelled metric on the page `/metrics`.
pub fn metric(address: &str, name: &str) -> io::Result<Option<f64>> {
    let page = get(address, "/metrics")?;
    let rows = page.body.lines().filter_map(|row| row.split_once(' '));
    let mut found = rows.filter(|(label, _)| *label == name);
    Ok(found.next().and_then(|(_, value)| value.parse().ok()))
}

fn parse(answer: &str) -> Option<Page> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let body = body.to_owned();
    Some(Page { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_status_and_a_body() {
        let page = parse("HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\nnot yet\r\n\r\n");
        let page = page.unwrap();
        assert_eq!((page.status, page.body.as_str()), (503, "not yet\r\n\r\n"));
        assert!(parse("").is_none());
        assert!(parse("SSH-2.0\r\n\r\n").is_none());
    }
}
