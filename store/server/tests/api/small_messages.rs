//! Many small messages at once, each in a frame of its own, as many gRPC libraries
//! send them. The server may slow the client down, but never ends its connection.

use std::future::poll_fn;

use bytes::{BufMut, Bytes, BytesMut};
use etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    PutRequest, PutResponse, RangeResponse, WatchResponse,
};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use prost::Message;
use tokio::net::TcpStream;
use tonic::codegen::http::Request;

use crate::serving::{Serving, create_watch, get, put, serving};

const PREFIX_BYTES: usize = 5;

/// A connection of HTTP/2 on which the test decides what a frame is.
struct Raw {
    requests: SendRequest<Bytes>,
    authority: String,
}

impl Raw {
    async fn connect(serving: &Serving) -> Raw {
        let authority = serving.endpoint.trim_start_matches("http://").to_owned();
        let socket = TcpStream::connect(&authority).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1 << 20);
        builder.initial_connection_window_size(1 << 24);
        let (requests, connection) = builder.handshake(socket).await.unwrap();
        tokio::spawn(async move {
            // If the connection ends, the calls report it.
            let _ = connection.await;
        });
        Raw {
            requests,
            authority,
        }
    }

    /// Begins a call of a method such as `Lease/LeaseKeepAlive`.
    async fn call(&self, method: &str) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::post(format!("http://{}/etcdserverpb.{method}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let mut requests = self.requests.clone().ready().await.unwrap();
        requests.send_request(request, false).unwrap()
    }

    /// A whole unary call.
    async fn unary<T: Message + Default>(&self, method: &str, message: &impl Message) -> T {
        let (answer, mut sending) = self.call(method).await;
        send(&mut sending, framed(message)).await;
        sending.send_data(Bytes::new(), true).unwrap();
        Answers::of(answer).await.only().await
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

/// Sends one frame, once flow control lets it pass.
async fn send(stream: &mut SendStream<Bytes>, data: Bytes) {
    stream.reserve_capacity(data.len());
    while stream.capacity() < data.len() {
        let more = poll_fn(|context| stream.poll_capacity(context)).await;
        more.expect("the stream is open").unwrap();
    }
    stream.send_data(data, false).unwrap();
}

/// The messages of an answer.
struct Answers {
    body: RecvStream,
    bytes: BytesMut,
}

impl Answers {
    async fn of(answer: ResponseFuture) -> Answers {
        let answer = answer.await.unwrap();
        assert!(answer.headers().get("grpc-status").is_none(), "{answer:?}");
        Answers {
            body: answer.into_body(),
            bytes: BytesMut::new(),
        }
    }

    /// The one message of a unary call, and its good end.
    async fn only<T: Message + Default>(mut self) -> T {
        let message = self.next().await;
        assert!(self.body.data().await.is_none());
        let trailers = self.body.trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        message
    }

    async fn next<T: Message + Default>(&mut self) -> T {
        loop {
            if self.bytes.len() >= PREFIX_BYTES {
                let length: [u8; 4] = self.bytes[1..PREFIX_BYTES].try_into().unwrap();
                let end = PREFIX_BYTES + u32::from_be_bytes(length) as usize;
                if self.bytes.len() >= end {
                    let message = self.bytes.split_to(end);
                    return T::decode(&message[PREFIX_BYTES..]).unwrap();
                }
            }
            let data = self.body.data().await.expect("there is an answer").unwrap();
            self.body
                .flow_control()
                .release_capacity(data.len())
                .unwrap();
            self.bytes.extend_from_slice(&data);
        }
    }
}

async fn grant(raw: &Raw, ttl: i64) -> i64 {
    let request = LeaseGrantRequest { ttl, id: 0 };
    let granted: LeaseGrantResponse = raw.unary("Lease/LeaseGrant", &request).await;
    granted.id
}

#[tokio::test]
async fn thirty_thousand_renewals_without_waiting_are_all_answered() {
    const RENEWALS: usize = 30_000;
    let serving = serving(&[]);
    let raw = Raw::connect(&serving).await;
    let id = grant(&raw, 600).await;
    let (answer, mut sending) = raw.call("Lease/LeaseKeepAlive").await;
    let renewal = framed(&LeaseKeepAliveRequest { id });
    let sender = tokio::spawn(async move {
        for _ in 0..RENEWALS {
            send(&mut sending, renewal.clone()).await;
        }
        sending
    });
    let mut answers = Answers::of(answer).await;
    for _ in 0..RENEWALS {
        let renewed: LeaseKeepAliveResponse = answers.next().await;
        assert_eq!((renewed.id, renewed.ttl), (id, 600));
    }
    drop(sender.await.unwrap());
    let _: PutResponse = raw.unary("KV/Put", &put("a", "1")).await;
}

#[tokio::test]
async fn watches_created_without_waiting_are_all_taken() {
    const WATCHES: usize = 50_000;
    let serving = serving(&[]);
    let raw = Raw::connect(&serving).await;
    let (answer, mut sending) = raw.call("Watch/Watch").await;
    let sender = tokio::spawn(async move {
        for number in 0..WATCHES {
            send(&mut sending, framed(&create_watch(&format!("k{number}")))).await;
        }
        sending
    });
    let mut answers = Answers::of(answer).await;
    for number in 0..WATCHES {
        let created: WatchResponse = answers.next().await;
        assert!(
            created.created && created.watch_id == number as i64,
            "{created:?}"
        );
    }
    let last = format!("k{}", WATCHES - 1);
    let _: PutResponse = raw.unary("KV/Put", &put(&last, "1")).await;
    let event: WatchResponse = answers.next().await;
    assert_eq!(event.events.len(), 1);
    drop(sender.await.unwrap());
}

#[tokio::test]
async fn unary_calls_that_end_with_a_frame_of_its_own_are_all_answered() {
    const CALLS: usize = 3_000;
    let serving = serving(&[]);
    let raw = Raw::connect(&serving).await;
    let request = framed(&PutRequest::clone(&put("a", "1")));
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        let (answer, mut sending) = raw.call("KV/Put").await;
        sending.send_data(request.clone(), false).unwrap();
        sending.send_data(Bytes::new(), true).unwrap();
        calls.push((answer, sending));
    }
    for (answer, _sending) in calls {
        let _: PutResponse = Answers::of(answer).await.only().await;
    }
}

#[tokio::test]
async fn calls_are_answered_although_the_client_leaves_their_requests_open() {
    const CALLS: usize = 1_000;
    let serving = serving(&[]);
    let raw = Raw::connect(&serving).await;
    let mut open = Vec::new();
    for number in 0..CALLS {
        let (answer, mut sending) = raw.call("KV/Put").await;
        send(&mut sending, framed(&put("a", &number.to_string()))).await;
        let _: PutResponse = Answers::of(answer).await.only().await;
        open.push(sending);
    }
    let read: RangeResponse = raw.unary("KV/Range", &get("a")).await;
    let kv = read.kvs[0].decode().unwrap();
    assert_eq!((&kv.value[..], kv.version), (&b"999"[..], CALLS as i64));
}

#[tokio::test]
async fn a_stream_with_unread_answers_is_held_back_and_its_connection_still_serves() {
    let serving = serving(&[]);
    let raw = Raw::connect(&serving).await;
    let id = grant(&raw, 600).await;
    let renewal = framed(&LeaseKeepAliveRequest { id });
    let mut unread = Vec::new();
    for _ in 0..3 {
        let (answer, mut sending) = raw.call("Lease/LeaseKeepAlive").await;
        let renewal = renewal.clone();
        unread.push(answer);
        // The server holds this task back for ever, because the test reads no answers.
        tokio::spawn(async move {
            loop {
                send(&mut sending, renewal.clone()).await;
            }
        });
    }
    for number in 0..200 {
        let _: PutResponse = raw.unary("KV/Put", &put(&format!("k{number}"), "1")).await;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // Once they are read, the renewals go on.
    let mut answers = Answers::of(unread.remove(0)).await;
    for _ in 0..100_000 {
        let renewed: LeaseKeepAliveResponse = answers.next().await;
        assert_eq!(renewed.ttl, 600);
    }
}
