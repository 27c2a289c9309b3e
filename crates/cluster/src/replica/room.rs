//! A follower's own room: its disk, and its quota.
//!
//! Each member keeps to its own quota, as in etcd: one that has none left refuses writes
//! that it is asked for, and raises the alarm NOSPACE, which makes all others refuse them.
//! So does one that outgrows its quota with what others were asked for.

use environment::Instant;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType};
use revisions::Command;

use super::{Asker, Lead, Replica};

/// An alarm that is not raised by then is asked for again.
const ALARM_HEARTBEATS: u32 = 10;

/// When a follower last asked for the alarm.
#[derive(Debug, Default)]
pub(super) struct Alarming {
    /// Something was written since the quota was looked at.
    pub has_written: bool,
    /// Until then no second one is asked for.
    quiet_until: Option<Instant>,
}

impl Replica {
    /// A write that this member would not apply, or that its quota forbids.
    pub(super) fn has_no_room_for(&mut self, command: &Command) -> bool {
        let exceeds = !self.machine.has_room_for(command);
        if exceeds {
            self.ask_for_alarm();
        }
        exceeds || self.would_never_see(command)
    }

    /// The disk is full: this member would not apply what the leader did for it, and
    /// who asked would wait in vain. Its name it tells again and again, until it can.
    fn would_never_see(&mut self, command: &Command) -> bool {
        !matches!(command, Command::MemberPublish(_)) && self.consensus.is_still_full()
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
