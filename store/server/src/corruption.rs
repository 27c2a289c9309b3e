//! etcd's corruption checks: HashKV here, compared with HashKV at the other members.
//!
//! ```text
//!   initial    before clients are served    own newest revision     other hash: no start
//!   periodic   the leader                   its newest revision     alarm CORRUPT for the member
//!   compacted  the leader                   revisions of the last   alarm for those outside the
//!                                           compactions             majority; without one for 0
//! ```
//!
//! Hashes are compared only where both were taken after the same compaction. Members ask each
//! other over their own connections; a member that cannot be asked, or is of a release without
//! this question, is not compared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::Node;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType};
use revisions::{Command, KeyValueHash};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use crate::backend::{Backend, stopped};

/// How long a member that starts waits for connections to the others before it asks them.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
const CONNECT_STEP: Duration = Duration::from_millis(20);

/// A member's answer; `None`: it did not answer in time.
type PeerHash = Option<Result<KeyValueHash, revisions::Error>>;

/// Asks all other members for HashKV at a revision, at the same time.
async fn ask_all(node: &Node, own: u64, revision: i64, patience: Duration) -> Vec<(u64, PeerHash)> {
    let mut asking = JoinSet::new();
    for member in node.reader().members().iter().filter(|it| it.id != own) {
        let (node, id) = (node.clone(), member.id);
        asking.spawn(async move {
            let answer = timeout(patience, node.hash_kv_of(id, revision)).await;
            (id, answer.ok().flatten())
        });
    }
    asking.join_all().await
}

