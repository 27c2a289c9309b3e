//! A new cluster's first entries.
//!
//! ```text
//!   index    1 ........ n          every founding member writes the same
//!   term     1 ........ 1
//!   record   added .... added      ascending by id
//!                         └── hard state: term 1, no vote, commit n
//! ```
//!
//! They count as committed before any election, because all founding members have them (as in
//! etcd and its library). A crash before the hard state is durable leaves a directory that is
//! still new: the next start writes the entries again in place of those that are there.

use engine::{Applier, Batch, Commitment, Engine, HardState, Recovered, Unapplied};

use crate::apply::AppliedState;
use crate::member::{Member, MemberChange, Members};
use crate::state::StateRecord;
use crate::{Error, Options};

const TERM: u64 = 1;

/// Returns whether the directory has neither an applied entry nor a hard state.
pub(crate) fn is_new(recovered: &Recovered) -> bool {
    recovered.applied_index == 0 && recovered.hard_state == HardState::default()
}

/// Writes and applies the entries that a cluster of `options.initial_members` starts with.
pub(crate) fn run(
    applier: &mut Applier,
    applied: &mut AppliedState,
    options: &Options,
    recovered: &mut Recovered,
) -> Result<(), Error> {
    let members = founding(&options.initial_members)?;
    assert!(
        options.engine.commitment == Commitment::Quorum || members.len() <= 1,
        "a machine that decides alone has one member at most, not {}",
        members.len()
    );
    let engine = applier.engine();
    // Discards the entries that an interrupted bootstrap has left.
    let entries = std::mem::take(&mut recovered.entries);
    recovered.unapplied.clear();
    if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
        engine.overrule(first, last);
    }
    let last = members.len() as u64;
    let state = HardState {
        term: TERM,
        vote: 0,
        commit: last,
    };
    let batches = members.iter().zip(1..);
    let batches = batches.map(|(member, index)| first_batch(member, index));
    let written = append(engine, batches.collect(), state)?;
    for entry in &written {
        applier.apply(&entry.batch, &entry.appended);
        applied.absorb(&entry.batch)?;
    }
    recovered.hard_state = state;
    (recovered.applied_index, recovered.applied_term) = (last, TERM);
    recovered.base = (0, 0);
    recovered.entries = written.iter().map(Unapplied::entry).collect();
    Ok(())
}

/// Appends the batches, the last one with `state`, and waits until they are durable.
pub(crate) fn append(
    engine: &Engine,
    batches: Vec<Batch>,
    state: HardState,
) -> Result<Vec<Unapplied>, Error> {
    let last = batches.len();
    let mut written = Vec::with_capacity(last);
    for (batch, number) in batches.into_iter().zip(1..) {
        let body = batch.encode()?;
        engine.check(&batch, &body)?;
        let state = Some(state).filter(|_| number == last);
        let appended = engine.append_entry(&batch, &body, state)?;
        written.push(Unapplied {
            batch,
            appended,
            body,
        });
    }
    let newest = written.last().expect("there is a batch");
    engine.wait_durable(newest.appended.sequence)?;
    Ok(written)
}

/// Returns the members in ascending order of their ids. Fails if two have the same id or peer
/// URL, or if one has the id 0.
fn founding(members: &[Member]) -> Result<Vec<Member>, Error> {
    let mut sorted = Members::default();
    for member in members {
        let refused = |what| Error::InitialMembers {
            id: member.id,
            what,
        };
        if sorted.has_peer_url(&member.peer_urls, None) {
            return Err(refused("another member has one of its peer URLs"));
        }
        sorted.enter(member.clone()).map_err(refused)?;
    }
    Ok(sorted.iter().cloned().collect())
}

fn first_batch(member: &Member, index: u64) -> Batch {
    let added = StateRecord::Member(MemberChange::Added {
        id: member.id,
        is_learner: member.is_learner,
        peer_urls: member.peer_urls.clone(),
    });
    Batch {
        term: TERM,
        index,
        changes: vec![added.encode()],
    }
}
