//! How a member ends that was removed from its cluster.
//!
//! A follower that applies its own removal, or learns of it when another member refuses
//! its connection, ends at once: its leader has on stable storage that the removal is
//! committed. A leader stays for a while: its followers have the entry, but may not know
//! yet that it is committed, and if only one of them is left, it would need this member's
//! vote to find out. So the leader continues until they know, and then hands leadership
//! over. If it loses its leadership before that, it stays as a follower until another
//! member refuses it.
//!
//! A member that informs this one of its removal has on stable storage that the removal is
//! committed, so no member needs this one's vote to find that out. This member records its
//! removal in a file beside its log, which may never contain it, and does not start again.
//!
//! Before this member ends, it answers clients that asked it for its own removal; and a
//! follower answers clients that asked it for the removal of its leader.

use etcd_api::etcdserverpb::{MemberRemoveResponse, ResponseHeader};
use revisions::Response;

use super::answer::Answer;
use super::forwards::Forwards;
use super::replica_core::Core;
use super::role::Leaving;
use crate::identity_files::RemovalFile;

const NOT_RECORDED: &str = "this member cannot record its removal on disk: it will find out \
    from another member after its next start";

/// Records this member's removal in a file beside its log.
pub(super) fn record(file: &RemovalFile, member_id: u64) {
    if let Err(error) = file.keep(member_id) {
        tracing::warn!(%error, "{NOT_RECORDED}");
    }
}

/// Records in the log that the entry which removes this leader is committed.
pub(super) fn record_own(core: &mut Core, leaving: &Leaving) {
    if let Err(error) = core.consensus.log.remember_commit(leaving.index) {
        tracing::warn!(%error, "{NOT_RECORDED}");
    }
}

/// Gives this member's clients the outcomes that are known when it ends: its own removal,
/// and the leader's answers that wait for an entry.
pub(super) fn answer_known_outcomes(core: &mut Core, forwards: &mut Forwards) {
    let own = core.member_id;
    answer_removals(core, forwards, |removed, _| removed == own);
    forwards.release_all(core);
}

/// Answers local clients that asked for the removal of a leader that is removed by now.
/// Connections to a removed member are closed, perhaps before its answer is read.
pub(super) fn answer_for_removed_leaders(core: &mut Core, forwards: &mut Forwards) {
    let members = core.reader.members();
    answer_removals(core, forwards, |removed, leader| {
        removed == leader && members.get(removed).is_none()
    });
}

/// Answers the forwarded removals that are done, as their leader would.
fn answer_removals(core: &mut Core, forwards: &mut Forwards, is_done: impl Fn(u64, u64) -> bool) {
    let members = core.reader.members();
    for (removed, requester) in forwards.take_removals(is_done) {
        let others = members.to_messages().into_iter();
        let response = MemberRemoveResponse {
            header: Some(ResponseHeader::default()),
            members: others.filter(|it| it.id != removed).collect(),
        };
        core.send_answer(Answer::new(requester, Ok(Response::MemberRemove(response))));
    }
}

/// Whether enough voters know that the entry which removes this leader is committed: a
/// majority, and all that sent a message lately; or only a majority, once the wait has taken
/// too long.
pub(super) fn enough_voters_know(core: &Core, leaving: &Leaving) -> bool {
    let knows = |id| {
        let progress = core.raft().prs().get(id);
        progress.is_some_and(|it| it.committed_index >= leaving.index)
    };
    let voters = core.voters();
    let knowing = voters.iter().filter(|&&id| knows(id)).count();
    let all = voters.iter().all(|&id| knows(id) || !core.is_alive(id));
    knowing > voters.len() / 2 && (all || core.now() >= leaving.until)
}
