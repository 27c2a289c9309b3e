//! Small crowds of the trial `cargo trials tls-abuse`: more than there may be handshakes, and the
//! other clients notice nothing.

use std::path::Path;
use std::time::Duration;

use trials::tls_abuse::{Attack, Port, Scene, run};

use crate::secure::PROGRAM;

/// More than the 1,024 handshakes that may be under way.
const CROWD: u64 = 1_200;
const DRIPPING: u64 = 50;

async fn play(attack: Attack, port: Port, connections: u64) {
    let scene = Scene {
        attack,
        port,
        connections,
        lasting: Duration::ZERO,
    };
    match run(Path::new(PROGRAM), scene).await {
        Ok(report) => eprintln!("{}: {report}", scene.name()),
        Err(error) => panic!("{}: {error}", scene.name()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_handshakes_at_the_client_port_are_not_noticed() {
    play(Attack::HalfOpen, Port::Client, CROWD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_handshakes_at_the_peer_port_are_not_noticed() {
    play(Attack::HalfOpen, Port::Peer, CROWD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_byte_a_second_in_the_handshake_is_not_noticed() {
    play(Attack::DripBefore, Port::Metrics, DRIPPING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_byte_a_second_after_the_handshake_is_not_noticed() {
    play(Attack::DripAfter, Port::Client, DRIPPING).await;
}
