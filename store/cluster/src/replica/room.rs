//! The room of this member for writes: its disk, its descriptors, and its quota.
//!
//! Each member checks its own quota, as in etcd. A member that has used its quota up, even by
//! writes of other members' clients, refuses writes of its clients and raises the alarm
//! NOSPACE, which makes all members refuse them.
//!
//! Knowledge of a lack of room outlives the role: two members without room would
//! otherwise hand leadership to each other without end.

use environment::{Instant, Shortage};
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType};
use revisions::Command;

use super::answer::Requester;
use super::forwards::Forwards;
use super::replica_core::Core;
use crate::Error;

/// Heartbeat intervals before an alarm that is not raised yet is requested again.
const ALARM_HEARTBEATS: u32 = 10;

/// Heartbeat intervals between two attempts of a leader without room to hand leadership
/// over.
const OFFER_HEARTBEATS: u32 = 50;

/// This member's lack of room for entries, if it has one.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// A key was written since the quota was checked last.
    pub has_written: bool,
    /// Until then this follower does not request the alarm again.
    quiet_until: Option<Instant>,
    /// The log had no room for the last writes that this member led.
    is_short: bool,
    /// Until then this leader does not try again to hand leadership over for lack of room.
    keeps_lead_until: Option<Instant>,
}

impl Room {
    /// The error for a command that this follower refuses, because its quota is used up or its
    /// log takes no entries; none if the command may be forwarded.
    pub fn refusal(
        &mut self,
        core: &mut Core,
        forwards: &mut Forwards,
        command: &Command,
    ) -> Option<Error> {
        let no_space = Error::Refused(etcd_api::Error::NoSpace.into());
        if !core.machine.has_room_for(command) {
            self.ask_for_alarm(core, forwards);
            return Some(no_space);
        }
        // A member repeats the publication of its own name until it succeeds.
        if matches!(command.plain(), Command::MemberPublish(_)) {
            return None;
        }
        // If the log takes no entries, this member would not apply what the leader carries
        // out for it, and the client would wait until its time limit.
        match core.consensus.check_room_again() {
            Ok(()) => None,
            Err(Some(error)) if error.shortage() != Some(Shortage::Room) => {
                Some(Error::Refused(error.into()))
            }
            Err(_) => Some(no_space),
        }
    }

    /// Whether the log of this member, a leader or a follower, has no room at present.
    pub fn is_full(&self, core: &Core, leads: bool) -> bool {
        core.consensus.is_full() || self.is_short && leads
    }

    /// Notes that this leader's log had room for a batch.
    pub fn note_room(&mut self) {
        if std::mem::take(&mut self.is_short) {
            tracing::info!("there is room for writes again");
        }
    }

    /// Notes that this leader's log has no room for a batch. Another member may have room, so
    /// now and then this returns true: leadership should be handed to a member that has the
    /// whole log.
    #[must_use]
    pub fn note_shortage(&mut self, core: &Core, error: &Error) -> bool {
        if !std::mem::replace(&mut self.is_short, true) {
            tracing::warn!(reason = %error, "writes are refused until there is room");
        }
        let now = core.now();
        let hands_over = self.keeps_lead_until.is_none_or(|until| now >= until);
        if hands_over {
            let until = now + core.options.heartbeat_interval * OFFER_HEARTBEATS;
            self.keeps_lead_until = Some(until);
        }
        hands_over
    }

    /// Requests the alarm if this follower's store exceeds its quota. A member that leads
    /// checks its quota before each write.
    pub fn watch_quota(&mut self, core: &mut Core, leads: bool, forwards: &mut Forwards) {
        if !std::mem::take(&mut self.has_written) || leads {
            return;
        }
        if core.machine.is_over_quota() {
            self.ask_for_alarm(core, forwards);
        }
    }

    /// Asks the leader to raise the alarm NOSPACE for this member.
    fn ask_for_alarm(&mut self, core: &mut Core, forwards: &mut Forwards) {
        let now = core.now();
        let is_quiet = self.quiet_until.is_some_and(|until| now < until);
        if is_quiet || core.leader == 0 || core.machine.alarm_is_raised(AlarmType::Nospace) {
            return;
        }
        self.quiet_until = Some(now + core.options.heartbeat_interval * ALARM_HEARTBEATS);
        tracing::warn!("the quota of this member is used up: raising the alarm NOSPACE");
        let alarm = core.machine.own_command(Room::alarm(core.member_id));
        forwards.send(core, &alarm, Requester::Internal);
    }

    /// The command that raises the alarm NOSPACE for a member.
    pub fn alarm(member_id: u64) -> Command {
        Command::Alarm(AlarmRequest {
            action: AlarmAction::Activate.into(),
            member_id,
            alarm: AlarmType::Nospace.into(),
        })
    }
}
