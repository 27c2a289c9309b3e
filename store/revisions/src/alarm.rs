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

use etcd_api::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType};

/// One member's alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// `AlarmType` as a number, which may be one that this release does not know.
    pub kind: i32,
    /// The member that raised the alarm.
    pub member_id: u64,
}

impl Alarm {
    pub fn of(request: &AlarmRequest) -> Alarm {
        Alarm {
            kind: request.alarm,
            member_id: request.member_id,
        }
    }

    pub fn to_member(self) -> AlarmMember {
        AlarmMember {
            member_id: self.member_id,
            alarm: self.kind,
        }
    }
}

/// The alarms that are raised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alarms(pub BTreeSet<Alarm>);

impl Alarms {
    /// Raises or clears an alarm. Returns whether that changed anything.
    pub fn change(&mut self, alarm: Alarm, raised: bool) -> bool {
        if raised {
            self.0.insert(alarm)
        } else {
            self.0.remove(&alarm)
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
