//! Finds members with a state that differs from the others'.
//!
//! ```text
//!   leader   each tick: Stated(index, hash) ──► members that have not confirmed that index
//!   member   once it has applied that index: Reached(index, its own hash) ──► leader
//!   leader   same index, other hash, twice in a row ─┬─ a majority agrees: CORRUPT for the others
//!                                                    └─ none does: CORRUPT for member 0
//!   member   its index gives another sum than apply has kept: CORRUPT for itself
//! ```
//!
//! The hash is the engine's: kept at apply, so that a comparison costs two small messages,
//! whatever the size of the store. One difference is not enough, because it may come from a
//! message of a member with faulty memory; a real one is there again in the next answer.
//!
//! Members that differ in the same way have the same differences to the leader's sums at any
//! index. So a leader that is alone with its state finds the majority among the others, and
//! raises the alarm for itself.

use std::collections::BTreeMap;

use engine::StateHash;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType};
use revisions::Command;

use super::replica_core::Core;
use crate::peer_message::{HashMessage, PeerMessage};

/// Answers with another hash, one after the other, after which a member counts as different.
const DIFFERENT_ANSWERS: u32 = 2;
/// Ticks for which the answers of other voters are awaited before a difference is judged
/// without them.
const PATIENCE_TICKS: u32 = 10;
/// Ticks after which an alarm is raised again that is not raised although its reason persists.
const RAISE_AGAIN_TICKS: u32 = 20;
/// A member that has not answered this many times, one after the other, gets the hash only at
/// each `RARELY_TICKS`-th tick: it is down, far behind, or of a release without such messages.
const UNANSWERED_MAX: u32 = 20;
const RARELY_TICKS: u32 = 10;

/// Findings of the comparison of states; for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreements {
    /// Answers of members with the hash that this leader has.
    pub agreed: u64,
    /// Answers of members with another hash.
    pub differed: u64,
    /// Alarms that this member asked for.
    pub alarms: u64,
}

/// The comparison of states, in any role.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    /// Ticks since the start.
    ticks: u32,
    /// Hashes of the leader that differed from this member's, one after the other. They are
    /// logged ever more rarely.
    differing: u32,
    /// The hash that the leader has stated, until its index is applied here.
    awaited: Option<StateHash>,
    /// A leader's view of each other member. Emptied at each change of leader.
    views: BTreeMap<u64, MemberView>,
    /// The leader that the views and the awaited hash belong to.
    leader: u64,
    /// Tick at which a difference was first seen that is not judged yet.
    differs_since: Option<u32>,
    /// When the alarm was last asked for, by member.
    raised: BTreeMap<u64, u32>,
    pub found: Agreements,
}

/// A leader's view of another member.
#[derive(Debug, Default)]
struct MemberView {
    /// Index of the last answer.
    index: u64,
    /// Differences of its sums to this member's, at the last answer.
    difference: StateDifference,
    /// Answers with a difference, one after the other.
    differing: u32,
    /// Index of the first of these.
    differing_from: u64,
    /// Hashes that were sent since the last answer.
    unanswered: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StateDifference {
    effects: u64,
    keys: u64,
    revision: i64,
}

impl StateDifference {
    const NONE: StateDifference = StateDifference {
        effects: 0,
        keys: 0,
        revision: 0,
    };

    fn of(theirs: &StateHash, ours: &StateHash) -> StateDifference {
        StateDifference {
            effects: theirs.effects.wrapping_sub(ours.effects),
            keys: theirs.keys.wrapping_sub(ours.keys),
            revision: theirs.revision.wrapping_sub(ours.revision),
        }
    }
}

impl Agreement {
    /// States this leader's hash to the members, and returns the commands that raise alarms for
    /// those that differ. To be called at each tick.
    pub fn tick(&mut self, core: &mut Core, leads: bool) -> Vec<Command> {
        self.ticks = self.ticks.wrapping_add(1);
        if !core.options.compares_states {
            return Vec::new();
        }
        self.follow(core);
        let mut corrupt = Vec::new();
        if core.engine().has_spoiled_index() {
            corrupt.push(core.member_id);
        }
        if leads {
            self.state(core);
            corrupt.extend(self.judge(core));
        }
        self.alarms(core, corrupt)
    }

    /// Forgets what belongs to another leader.
    fn follow(&mut self, core: &Core) {
        if self.leader != core.leader {
            self.leader = core.leader;
            self.awaited = None;
            self.views.clear();
            self.differs_since = None;
        }
    }

    fn state(&mut self, core: &mut Core) {
        let Some(hash) = core.engine().state_hash() else {
            return;
        };
        let members = core.reader.members();
        self.views.retain(|id, _| members.get(*id).is_some());
        let own = core.member_id;
        for member in members.iter().filter(|it| it.id != own) {
            let view = self.views.entry(member.id).or_default();
            let agrees = view.index == hash.index && view.differing == 0;
            let rarely =
                view.unanswered > UNANSWERED_MAX && !self.ticks.is_multiple_of(RARELY_TICKS);
            if !agrees && !rarely {
                view.unanswered = view.unanswered.saturating_add(1);
                let stated = PeerMessage::Hash(HashMessage::Stated(hash));
                core.send(member.id, stated);
            }
        }
    }

    /// Takes the hash that a leader has stated.
    pub fn stated(&mut self, core: &mut Core, from: u64, hash: StateHash) {
        self.follow(core);
        if from != core.leader || from == core.member_id || !core.options.compares_states {
            return;
        }
        // A newer one must not replace one that is awaited, or a member that is behind would
        // never reach any.
        if self.awaited.is_none() {
            self.awaited = Some(hash);
            self.answer_if_reached(core);
        }
    }

