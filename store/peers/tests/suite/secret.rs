//! Members that prove to each other that they have a secret.

use crate::support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;

use bytes::Bytes;
use peers::{Lane, LinkError, PeerSecret, Refusal};
use support::{CLUSTER, Member, block_on, hello, listener, options, read_all, start};

const BULK: u8 = 2;

fn secret(byte: u8) -> Option<PeerSecret> {
    Some(PeerSecret::new(&[byte; 32]).unwrap())
}

/// A member with this secret.
fn member(id: u64, secret: Option<PeerSecret>) -> Member {
    let mut options = options(id);
    options.0.secret = secret;
    start(options)
}

fn refusal(one: &Member) -> String {
    match one.events.disconnected(Lane::Bulk) {
        LinkError::Refused {
            refusal: Refusal::Secret,
            text,
            ..
        } => text,
        other => panic!("{other}"),
    }
}

#[test]
fn members_with_the_same_secret_send_messages_and_streams() {
    let (one, two) = (member(1, secret(7)), member(2, secret(7)));
    one.knows(2, &two);
    two.knows(1, &one);
    for length in [0, 1, 70_000, 3 << 20] {
        let payload = Bytes::from(vec![length as u8; length]);
        one.peers
            .send(2, Lane::Bulk, 9, std::slice::from_ref(&payload))
            .unwrap();
        assert!(two.events.message().3 == payload, "{length} bytes");
        let echoed = block_on(async {
            let mut stream = one.peers.open_stream(2, 1, payload.clone()).await.unwrap();
            let echoed = stream.receive().await.unwrap().unwrap();
            stream.finish().await.unwrap();
            assert_eq!(stream.receive().await.unwrap(), None);
            echoed
        });
        assert!(echoed.payload == payload, "{length} bytes");
    }
}

#[test]
fn inquiries_are_answered_only_to_processes_with_the_secret() {
    let two = member(2, secret(7));
    let ask = |secret: Option<PeerSecret>| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let limits = peers::Limits::default();
        let question = Bytes::from_static(b"which member?");
        runtime.unwrap().block_on(peers::ask(
            &two.address,
            1,
            question,
            &limits,
            secret.as_ref(),
            None,
        ))
    };
    assert_eq!(ask(secret(7)).unwrap().member, 2);
    for wrong in [None, secret(8)] {
        let error = ask(wrong).unwrap_err();
        let is_refused = matches!(
            error,
            LinkError::Refused {
                refusal: Refusal::Secret,
                ..
            }
        );
        assert!(is_refused, "{error}");
    }
}

#[test]
fn members_with_and_without_a_secret_refuse_each_other_with_the_reason() {
    let with = member(1, secret(7));
    let without = member(2, None);
    with.knows(2, &without);
    without.knows(1, &with);
    let text = refusal(&with);
    assert!(text.starts_with("the sender has a peer secret, and this member has none"));
    let text = refusal(&without);
    assert!(text.starts_with("this member has a peer secret, and the sender has none"));
}

#[test]
fn members_with_different_secrets_refuse_each_other() {
    let (one, two) = (member(1, secret(7)), member(2, secret(8)));
    one.knows(2, &two);
    let text = refusal(&one);
    assert!(text.starts_with("it has another peer secret"), "{text}");
}

/// Forwards bytes between a dialer and a member, and records what the dialer sends.
fn spy_on(address: String) -> (String, std::sync::mpsc::Receiver<Vec<u8>>) {
    let listener = listener();
    let between = listener.local_addr().unwrap().to_string();
    let (said, heard) = channel();
    environment::threads::spawn("spy", move || {
        while let Ok((dialer, _)) = listener.accept() {
            let member = TcpStream::connect(&address).unwrap();
            let (mut back_from, mut back_to) =
                (member.try_clone().unwrap(), dialer.try_clone().unwrap());
            let back = environment::threads::spawn("spy back", move || {
                let _ = std::io::copy(&mut back_from, &mut back_to);
            });
            let (mut dialer, mut member, said) = (dialer, member, said.clone());
            let there = environment::threads::spawn("spy there", move || {
                let mut all = Vec::new();
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = dialer.read(&mut piece) {
                    all.extend_from_slice(&piece[..count]);
                    if member.write_all(&piece[..count]).is_err() {
                        break;
                    }
                    let _ = said.send(all.clone());
                }
            });
            drop((back, there));
        }
    })
    .unwrap();
    (between, heard)
}

#[test]
fn a_replayed_greeting_is_refused() {
    let (one, two) = (member(1, secret(7)), member(2, secret(7)));
    let (between, heard) = spy_on(two.address.clone());
    one.peers.set_member(2, vec![between]).unwrap();
    let payload = [Bytes::from_static(b"recorded")];
    one.peers.send(2, Lane::Bulk, 9, &payload).unwrap();
    assert_eq!(two.events.message().3, "recorded");
    one.peers.stop();
    let recorded: Vec<Vec<u8>> = heard.try_iter().collect();
    assert!(!recorded.is_empty());
    for bytes in recorded {
        let mut socket = TcpStream::connect(&two.address).unwrap();
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let answer = read_all(&mut socket);
        // A challenge and a proof of the member, and no welcome after it.
        assert!(answer.len() <= 80, "{} bytes came back", answer.len());
    }
    let more = two.recorder.count_messages();
    assert_eq!(more, 1, "a replayed message was delivered");
}

#[test]
fn a_sender_without_a_proof_is_refused_and_its_frames_are_not_delivered() {
    let two = member(2, secret(7));
    let mut socket = TcpStream::connect(&two.address).unwrap();
    socket.write_all(&hello(CLUSTER, 1, 2, BULK)).unwrap();
    let _ = socket.write_all(&support::frame(9, 0, b"believe me"));
    let answer = read_all(&mut socket);
    assert_eq!(answer[10], 9, "the verdict");
    assert_eq!(two.recorder.count_messages(), 0);
}
