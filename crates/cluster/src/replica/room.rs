//! A member's own room: its disk, its descriptors, and its quota.
//!
//! Each member keeps to its own quota, as in etcd: one that has none left refuses writes
//! that it is asked for, and raises the alarm NOSPACE, which makes all others refuse them.
//! So does one that outgrows its quota with what others were asked for.

use environment::{Instant, Shortage};
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType};
use revisions::Command;

use super::{Asker, Lead, Replica};
use crate::Error;

/// An alarm that is not raised by then is asked for again.
const ALARM_HEARTBEATS: u32 = 10;

/// A leader without room offers its lead no more often than this.
const OFFER_HEARTBEATS: u32 = 50;

/// When a follower last asked for the alarm.
#[derive(Debug, Default)]
pub(super) struct Alarming {
    /// Something was written since the quota was looked at.
    pub has_written: bool,
    /// Until then no second one is asked for.
    quiet_until: Option<Instant>,
    /// This leader's log had no room for the last writes.
    is_short: bool,
    /// Until then the lead is not offered to another member for want of room here.
    keeps_lead_until: Option<Instant>,
}

impl Replica {
    /// Why a write is refused that this member would not apply, or that its quota
    /// forbids.
    pub(super) fn refusal_for_want_of_room(&mut self, command: &Command) -> Option<Error> {
        let no_space = Error::Refused(etcd_api::Error::NoSpace.into());
        if !self.machine.has_room_for(command) {
            self.ask_for_alarm();
            return Some(no_space);
        }
        // Its own name a member tells again and again, until it can.
        if matches!(command, Command::MemberPublish(_)) {
            return None;
        }
        // The log takes nothing: this member would not apply what the leader did for it,
        // and the client would wait until its patience ends.
        match self.consensus.check_room_again() {
            Ok(()) => None,
            Err(Some(error)) if error.shortage() != Some(Shortage::Room) => {
                Some(Error::Refused(error.into()))
            }
            Err(_) => Some(no_space),
        }
    }

    /// The log of this member takes nothing for now, as a leader or as a follower.
    pub fn is_full(&self) -> bool {
        self.consensus.is_full() || self.alarming.is_short && self.lead != Lead::No
    }

    /// This leader's log had room for a batch.
    pub(super) fn note_room(&mut self) {
        if std::mem::take(&mut self.alarming.is_short) {
            tracing::info!("there is room for writes again");
        }
    }

    /// This leader's log has no room for a batch. Another member may have some: the one
    /// that has kept up is offered the lead, now and then.
    pub(super) fn note_shortage(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.alarming.is_short, true) {
            tracing::warn!(reason = %error, "writes are refused until there is room");
        }
        let now = self.clock.now();
        let keeps = &mut self.alarming.keeps_lead_until;
        if keeps.is_none_or(|until| now >= until) {
            *keeps = Some(now + self.heartbeat_interval * OFFER_HEARTBEATS);
            self.hand_over_to_equal();
        }
    }

    /// Looks whether this follower's store has outgrown its quota. A leader looks before
    /// each write.
    pub(super) fn watch_quota(&mut self) {
        if !std::mem::take(&mut self.alarming.has_written) || self.lead != Lead::No {
            return;
        }
        if self.machine.is_over_quota() {
            self.ask_for_alarm();
        }
    }

    /// Has the leader raise this member's alarm.
    fn ask_for_alarm(&mut self) {
        let now = self.clock.now();
        let is_quiet = self.alarming.quiet_until.is_some_and(|until| now < until);
        if is_quiet || self.leader == 0 || self.machine.alarm_is_raised(AlarmType::Nospace) {
            return;
        }
        self.alarming.quiet_until = Some(now + self.heartbeat_interval * ALARM_HEARTBEATS);
        tracing::warn!("the quota of this member is used up: raising the alarm NOSPACE");
        self.forward(&self.no_space_alarm(), Asker::Nobody);
    }

    pub(super) fn no_space_alarm(&self) -> Command {
        Command::Alarm(AlarmRequest {
            action: AlarmAction::Activate.into(),
            member_id: self.member_id,
            alarm: AlarmType::Nospace.into(),
        })
    }
}
