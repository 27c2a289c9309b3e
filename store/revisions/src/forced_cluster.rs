//! A member of several that becomes a cluster of its own, after the others are lost for good.
//!
//! ```text
//!   log      … committed │ not known to be committed │ removed … removed, (promoted)
//!   before              commit
//!   after                                                                        commit
//! ```
//!
//! The entries behind the commit index are kept and count as committed: some of them may have
//! been acknowledged, and no other log can contradict this one any more. Then entries follow
//! that remove every other member, in a term of their own. All of this happens in the log
//! before Raft starts, and Raft then finds a cluster of one voter.

use engine::{Batch, Engine, HardState, Recovered};
use tracing::warn;

use crate::member::{MemberChange, Members};
use crate::membership::membership_of;
use crate::state::StateRecord;
use crate::{Error, bootstrap};

/// Writes the entries that make `own` the only member; none if it is that already. `members`
/// are those of the applied state.
pub(crate) fn run(
    engine: &Engine,
    members: &Members,
    own: u64,
    recovered: &mut Recovered,
) -> Result<(), Error> {
    let mut members = members.clone();
    for entry in &recovered.unapplied {
        let Some(change) = membership_of(&entry.batch) else {
            continue;
        };
        members
            .change(change)
            .map_err(|reason| Error::State { kind: 0, reason })?;
    }
    let changes = changes(&members, own)?;
    let last = recovered.entries.last();
    let last = last.map_or(recovered.base, |entry| (entry.index, entry.term));
    let Some(first_index) = (!changes.is_empty()).then_some(last.0 + 1) else {
        return Ok(());
    };
    let state = HardState {
        term: recovered.hard_state.term.max(last.1) + 1,
        vote: own,
        commit: last.0 + changes.len() as u64,
    };
    warn!(
        members = changes.len(),
        kept_entries = recovered.unapplied.len(),
        "forcing a new cluster: the other members are removed"
    );
    let batches = changes.into_iter().zip(first_index..);
    let batches = batches.map(|(change, index)| Batch {
        term: state.term,
        index,
        changes: vec![StateRecord::Member(change).encode()],
    });
    let written = bootstrap::append(engine, batches.collect(), state)?;
    recovered.hard_state = state;
    recovered
        .entries
        .extend(written.iter().map(|it| it.entry()));
    recovered.unapplied.extend(written);
    Ok(())
}

/// A vote for `own` if it has none, and then the removal of each other member.
fn changes(members: &Members, own: u64) -> Result<Vec<MemberChange>, Error> {
    let Some(member) = members.get(own) else {
        return Err(Error::InitialMembers {
            id: own,
            what: "the cluster that is to be forced does not have it",
        });
    };
    let promoted = member
        .is_learner
        .then_some(MemberChange::Promoted { id: own });
    let others = members.iter().filter(|it| it.id != own);
    let removed = others.map(|it| MemberChange::Removed { id: it.id });
    Ok(promoted.into_iter().chain(removed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Members {
        let mut members = Members::default();
        for id in 1..=3 {
            let added = MemberChange::Added {
                id,
                is_learner: id == 3,
                peer_urls: vec![format!("http://h:{id}")],
            };
            members.change(added).unwrap();
        }
        members
    }

    #[test]
    fn a_voter_removes_the_others_and_a_learner_gets_a_vote_first() {
        let removed = |id| MemberChange::Removed { id };
        assert_eq!(changes(&members(), 1).unwrap(), [removed(2), removed(3)]);
        let promoted = MemberChange::Promoted { id: 3 };
        assert_eq!(
            changes(&members(), 3).unwrap(),
            [promoted, removed(1), removed(2)]
        );
    }

    #[test]
    fn a_member_that_the_cluster_does_not_have_is_refused() {
        assert!(changes(&members(), 4).is_err());
    }
}
