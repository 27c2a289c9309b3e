//! The room of this member for writes: its disk, its descriptors, and its quota.
//!
//! Each member checks its own quota, as in etcd. A member that has used its quota up, even by
//! writes of other members' clients, refuses writes of its clients and raises the alarm
//! NOSPACE, which makes all members refuse them.

use environment::{Instant, Shortage};
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType};
use revisions::Command;

use super::{Asker, Lead, Replica};
use crate::Error;

/// Heartbeat intervals before an alarm that is not raised yet is requested again.
const ALARM_HEARTBEATS: u32 = 10;

/// Heartbeat intervals between two attempts of a leader without room to hand leadership
/// over.
const OFFER_HEARTBEATS: u32 = 50;

/// What a member knows of its own lack of room.
#[derive(Debug, Default)]
pub(super) struct Alarming {
    /// A key was written since the quota was checked last.
    pub has_written: bool,
    /// Until then this follower does not request the alarm again.
    quiet_until: Option<Instant>,
    /// This leader's log had no room for the last writes.
    is_short: bool,
    /// Until then this leader does not try again to hand leadership over for lack of room.
    keeps_lead_until: Option<Instant>,
}

impl Replica {
    /// The error for a command that this follower refuses, because its quota is used up or its
    /// log takes no entries; none if the command may be forwarded.
    pub(super) fn refusal_for_want_of_room(&mut self, command: &Command) -> Option<Error> {
        let no_space = Error::Refused(etcd_api::Error::NoSpace.into());
        if !self.machine.has_room_for(command) {
            self.ask_for_alarm();
            return Some(no_space);
        }
        // A member repeats the publication of its own name until it succeeds.
        if matches!(command, Command::MemberPublish(_)) {
            return None;
        }
        // If the log takes no entries, this member would not apply what the leader carries
        // out for it, and the client would wait until its time limit.
        match self.consensus.check_room_again() {
            Ok(()) => None,
            Err(Some(error)) if error.shortage() != Some(Shortage::Room) => {
                Some(Error::Refused(error.into()))
            }
            Err(_) => Some(no_space),
        }
    }

    /// Whether the log of this member, a leader or a follower, has no room at present.
    pub fn is_full(&self) -> bool {
        self.consensus.is_full() || self.alarming.is_short && self.lead != Lead::No
    }

    /// Notes that this leader's log had room for a batch.
    pub(super) fn note_room(&mut self) {
        if std::mem::take(&mut self.alarming.is_short) {
            tracing::info!("there is room for writes again");
        }
    }

    /// Notes that this leader's log has no room for a batch. Another member may have room, so
    /// now and then leadership is handed to one that has the whole log.
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

    /// Requests the alarm if this follower's store exceeds its quota. A leader checks its
    /// quota before each write.
    pub(super) fn watch_quota(&mut self) {
        if !std::mem::take(&mut self.alarming.has_written) || self.lead != Lead::No {
            return;
        }
        if self.machine.is_over_quota() {
            self.ask_for_alarm();
        }
    }

    /// Asks the leader to raise the alarm NOSPACE for this member.
    fn ask_for_alarm(&mut self) {
        let now = self.clock.now();
        let is_quiet = self.alarming.quiet_until.is_some_and(|until| now < until);
        if is_quiet || self.leader == 0 || self.machine.alarm_is_raised(AlarmType::Nospace) {
            return;
        }
        self.alarming.quiet_until = Some(now + self.heartbeat_interval * ALARM_HEARTBEATS);
        tracing::warn!("the quota of this member is used up: raising the alarm NOSPACE");
        self.forward(&self.no_space_alarm(), Asker::Internal);
    }

    pub(super) fn no_space_alarm(&self) -> Command {
        Command::Alarm(AlarmRequest {
            action: AlarmAction::Activate.into(),
            member_id: self.member_id,
            alarm: AlarmType::Nospace.into(),
        })
    }
}
