//! The end of a trial: all faults are healed, all clients have ended, and the members are compared.

use std::time::Duration;

use history::Entry;
use tokio::time::{Instant, sleep};

use super::{recovery::Probe, trial::Trial};
use crate::{
    caller::Caller,
    client,
    load::{Running, history_of_all, join},
    process::Outcome,
};

/// Time limit for the last calls of clients.
const CALLS_END: Duration = Duration::from_secs(30);
/// Time after which no command can be in progress at any member.
const QUIET: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(60);
/// Revisions at which the members' hashes are compared.
const COMPARED: i64 = 6;

/// Waits for the clients, for leases and for commands in progress. Then all members
/// must have the same history, which is returned.
pub async fn end(trial: &Trial, load: Running) -> Outcome<Vec<Entry>> {
    trial.recorder.end();
    join(load.tasks, CALLS_END, "a client's call").await?;
    no_lease_is_left(trial).await?;
    Probe::new(2_000, trial).all_members(trial).await?;
    let newest = quiet(trial).await?;
    load.last.send_replace(Some(newest));
    join(load.followers, PATIENCE, "a watch").await?;
    let voters = trial.voters();
    let members = voters.iter().map(|place| &trial.members[*place]);
    let history = history_of_all(members, newest).await?;
    let mut hashes = vec![Vec::new(); COMPARED as usize];
    let at = |part: i64| (newest * part / COMPARED).max(1);
    for place in voters {
        let channel = trial.dial(place).await?;
        for (part, hashes) in (1..).zip(&mut hashes) {
            let hash = client::hash(channel.clone(), at(part)).await?.hash;
            hashes.push(format!("{hash:08x}"));
        }
    }
    let mut same = Vec::new();
    for (revision, hashes) in (1..).map(at).zip(hashes) {
        if hashes.iter().any(|hash| *hash != hashes[0]) {
            return Err(format!("HashKV at revision {revision} differs: {hashes:?}").into());
        }
        same.push(format!("{} at {revision}", hashes[0]));
    }
    println!("\nHashKV is the same at all members: {}", same.join(", "));
    Ok(history)
}

/// Checks that all leases end, now that no client renews them.
async fn no_lease_is_left(trial: &Trial) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let channel = trial.dial(trial.voters()[0]).await?;
        match client::leases(channel).await {
            Ok(0) => return Ok(()),
            _ if Instant::now() < deadline => sleep(Duration::from_millis(200)).await,
            Ok(left) => return Err(format!("{left} leases do not end").into()),
            Err(status) => return Err(status.into()),
        }
    }
}

/// Waits until the revision does not change any more, and returns it.
async fn quiet(trial: &Trial) -> Outcome<i64> {
    let place = trial.voters()[0];
    let mut caller = Caller::to_one(3_000, place, &trial.members, &trial.recorder);
    let deadline = Instant::now() + PATIENCE;
    let mut seen = (0, Instant::now());
    while Instant::now() < deadline {
        let all = client::read_of_all(0);
        let called = caller.call(all, Duration::from_secs(10)).await;
        let answer = called.as_ref().and_then(|it| it.answer());
        let revision = answer.ok_or("a healed cluster answers no read")?.revision;
        if revision != seen.0 {
            seen = (revision, Instant::now());
        }
        if seen.1.elapsed() > QUIET {
            return Ok(revision);
        }
        sleep(Duration::from_millis(500)).await;
    }
    Err("something goes on writing after all clients have ended".into())
}
