//! Golden bytes of `docs/formats/peers.md`. If a test fails, the
//! protocol has changed: raise its version and document how members of two
//! releases understand each other.

use crate::support;

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use bytes::Bytes;
use peers::Lane;
use support::{CLUSTER, GREETING_BYTES, Member, enter, let_in, listener, member, options, read};

const INQUIRY: u8 = 5;
const BULK: u8 = 2;

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| {
        let digits = line.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Member 3, release "r1", which dials a listener of the test as member 4.
fn dialer() -> (Member, TcpListener) {
    let mut options = options(3);
    options.0.release = "r1".to_owned();
    let member = support::start(options);
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    member.peers.set_member(4, vec![address]).unwrap();
    (member, listener)
}

#[test]
fn a_hello_is_as_documented() {
    let (_member, listener) = dialer();
    let (_, hello) = let_in(&listener, 4, BULK);
    assert_eq!(hex(&hello), GOLDEN_HELLO);
    assert_eq!(hello, support::hello(CLUSTER, 3, 4, BULK));
}

#[test]
fn a_welcome_is_as_documented() {
    let mut options = options(4);
    options.0.release = "r2".to_owned();
    let member = support::start(options);
    let mut socket = TcpStream::connect(&member.address).unwrap();
    let hello = support::hello(CLUSTER, 3, 4, BULK);
    socket.write_all(&hello).unwrap();
    let welcome = read(&mut socket, GREETING_BYTES);
    assert_eq!(hex(&welcome), GOLDEN_WELCOME);
    assert_eq!(welcome, support::welcome(CLUSTER, 4));
}

#[test]
fn a_refusal_is_as_documented() {
    let member = member(4);
    let mut socket = TcpStream::connect(&member.address).unwrap();
    let mut hello = support::hello(CLUSTER, 3, 4, BULK);
    hello[8] = 2;
    socket.write_all(&hello).unwrap();
    let all = support::read_all(&mut socket);
    assert_eq!(hex(&all[..11]), "494e4b5045455253010001");
    let release = usize::from(all[11]);
    let reason = String::from_utf8_lossy(&all[40 + release..all.len() - 4]);
    let expected = "protocol version 2 came, this release speaks version 1; \
                    run releases that differ by one at most";
    assert_eq!(reason, expected);
    assert_eq!(usize::from(all[12]), reason.len());
}

#[test]
fn a_message_is_as_documented() {
    let (member, listener) = dialer();
    let (mut socket, _) = let_in(&listener, 4, BULK);
    let parts = [Bytes::from("ink on "), Bytes::from("stone")];
    member.peers.send(4, Lane::Bulk, 7, &parts).unwrap();
    let frame = read(&mut socket, 12 + 12);
    assert_eq!(hex(&frame), GOLDEN_MESSAGE);
    assert_eq!(frame, support::frame(7, 0, b"ink on stone"));
}

#[test]
fn an_answer_and_a_refused_question_are_as_documented() {
    let member = member(4);
    for (kind, role, body) in [
        (1, 1, "ids"),
        (9, 2, "questions of kind 9 are not answered here"),
    ] {
        let mut socket = enter(&member.address, 0, 0, INQUIRY);
        socket.write_all(&support::frame(kind, 0, b"ids")).unwrap();
        let answer = support::read_all(&mut socket);
        assert_eq!(answer, support::frame(kind, role, body.as_bytes()));
    }
}

const GOLDEN_HELLO: &str = "\
494e4b50454552530100020200000000\n\
c1000000000000000300000000000000\n\
04000000000000007231bdf39da4";
const GOLDEN_WELCOME: &str = "\
494e4b50454552530100000200000000\n\
c1000000000000000400000000000000\n\
0000000000000000723289daf2c3";
const GOLDEN_MESSAGE: &str = "\
09babc350c00000007000000696e6b20\n\
6f6e2073746f6e65";