    /// Answers the leader if the index of its hash is applied. To be called after entries were
    /// applied.
    pub fn answer_if_reached(&mut self, core: &mut Core) {
        self.follow(core);
        let Some(theirs) = self.awaited else { return };
        if core.engine().applied_index() < theirs.index {
            return;
        }
        self.awaited = None;
        let Some(mut ours) = core.engine().state_hash_at(theirs.index) else {
            return;
        };
        if ours.since != theirs.since && core.machine.take_over_effects(&theirs) {
            (ours.since, ours.effects) = (theirs.since, theirs.effects);
        }
        let differs = StateDifference::of(&theirs, &ours) != StateDifference::NONE;
        self.differing = if differs { self.differing + 1 } else { 0 };
        if self.differing.is_power_of_two() {
            tracing::error!(
                index = ours.index,
                revision = ours.revision,
                "the state of this member differs from that of the leader"
            );
        }
        let reached = PeerMessage::Hash(HashMessage::Reached(ours));
        core.send_to_leader(reached);
    }

    /// Takes the hash of a member, which has applied the same index.
    pub fn reached(&mut self, core: &Core, from: u64, theirs: StateHash) {
        self.follow(core);
        let Some(view) = self.views.get_mut(&from) else {
            return;
        };
        let Some(ours) = core.engine().state_hash_at(theirs.index) else {
            return;
        };
        if ours.since != theirs.since || theirs.index < view.index {
            return;
        }
        view.unanswered = 0;
        view.index = theirs.index;
        view.difference = StateDifference::of(&theirs, &ours);
        if view.difference == StateDifference::NONE {
            view.differing = 0;
            self.found.agreed += 1;
            return;
        }
        view.differing += 1;
        self.found.differed += 1;
        if view.differing == 1 {
            view.differing_from = theirs.index;
        }
        if !view.differing.is_power_of_two() {
            return;
        }
        tracing::error!(
            member = format!("{from:x}"),
            index = theirs.index,
            revision = ours.revision,
            values = view.difference.effects != 0,
            keys = view.difference.keys != 0,
            "the state of a member differs from that of this leader"
        );
    }

    /// The members that differ from the majority; `[0]` if there is none.
    fn judge(&mut self, core: &Core) -> Vec<u64> {
        let differing = self.views.iter();
        let differing = differing.filter(|(_, view)| view.differing >= DIFFERENT_ANSWERS);
        let differing: Vec<(u64, StateDifference)> =
            differing.map(|(id, view)| (*id, view.difference)).collect();
        let Some(from) = self.first_difference() else {
            self.differs_since = None;
            return Vec::new();
        };
        if differing.is_empty() {
            return Vec::new();
        }
        let since = *self.differs_since.get_or_insert(self.ticks);
        let voters = core.voters();
        let quorum = voters.len() / 2 + 1;
        let is_voter = |id: &u64| voters.contains(id);
        let agrees = |id: &&u64| match self.views.get(id) {
            Some(view) => view.differing == 0 && view.index >= from,
            None => **id == core.member_id,
        };
        let with_leader = voters.iter().filter(agrees).count();
        if with_leader >= quorum {
            return differing.into_iter().map(|(id, _)| id).collect();
        }
        let votes = |wanted: StateDifference| {
            let same = differing.iter().filter(|&&(_, it)| it == wanted);
            same.filter(|(id, _)| is_voter(id)).count()
        };
        let majority = differing
            .iter()
            .map(|&(_, it)| it)
            .find(|&it| votes(it) >= quorum);
        if let Some(right) = majority {
            let others = differing.iter().filter(|&&(_, it)| it != right);
            return others.map(|(id, _)| *id).chain([core.member_id]).collect();
        }
        let all_are_heard =
            with_leader + differing.iter().filter(|(id, _)| is_voter(id)).count() == voters.len();
        let waited = self.ticks.wrapping_sub(since) >= PATIENCE_TICKS;
        if all_are_heard || waited {
            vec![0]
        } else {
            Vec::new()
        }
    }

    /// The first index at which a member differed that still differs.
    fn first_difference(&self) -> Option<u64> {
        let differing = self.views.values().filter(|view| view.differing > 0);
        differing.map(|view| view.differing_from).min()
    }

    /// The commands that raise the alarm for these members, if it is not raised.
    fn alarms(&mut self, core: &Core, corrupt: Vec<u64>) -> Vec<Command> {
        if corrupt.is_empty() {
            return Vec::new();
        }
        let raised = core.reader.alarms();
        let mut commands = Vec::new();
        for member in corrupt {
            let is_raised = raised
                .iter()
                .any(|alarm| alarm.member_id == member && alarm.alarm == AlarmType::Corrupt as i32);
            let asked = self.raised.get(&member);
            let is_recent =
                asked.is_some_and(|at| self.ticks.wrapping_sub(*at) < RAISE_AGAIN_TICKS);
            if is_raised || is_recent {
                continue;
            }
            self.raised.insert(member, self.ticks);
            self.found.alarms += 1;
            tracing::error!(
                member = format!("{member:x}"),
                "the state of this member is corrupt: raising the alarm CORRUPT \
                 (0: no majority of the voters has the same state)"
            );
            commands.push(alarm(member));
        }
        commands
    }
}

/// The command that raises the alarm CORRUPT for a member.
fn alarm(member_id: u64) -> Command {
    Command::Alarm(AlarmRequest {
        action: AlarmAction::Activate.into(),
        member_id,
        alarm: AlarmType::Corrupt.into(),
    })
}
