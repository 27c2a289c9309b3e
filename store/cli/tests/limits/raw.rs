//! Calls over an HTTP/2 connection with windows that the test chooses.

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture, SendRequest};
use prost::Message;
use tokio::net::TcpStream;
use tonic::codegen::http::Request;

pub struct Raw(SendRequest<Bytes>);

impl Raw {
    pub async fn connect(address: &str, builder: &Builder) -> Raw {
        let socket = TcpStream::connect(address).await.unwrap();
        let (requests, connection) = builder.handshake(socket).await.unwrap();
        tokio::spawn(connection);
        Raw(requests)
    }

    /// Begins a unary call of a method such as `KV/Range`.
    pub async fn call(&mut self, method: &str, message: &impl Message) -> ResponseFuture {
        let request = Request::post(format!("http://localhost/etcdserverpb.{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let mut requests = self.0.clone().ready().await.unwrap();
        let (answer, mut sending) = requests.send_request(request, false).unwrap();
        sending.send_data(framed(message), true).unwrap();
        answer
    }
}

/// A message as gRPC frames it.
fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    message.encode(&mut bytes).unwrap();
    bytes.freeze()
}
