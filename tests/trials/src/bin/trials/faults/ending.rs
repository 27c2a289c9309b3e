//! The end of a trial: all faults are healed, all clients have ended, and the members are compared.

use std::{sync::Arc, time::Duration};

use etcd_api::etcdserverpb::{LeaseLeasesRequest, lease_client::LeaseClient};
use history::Entry;
use tokio::{task::JoinSet, time::Instant};

use super::{
    call::{Caller, dial},
    recovery::Probe,
    trial::Trial,
};
use crate::{client, process::Outcome, recorder::Recorder};

/// Time limit for the last calls of clients.
const CALLS_END: Duration = Duration::from_secs(30);
/// Time after which no command can be in progress at any member.
const QUIET: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(60);
/// Revisions at which the members' hashes are compared.
const COMPARED: i64 = 6;

/// State that all members agree on at the end.
pub struct Ending {
    pub ledger: Vec<Entry>,
    /// Revision and the hash that all members have there.
    pub hashes: Vec<(i64, u32)>,
}

/// Waits for the clients, for leases and for commands in progress. Then all members
/// must have the same history.
pub async fn end(
    trial: &Trial,
    recorder: &Arc<Recorder>,
    clients: JoinSet<Outcome>,
    watchers: JoinSet<Outcome>,
    last: tokio::sync::watch::Sender<Option<i64>>,
) -> Outcome<Ending> {
    recorder.end();
    join(clients, CALLS_END, "a client's call").await?;
    no_lease_is_left(trial).await?;
    let mut probe = Probe::new(2_000, trial, recorder);
    probe.all_members(trial).await?;
    let newest = quiet(trial, recorder).await?;
    last.send_replace(Some(newest));
    join(watchers, PATIENCE, "a watch").await?;
    let voters = trial.voters();
    let ledger = ledger(trial, voters[0], newest).await?;
    for &member in &voters[1..] {
        if self::ledger(trial, member, newest).await? != ledger {
            let names = [voters[0], member].map(|it| trial.members[it].name);
            return Err(format!("members {} have different histories", names.join(" and ")).into());
        }
    }
    let mut hashes = Vec::new();
    for part in 1..=COMPARED {
        let revision = (newest * part / COMPARED).max(1);
        hashes.push((revision, same_hash(trial, revision).await?));
    }
    Ok(Ending { ledger, hashes })
}

async fn join(mut tasks: JoinSet<Outcome>, patience: Duration, what: &str) -> Outcome {
    let ends = async {
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(())
    };
    match tokio::time::timeout(patience, ends).await {
        Ok(ended) => ended,
        Err(_) => Err(format!("{what} has not come to its end in {} s", patience.as_secs()).into()),
    }
}

/// Checks that all leases end, now that no client renews them.
async fn no_lease_is_left(trial: &Trial) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let member = &trial.members[trial.voters()[0]];
        let channel = dial(member).await.ok_or("a member is away")?;
        let answer = LeaseClient::new(channel)
            .lease_leases(LeaseLeasesRequest {})
            .await;
        let left = answer.map(|it| it.into_inner().leases.len());
        match left {
            Ok(0) => return Ok(()),
            _ if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(200)).await,
            Ok(left) => return Err(format!("{left} leases do not end").into()),
            Err(status) => return Err(status.into()),
        }
    }
}

/// Waits until the revision does not change any more, and returns it.
async fn quiet(trial: &Trial, recorder: &Arc<Recorder>) -> Outcome<i64> {
    let member = trial.voters()[0];
    let mut caller = Caller::to_one(3_000, member, &trial.members[member], recorder);
    let mut random = environment::randomness::Random::from_seed(0);
    let deadline = Instant::now() + PATIENCE;
    let mut seen = (0, Instant::now());
    while Instant::now() < deadline {
        let called = caller
            .call(client::read_of_all(0), Duration::from_secs(10), &mut random)
            .await;
        let answer = called.as_ref().and_then(|it| it.answer());
        let revision = answer.ok_or("a healed cluster answers no read")?.revision;
        if revision != seen.0 {
            seen = (revision, Instant::now());
        }
        if seen.1.elapsed() > QUIET {
            return Ok(revision);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Err("something goes on writing after all clients have ended".into())
}

/// The history of a member: every revision with its changes.
async fn ledger(trial: &Trial, member: usize, newest: i64) -> Outcome<Vec<Entry>> {
    let member = &trial.members[member];
    let channel = dial(member).await.ok_or("a member is away")?;
    let ledger = client::revisions(channel, 2, newest).await;
    ledger.map_err(|error| format!("member {}: {error}", member.name).into())
}

async fn same_hash(trial: &Trial, revision: i64) -> Outcome<u32> {
    let mut hashes = Vec::new();
    for member in trial.voters() {
        let channel = dial(&trial.members[member])
            .await
            .ok_or("a member is away")?;
        hashes.push(client::hash(channel, revision).await?.hash);
    }
    if hashes.iter().any(|hash| *hash != hashes[0]) {
        return Err(format!("HashKV at revision {revision} differs: {hashes:08x?}").into());
    }
    Ok(hashes[0])
}
