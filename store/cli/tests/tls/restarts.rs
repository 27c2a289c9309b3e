//! The trial `cargo trials rolling-users` with twenty clients.

use std::path::Path;
use std::time::Duration;

use trials::rolling_users::{Scene, run};

use crate::secure::PROGRAM;

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_acknowledged_puts_survive_restarts_of_all_members_and_a_kill_of_the_leader() {
    let scene = Scene {
        clients: 20,
        users: 3,
        connections: 5,
        pause: Duration::from_millis(20),
        settle: Duration::from_millis(500),
        rounds: 1,
    };
    let seen = run(Path::new(PROGRAM), scene).await.unwrap();
    eprintln!("{seen:?}");
    assert!(seen.wrong.rows.is_empty(), "{}", seen.wrong);
    let gets: usize = seen.steps.iter().map(|(_, counts)| counts.gets).sum();
    assert!(seen.found > 0 && gets > 0, "{seen:?}");
}
