//! Alarms: conditions that need the cluster's operator, and the requests that are refused until
//! an alarm is cleared.
//!
//! | alarm   | refused until it is cleared                                   |
//! |---------|---------------------------------------------------------------|
//! | NOSPACE | puts, lease grants, transactions that may put                  |
//! | CORRUPT | every change but those of alarms and of the membership         |
//!
//! Clearing NOSPACE does not make room: the next write over the quota raises
//! it again.

use std::collections::BTreeSet;

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmMember, AlarmRequest, AlarmResponse, AlarmType};

use crate::machine::Machine;
use crate::range::header;
use crate::state::StateRecord;
use crate::{Command, Error};

/// One member's alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// `AlarmType` as a number, which may be one that this release does not know.
    pub kind: i32,
    /// The member that raised the alarm.
    pub member_id: u64,
}

impl Alarm {
    fn of(request: &AlarmRequest) -> Alarm {
        Alarm {
            kind: request.alarm,
            member_id: request.member_id,
        }
    }

    fn to_member(self) -> AlarmMember {
        AlarmMember {
            member_id: self.member_id,
            alarm: self.kind,
        }
    }
}

/// Raises or clears an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmChange {
    pub alarm: Alarm,
    /// True if the alarm is raised, false if it is cleared.
    pub raised: bool,
}

/// The alarms that are raised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alarms(pub BTreeSet<Alarm>);

impl Alarms {
    /// Raises or clears an alarm. Returns whether that changed anything.
    pub fn change(&mut self, change: AlarmChange) -> bool {
        if change.raised {
            self.0.insert(change.alarm)
        } else {
            self.0.remove(&change.alarm)
        }
    }

    /// Returns whether any member has raised an alarm of this type.
    pub fn raised(&self, kind: AlarmType) -> bool {
        self.0.iter().any(|alarm| alarm.kind == kind as i32)
    }

    /// Returns all alarms (`AlarmType::None`) or those of one type, for a response.
    pub fn members(&self, kind: i32) -> Vec<AlarmMember> {
        let all = kind == AlarmType::None as i32;
        let wanted = self.0.iter().filter(|alarm| all || alarm.kind == kind);
        wanted.map(|alarm| alarm.to_member()).collect()
    }
}

impl Machine {
    /// Returns whether an alarm of this type is raised by any member, in the applied state of
    /// this one.
    pub fn alarm_is_raised(&self, kind: AlarmType) -> bool {
        self.shared.applied().alarms.raised(kind)
    }

    pub(crate) fn alarm(&mut self, request: &AlarmRequest) -> AlarmResponse {
        let alarm = Alarm::of(request);
        let known = self.decided.alarms.0.contains(&alarm);
        let alarms = match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => self.decided.alarms.members(request.alarm),
            Ok(AlarmAction::Activate) if alarm.kind != AlarmType::None as i32 => {
                self.change_alarm(AlarmChange {
                    alarm,
                    raised: true,
                });
                vec![alarm.to_member()]
            }
            Ok(AlarmAction::Deactivate) if known => {
                self.change_alarm(AlarmChange {
                    alarm,
                    raised: false,
                });
                vec![alarm.to_member()]
            }
            _ => Vec::new(),
        };
        AlarmResponse {
            header: header(self.decided.revision),
            alarms,
        }
    }

    fn change_alarm(&mut self, change: AlarmChange) {
        if self.decided.alarms.change(change) {
            self.open.push_state(&StateRecord::Alarm(change));
        }
    }

    /// Raises this member's NOSPACE alarm.
    pub(crate) fn raise_no_space(&mut self) {
        let kind = AlarmType::Nospace as i32;
        let alarm = Alarm {
            kind,
            member_id: self.shared.options.member_id,
        };
        self.change_alarm(AlarmChange {
            alarm,
            raised: true,
        });
    }

    pub(crate) fn check_corrupt(&self, command: &Command) -> Result<(), Error> {
        let passes = matches!(command, Command::Alarm(_)) || command.is_about_members();
        if !passes && self.decided.alarms.raised(AlarmType::Corrupt) {
            return Err(Refusal::Corrupt.into());
        }
        Ok(())
    }
}