/// HashKV here, computed where it holds up no other task.
async fn own_hash(node: &Node, revision: i64) -> Result<KeyValueHash, String> {
    let reader = node.reader().clone();
    let hashed = tokio::task::spawn_blocking(move || reader.hash_kv(revision)).await;
    match hashed {
        Ok(hash) => hash.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Compares the state of a member that starts with the others'. The error is etcd's, for a
/// member that must not serve.
pub(crate) async fn initial_check(node: &Node, own: u64, patience: Duration) -> Result<(), String> {
    info!(
        local_member_id = format!("{own:x}"),
        timeout = ?patience,
        "starting initial corruption check"
    );
    await_connections(node, own).await;
    let ours = own_hash(node, 0).await;
    let ours = ours.map_err(|error| format!("{own:x} failed to fetch hash ({error})"))?;
    let answers = ask_all(node, own, ours.hash_revision, patience).await;
    if differing(&ours, &answers) > 0 {
        return Err(format!("{own:x} found data inconsistency with peers"));
    }
    info!(
        local_member_id = format!("{own:x}"),
        "initial corruption checking passed; no corruption"
    );
    Ok(())
}

async fn await_connections(node: &Node, own: u64) {
    let all_connected = async {
        loop {
            let members = node.reader().members();
            let mut others = members.iter().filter(|member| member.id != own);
            if others.all(|member| node.connected_since(member.id).is_some()) {
                return;
            }
            sleep(CONNECT_STEP).await;
        }
    };
    // Members that are down are not compared.
    let _ = timeout(CONNECT_PATIENCE, all_connected).await;
}

/// The number of members with another hash after the same compaction.
fn differing(ours: &KeyValueHash, answers: &[(u64, PeerHash)]) -> usize {
    let mut differing = 0;
    for (member, answer) in answers {
        let remote_peer_id = format!("{member:x}");
        let what = match answer {
            Some(Ok(theirs)) if theirs.hash == ours.hash => continue,
            Some(Ok(theirs)) if theirs.compact_revision == ours.compact_revision => {
                differing += 1;
                "found different hash values from remote peer"
            }
            Some(Ok(_)) => "found different compact revision values from remote peer",
            Some(Err(revisions::Error::Etcd(Refusal::FutureRevision))) => {
                "cannot fetch hash from slow remote peer"
            }
            Some(Err(revisions::Error::Etcd(Refusal::Compacted))) => {
                "cannot fetch hash from remote peer; local member is behind"
            }
            Some(Err(_)) | None => "failed hash kv request",
        };
        warn!(
            remote_peer_id,
            ?answer,
            local_member_revision = ours.hash_revision,
            local_member_compact_revision = ours.compact_revision,
            local_member_hash = ours.hash,
            "{what}"
        );
    }
    differing
}

/// Compares the members' states at intervals, until the server stops.
pub(crate) async fn run(backend: Arc<Backend>) {
    let mut stopping = backend.stopping.clone();
    let work = async { tokio::join!(run_periodic(&backend), run_compacted(&backend)) };
    tokio::select! {
        () = stopped(&mut stopping) => {}
        _ = work => {}
    }
}

async fn run_periodic(backend: &Backend) {
    let interval = backend.config.corruption.interval;
    if interval.is_zero() {
        return;
    }
    info!(?interval, "enabled corruption checking");
    loop {
        sleep(interval).await;
        if backend.leads()
            && let Err(error) = check_newest(backend).await
        {
            warn!(%error, "failed to check hash KV");
        }
    }
}

async fn run_compacted(backend: &Backend) {
    if !backend.config.corruption.after_compactions() {
        return;
    }
    let mut checked = 0;
    loop {
        sleep(backend.config.corruption.compacted_interval).await;
        if backend.leads() {
            check_compacted(backend, &mut checked).await;
        }
    }
}

/// One pass of the periodic check.
async fn check_newest(backend: &Backend) -> Result<(), String> {
    let (node, own) = (&backend.node, backend.identity.member);
    let first = own_hash(node, 0).await?;
    let patience = backend.config.request_timeout();
    let answers = ask_all(node, own, first.hash_revision, patience).await;
    let confirmed = backend.confirm_reads().await;
    confirmed.map_err(|status| status.message().to_owned())?;
    let second = own_hash(node, 0).await?;
    if let Some((member, what)) = first_mismatch(own, &first, &second, &answers) {
        warn!(
            member = format!("{member:x}"),
            ?first,
            ?second,
            ?answers,
            "{what}"
        );
        raise(backend, member).await;
    }
    let checked = answers.iter().filter(|(_, it)| matches!(it, Some(Ok(_))));
    let number_of_peers_checked = checked.count();
    info!(number_of_peers_checked, "finished peer corruption check");
    Ok(())
}

/// The first member that is not what the leader expects, and why. `first` was taken before the
/// members answered and `second` after.
fn first_mismatch(
    own: u64,
    first: &KeyValueHash,
    second: &KeyValueHash,
    answers: &[(u64, PeerHash)],
) -> Option<(u64, &'static str)> {
    let same_moment = second.hash_revision == first.hash_revision
        && second.compact_revision == first.compact_revision;
    if same_moment && second.hash != first.hash {
        return Some((own, "found hash mismatch"));
    }
    answers.iter().find_map(|(member, answer)| {
        let Some(Ok(theirs)) = answer else {
            return None;
        };
        let what = if theirs.revision > second.revision {
            "revision from follower must be less than or equal to leader's"
        } else if theirs.compact_revision > second.compact_revision {
            "compact revision from follower must be less than or equal to leader's"
        } else if theirs.compact_revision == first.compact_revision && theirs.hash != first.hash {
            "same compact revision then hashes must match"
        } else {
            return None;
        };
        Some((*member, what))
    })
}

/// One pass of the check of compacted revisions: from the newest on, up to the first one of
/// which all members still have a hash. `checked` is the newest revision at which all agreed.
async fn check_compacted(backend: &Backend, checked: &mut i64) {
    let (node, own) = (&backend.node, backend.identity.member);
    info!("starting compact hash check");
    let hashes = node.reader().compacted_hashes().into_iter();
    for ours in hashes.take_while(|hash| hash.hash_revision > *checked) {
        let patience = backend.config.request_timeout();
        let answers = ask_all(node, own, ours.hash_revision, patience).await;
        if answers.is_empty() {
            continue;
        }
        match judge(own, &ours, &answers) {
            HashJudgement::Agreed => {
                let revision = ours.hash_revision;
                info!(revision, "successfully checked hash on whole cluster");
                *checked = revision;
                break;
            }
            HashJudgement::NotAllAnswered => warn!(
                revision = ours.hash_revision,
                "skipped revision in compaction hash check; was not able to check all peers"
            ),
            HashJudgement::Corrupt(members) => {
                error!(
                    ?ours,
                    ?answers,
                    ?members,
                    "Detected compaction hash mismatch"
                );
                for member in members {
                    raise(backend, member).await;
                }
                return;
            }
        }
    }
    info!("finished compaction hash check");
}

/// The outcome of a comparison at one compacted revision.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HashJudgement {
    /// All members have the same hash.
    Agreed,
    /// All that answered have.
    NotAllAnswered,
    /// These members differ from the majority; `[0]` if there is none.
    Corrupt(Vec<u64>),
}

fn judge(own: u64, ours: &KeyValueHash, answers: &[(u64, PeerHash)]) -> HashJudgement {
    let mut by_hash = BTreeMap::from([(ours.hash, vec![own])]);
    let mut compared = 0;
    for (member, answer) in answers {
        if let Some(Ok(theirs)) = answer
            && theirs.compact_revision == ours.compact_revision
        {
            compared += 1;
            by_hash.entry(theirs.hash).or_default().push(*member);
        }
    }
    if by_hash.len() == 1 {
        return match compared == answers.len() {
            true => HashJudgement::Agreed,
            false => HashJudgement::NotAllAnswered,
        };
    }
    // This member is one of them.
    let quorum = answers.len().div_ceil(2) + 1;
    let majority = by_hash.iter().find(|(_, members)| members.len() >= quorum);
    let Some(majority) = majority.map(|(hash, _)| *hash) else {
        return HashJudgement::Corrupt(vec![0]);
    };
    by_hash.remove(&majority);
    HashJudgement::Corrupt(by_hash.into_values().flatten().collect())
}

/// Raises the alarm CORRUPT for a member. If that fails, the next pass finds the same again.
async fn raise(backend: &Backend, member: u64) {
    let alarm = Command::Alarm(AlarmRequest {
        action: AlarmAction::Activate.into(),
        member_id: member,
        alarm: AlarmType::Corrupt.into(),
    });
    let raised = timeout(
        backend.config.request_timeout(),
        backend.node.execute(alarm),
    )
    .await;
    if !matches!(raised, Ok(Ok(_))) {
        warn!(
            member = format!("{member:x}"),
            ?raised,
            "the alarm CORRUPT could not be raised"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(hash: u32, compact_revision: i64, revision: i64) -> KeyValueHash {
        KeyValueHash {
            hash,
            compact_revision,
            hash_revision: 9,
            revision,
        }
    }

    fn answers(all: &[(u64, Option<u32>)]) -> Vec<(u64, PeerHash)> {
        let answer = |found: Option<u32>| found.map(|found| Ok(hash(found, 5, 9)));
        all.iter().map(|&(id, found)| (id, answer(found))).collect()
    }

    #[test]
    fn the_minority_of_a_compacted_revision_is_corrupt() {
        let judge = |all: &[(u64, Option<u32>)]| judge(1, &hash(7, 5, 9), &answers(all));
        assert_eq!(judge(&[(2, Some(7)), (3, Some(7))]), HashJudgement::Agreed);
        assert_eq!(
            judge(&[(2, Some(7)), (3, None)]),
            HashJudgement::NotAllAnswered
        );
        let corrupt = |members: &[u64]| HashJudgement::Corrupt(members.to_vec());
        assert_eq!(judge(&[(2, Some(7)), (3, Some(8))]), corrupt(&[3]));
        assert_eq!(judge(&[(2, Some(8)), (3, Some(8))]), corrupt(&[1]));
        assert_eq!(judge(&[(2, Some(8)), (3, Some(9))]), corrupt(&[0]));
        assert_eq!(judge(&[(2, Some(8)), (3, None)]), corrupt(&[0]));
        assert_eq!(judge(&[(2, Some(8))]), corrupt(&[0]));
        let of_five = [(2, Some(8)), (3, Some(7)), (4, Some(7)), (5, Some(9))];
        assert_eq!(judge(&of_five), corrupt(&[2, 5]));
    }

    #[test]
    fn hashes_after_different_compactions_are_not_compared() {
        let ours = hash(7, 4, 9);
        let others = answers(&[(2, Some(8)), (3, Some(8))]);
        assert_eq!(judge(1, &ours, &others), HashJudgement::NotAllAnswered);
        assert_eq!(differing(&ours, &others), 0);
        assert_eq!(first_mismatch(1, &ours, &hash(7, 6, 9), &others), None);
    }

    #[test]
    fn the_periodic_check_names_the_member_that_the_leader_does_not_expect() {
        let (ours, later) = (hash(7, 5, 9), hash(3, 5, 12));
        let found = |second: &KeyValueHash, theirs: KeyValueHash| {
            first_mismatch(1, &ours, second, &[(2, Some(Ok(theirs)))]).map(|it| it.0)
        };
        let later = KeyValueHash {
            hash_revision: 12,
            ..later
        };
        assert_eq!(found(&later, hash(7, 5, 12)), None);
        assert_eq!(
            found(&later, hash(7, 5, 13)),
            Some(2),
            "ahead of the leader"
        );
        assert_eq!(found(&later, hash(7, 6, 12)), Some(2), "compacted further");
        assert_eq!(found(&later, hash(8, 5, 12)), Some(2), "another hash");
        assert_eq!(
            found(&hash(6, 5, 9), hash(7, 5, 9)),
            Some(1),
            "the leader itself"
        );
        assert_eq!(first_mismatch(1, &ours, &later, &[(2, None)]), None);
    }

    #[test]
    fn only_another_hash_after_the_same_compaction_prevents_a_start() {
        let ours = hash(7, 5, 9);
        let mut all = answers(&[(2, Some(7)), (3, Some(8)), (4, None)]);
        for refusal in [Refusal::FutureRevision, Refusal::Compacted] {
            all.push((5, Some(Err(refusal.into()))));
        }
        assert_eq!(differing(&ours, &all), 1);
    }
}
