//! A server for which the first token that it issues has ended at once.

use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use etcd_api::etcdserverpb::{AuthenticateResponse, PutResponse};
use h2::server::SendResponse;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::http::{HeaderMap, Response};

type Seen = Arc<Mutex<Vec<String>>>;

pub struct Stub {
    address: String,
    /// The calls so far, each with its token.
    seen: Seen,
}

impl Stub {
    pub async fn start() -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Seen::default();
        let sees = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&sees)));
            }
        });
        Stub { address, seen }
    }

    /// Runs a client verb at this server.
    pub async fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inkstone"));
        command.args(words).env("INKSTONE_ENDPOINT", &self.address);
        command.stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output());
        output.await.unwrap().unwrap()
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(socket: TcpStream, seen: Seen) {
    let mut connection = h2::server::handshake(socket).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let method = request.uri().path().rsplit('/').next().unwrap();
        let token = request.headers().get("token");
        let token = token.map_or("-", |token| token.to_str().unwrap());
        let mut seen = seen.lock().unwrap();
        seen.push(format!("{method} {token}"));
        let logins = seen.iter().filter(|it| it.starts_with("Authenticate"));
        match (method, token) {
            ("Authenticate", _) => answer(
                respond,
                &AuthenticateResponse {
                    token: format!("token-{}", logins.count()),
                    ..AuthenticateResponse::default()
                },
            ),
            ("Put", "token-2") => answer(respond, &PutResponse::default()),
            _ => refuse(respond),
        }
    }
}

fn head() -> Response<()> {
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(()).unwrap()
}

fn answer(mut respond: SendResponse<Bytes>, message: &impl Message) {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.encoded_len() as u32);
    message.encode(&mut framed).unwrap();
    let mut stream = respond.send_response(head(), false).unwrap();
    stream.send_data(framed.freeze(), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    stream.send_trailers(trailers).unwrap();
}

fn refuse(mut respond: SendResponse<Bytes>) {
    let mut response = head();
    let headers = response.headers_mut();
    headers.insert("grpc-status", "16".parse().unwrap());
    let text = "etcdserver: invalid auth token";
    headers.insert("grpc-message", text.parse().unwrap());
    respond.send_response(response, true).unwrap();
}
