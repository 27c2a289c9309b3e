//! Streams: a transfer is complete, or the receiver gets an error.

use crate::support;

use std::io::Write;

use bytes::Bytes;
use peers::{Stream, StreamError};
use support::{Member, block_on, enter, frame, listener, member, read};

const SNAPSHOT: u8 = 4;

/// Members 1 and 2; 1 has 2 in its table, and 2 echoes the frames of a stream.
fn pair() -> (Member, Member) {
    let (one, two) = (member(1), member(2));
    one.knows(2, &two);
    (one, two)
}

/// Opens a stream and waits for the echo of its header.
async fn open(one: &Member, header: &'static str) -> Stream {
    let mut stream = one.peers.open_stream(2, 1, header.into()).await.unwrap();
    let first = stream.receive().await.unwrap().unwrap();
    assert_eq!(first.payload, header);
    stream
}

#[test]
fn frames_go_both_ways_until_both_sides_finish() {
    let (one, _two) = pair();
    block_on(async {
        let mut stream = open(&one, "all").await;
        for kind in 0..50 {
            let payload = Bytes::from(vec![kind; usize::from(kind) * 1_000]);
            stream.send(kind, payload.clone()).await.unwrap();
            let frame = stream.receive().await.unwrap().unwrap();
            assert_eq!(frame.kind, kind);
            assert!(frame.payload == payload);
        }
        stream.finish().await.unwrap();
        assert_eq!(stream.receive().await, Ok(None));
        assert_eq!(stream.receive().await, Ok(None));
        let error = stream.send(1, Bytes::new()).await.unwrap_err();
        assert!(
            error.to_string().ends_with("the stream has ended"),
            "{error}"
        );
    });
}

#[test]
fn many_streams_work_at_the_same_time() {
    let (one, _two) = pair();
    block_on(async {
        let mut streams = Vec::new();
        for _ in 0..20 {
            streams.push(open(&one, "one of many").await);
        }
        for (kind, stream) in (0..).zip(&mut streams) {
            stream.send(kind, Bytes::from("x")).await.unwrap();
        }
        for (kind, stream) in (0..).zip(&mut streams) {
            assert_eq!(stream.receive().await.unwrap().unwrap().kind, kind);
        }
    });
}

#[test]
fn a_stream_that_is_cut_off_ends_with_an_error() {
    let one = member(1);
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    one.peers.set_member(2, vec![address]).unwrap();
    let acceptor = environment::threads::spawn("acceptor", move || {
        let (mut socket, _) = support::let_in(&listener, 2, SNAPSHOT);
        assert_eq!(read(&mut socket, 12 + 6), frame(1, 0, b"header"));
        socket.write_all(&frame(2, 0, b"a part")).unwrap();
    });
    block_on(async {
        let header = Bytes::from("header");
        let mut stream = one.peers.open_stream(2, 1, header).await.unwrap();
        let part = stream.receive().await.unwrap().unwrap();
        assert_eq!((part.kind, part.payload), (2, Bytes::from("a part")));
        let error = stream.receive().await.unwrap_err();
        assert!(
            matches!(error, StreamError::Broken { member: 2, .. }),
            "{error}"
        );
    });
    acceptor.unwrap().join().unwrap();
}

#[test]
fn opening_a_stream_to_an_unreachable_member_fails_with_the_reason() {
    let one = member(1);
    let open = |id| block_on(one.peers.open_stream(id, 1, Bytes::new())).err();
    assert_eq!(open(2), Some(StreamError::UnknownMember(2)));
    let three = member(3);
    one.knows(2, &three);
    let error = open(2).unwrap();
    assert!(matches!(error, StreamError::Unreachable { member: 2, .. }));
    assert!(error.to_string().contains("this is member"), "{error}");
    one.peers.stop();
    assert_eq!(open(2), Some(StreamError::Stopped));
}

#[test]
fn open_streams_end_with_an_error_after_a_stop() {
    let (one, two) = pair();
    block_on(async {
        let mut stream = open(&one, "held").await;
        one.peers.stop();
        assert_eq!(stream.receive().await, Err(StreamError::Stopped));
        assert!(stream.send(1, Bytes::new()).await.is_err());
    });
    one.peers.stop();
    two.peers.stop();
}

#[test]
fn the_next_send_completes_the_frame_of_a_dropped_send() {
    let (one, _two) = pair();
    block_on(async {
        let mut stream = open(&one, "patience").await;
        // The buffers between the ends do not hold as much, so the echo waits.
        let large = Bytes::from(vec![1; 60 << 20]);
        {
            let mut send = Box::pin(stream.sender.send(1, large.clone()));
            let first =
                std::future::poll_fn(|context| std::task::Poll::Ready(send.as_mut().poll(context)));
            assert!(first.await.is_pending());
        }
        let Stream {
            mut sender,
            mut receiver,
        } = stream;
        let (sent, came) = tokio::join!(sender.send(2, Bytes::from("next")), async {
            let large = receiver.receive().await.unwrap().unwrap();
            (large, receiver.receive().await.unwrap().unwrap())
        });
        sent.unwrap();
        assert!(came.0.payload == large);
        assert_eq!(came.1.payload, "next");
    });
}

#[test]
fn a_stream_without_a_first_frame_is_closed() {
    let two = member(2);
    let mut socket = enter(&two.address, 1, 2, SNAPSHOT);
    socket.write_all(&frame(0, 6, b"")).unwrap();
    assert!(support::read_all(&mut socket).is_empty());
}
