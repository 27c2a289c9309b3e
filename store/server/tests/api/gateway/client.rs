//! A client of HTTP/1 that sees every byte.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The head of an answer, and the connection that has its body.
pub struct Answer {
    pub status: u16,
    /// All header lines, in lower case.
    pub head: String,
    socket: BufReader<TcpStream>,
    /// Bytes of the body, or of its current chunk, that are not read.
    left: Option<usize>,
}

/// Sends a request with more header lines, and reads the head of its answer.
pub async fn ask(address: &str, method: &str, path: &str, lines: &str, body: &str) -> Answer {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
    );
    // A server that refuses a body may answer before it has read all of it.
    let _ = socket.write_all(request.as_bytes()).await;
    Answer::of(socket).await
}

/// Sends a request and reads its answer: status and body.
pub async fn post(address: &str, path: &str, body: &str) -> (u16, String) {
    let mut answer = ask(address, "POST", path, "", body).await;
    (answer.status, answer.rest().await)
}

impl Answer {
    /// Reads the head of an answer.
    pub async fn of(socket: TcpStream) -> Answer {
        let mut socket = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let bytes = socket.read_line(&mut head).await.unwrap();
            assert!(bytes > 0, "the connection ended after {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let left = length.map(|length| length.parse().unwrap());
        Answer {
            status,
            head,
            socket,
            left,
        }
    }

    /// The next line of the body; `None` at its end.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            match self.byte().await {
                Some(byte) => line.push(byte),
                None => break,
            }
        }
        (!line.is_empty()).then(|| String::from_utf8(line).unwrap().trim_end().to_owned())
    }

    /// The rest of the body.
    pub async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        while let Some(byte) = self.byte().await {
            bytes.push(byte);
        }
        String::from_utf8(bytes).unwrap().trim_end().to_owned()
    }

    /// The next byte of the body; `None` at its end. A body that breaks off is a panic.
    async fn byte(&mut self) -> Option<u8> {
        if self.head.contains("transfer-encoding: chunked") && matches!(self.left, None | Some(0)) {
            self.left = Some(self.chunk().await);
            if self.left == Some(0) {
                return None;
            }
        }
        match &mut self.left {
            None | Some(0) => None,
            Some(left) => {
                *left -= 1;
                let byte = self.socket.read_u8().await.expect("the body breaks off");
                if *left == 0 && self.head.contains("transfer-encoding: chunked") {
                    self.socket.read_line(&mut String::new()).await.unwrap();
                }
                Some(byte)
            }
        }
    }

    /// The length of the next chunk.
    async fn chunk(&mut self) -> usize {
        let mut line = String::new();
        self.socket.read_line(&mut line).await.unwrap();
        usize::from_str_radix(line.trim(), 16).expect("the body breaks off")
    }
}
