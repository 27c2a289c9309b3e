//! Questions of processes that know an address and no ids.

use crate::support;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use peers::{Limits, LinkError, Reply, ask};
use support::{CLUSTER, GREETING_BYTES, frame, member, read, read_all};

const INQUIRY: u8 = 5;
/// A kind that [`support::Recorder`] answers with the question.
const ECHO: u8 = 1;

fn limits() -> Limits {
    Limits {
        connect_timeout: support::PATIENCE,
        greeting_timeout: support::PATIENCE,
        ..Limits::default()
    }
}

#[tokio::test]
async fn an_answer_has_the_ids_of_the_member_and_its_cluster() {
    let two = member(2);
    let answer = ask(
        &two.address,
        ECHO,
        Bytes::from("ids?"),
        &limits(),
        None,
        None,
    )
    .await;
    let expected = Reply {
        cluster: CLUSTER,
        member: 2,
        answer: Bytes::from("ids?"),
    };
    assert_eq!(answer, Ok(expected));
}

#[tokio::test]
async fn a_refused_question_returns_the_reason() {
    let two = member(2);
    let error = ask(&two.address, 9, Bytes::new(), &limits(), None, None).await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains("questions of kind 9"), "{text}");
    let long = Bytes::from(vec![0; 5_000]);
    let error = ask(&two.address, ECHO, long, &limits(), None, None)
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn a_silent_address_times_out_and_a_closed_one_refuses_to_connect() {
    let silent_listener = support::listener();
    let address = silent_listener.local_addr().unwrap().to_string();
    let silent = Limits {
        greeting_timeout: Duration::from_millis(100),
        ..limits()
    };
    let error = ask(&address, ECHO, Bytes::new(), &silent, None, None).await;
    assert!(matches!(error, Err(LinkError::Timeout { .. })), "{error:?}");
    let error = ask(
        &harness::ports::free_address().unwrap(),
        ECHO,
        Bytes::new(),
        &limits(),
        None,
        None,
    )
    .await;
    assert!(matches!(error, Err(LinkError::Connect { .. })), "{error:?}");
}

#[test]
fn a_question_and_its_answer_are_as_documented() {
    let mut options = support::options(2);
    options.0.release = "r2".to_owned();
    let two = support::start(options);
    let mut socket = TcpStream::connect(&two.address).unwrap();
    socket.write_all(&support::hello(0, 0, 0, INQUIRY)).unwrap();
    let welcome = read(&mut socket, GREETING_BYTES);
    assert_eq!(welcome, support::welcome(CLUSTER, 2));
    socket.write_all(&frame(ECHO, 0, b"ids?")).unwrap();
    assert_eq!(read_all(&mut socket), frame(ECHO, 1, b"ids?"));
}
