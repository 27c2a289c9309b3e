//! Small crowds of the trials `cargo trials tls-abuse` (more than there may be handshakes, and the
//! other clients notice nothing) and `cargo trials rolling-users`.

use std::path::Path;
use std::time::Duration;

use trials::rolling_users;
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

/// Members restarted under 20 clients with users: `cargo trials rolling-users`.
#[test]
fn tokens_and_acknowledged_puts_survive_restarts_of_all_members_and_a_kill_of_the_leader() {
    let scene = rolling_users::Scene {
        clients: 20,
        users: 3,
        connections: 5,
        pause: Duration::from_millis(20),
        settle: Duration::from_millis(500),
        rounds: 1,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = runtime.block_on(rolling_users::run(Path::new(PROGRAM), scene));
    let seen = seen.unwrap();
    eprintln!("{seen:?}");
    assert!(seen.wrong.rows.is_empty(), "{}", seen.wrong);
    assert!(seen.found > 0);
    let has_served =
        |(_, counts): &(String, rolling_users::Counts)| counts.puts > 0 && counts.gets > 0;
    assert!(seen.steps.iter().all(has_served), "{:?}", seen.steps);
}
