//! Pages that a member shows over plain HTTP at its client port, such as `/metrics`.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;

use super::tls::Secure;

/// A longer page is cut off, so that a foreign server cannot fill the memory.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Gets the page `path` of the server at `url`; an error is a sentence about the reason.
pub(super) async fn get(url: &str, path: &str, secure: Option<&Secure>) -> Result<String, String> {
    let uri: Uri = url.parse().map_err(|_| format!("{url} is no URL"))?;
    let host = uri.host().unwrap_or_default();
    let authority = uri.authority().map_or(host, |it| it.as_str());
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    // With HTTP/1.0 the body is one piece, and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\n\r\n");
    let default_port = if secure.is_some() { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(default_port);
    let answer = async {
        let socket = TcpStream::connect((bare, port)).await?;
        match secure {
            None => exchange(socket, &request).await,
            Some(secure) => exchange(secure.greet(bare, socket).await?, &request).await,
        }
    };
    let answer = answer.await.map_err(|error| error.to_string())?;
    body_of(&answer)
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> std::io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn body_of(answer: &str) -> Result<String, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer in HTTP")?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_owned()),
        status => Err(format!("status {}", status.unwrap_or("missing"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_status_200_has_a_body() {
        assert_eq!(
            body_of("HTTP/1.0 200 OK\r\nA: b\r\n\r\nx 1\r\n\r\n").unwrap(),
            "x 1\r\n\r\n"
        );
        assert_eq!(
            body_of("HTTP/1.0 404 No\r\n\r\n").unwrap_err(),
            "status 404"
        );
        assert_eq!(body_of("SSH-2.0\r\n").unwrap_err(), "no answer in HTTP");
        assert_eq!(body_of("\r\n\r\n").unwrap_err(), "status missing");
    }
}
