//! Makes the source refuse writes, and accept them again.

use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType};

use crate::client::Connection;
use crate::failure::Failure;

/// The member of the alarm, which no cluster has: the letters `inkstone`.
const MEMBER: u64 = u64::from_be_bytes(*b"inkstone");

/// The alarm of a move at the source.
pub(crate) struct Fence {
    /// Whether a move before this one has raised it.
    was_raised_before: bool,
    was_raised_here: bool,
}

impl Fence {
    /// Looks at the alarms of the source. Fails if it is really corrupt.
    pub(crate) async fn of(source: &Connection) -> Result<Fence, Failure> {
        let alarms = alarm(source, AlarmAction::Get, 0, AlarmType::None).await?;
        let corrupt = |alarm: &&AlarmMember| alarm.alarm() == AlarmType::Corrupt;
        if let Some(alarm) = alarms
            .iter()
            .filter(corrupt)
            .find(|it| it.member_id != MEMBER)
        {
            return Err(Failure::failed(
                format_args!(
                    "member {:x} of the source has the alarm CORRUPT",
                    alarm.member_id
                ),
                "Find out what is damaged there first: its members do not have the same keys.",
            ));
        }
        Ok(Fence {
            was_raised_before: alarms.iter().any(|it| it.member_id == MEMBER),
            was_raised_here: false,
        })
    }

    /// Makes the source refuse writes.
    pub(crate) async fn raise(&mut self, source: &Connection) -> Result<(), Failure> {
        // It may be raised even if its answer does not arrive.
        self.was_raised_here = true;
        alarm(source, AlarmAction::Activate, MEMBER, AlarmType::Corrupt).await?;
        Ok(())
    }

    /// Whether the source refuses writes because of a move.
    pub(crate) fn is_raised(&self) -> bool {
        self.was_raised_here || self.was_raised_before
    }

    /// Lets the source accept writes again.
    pub(crate) async fn lower(&self, source: &Connection) -> Result<(), Failure> {
        alarm(source, AlarmAction::Deactivate, MEMBER, AlarmType::Corrupt).await?;
        Ok(())
    }
}

async fn alarm(
    connection: &Connection,
    action: AlarmAction,
    member_id: u64,
    kind: AlarmType,
) -> Result<Vec<AlarmMember>, Failure> {
    let message = AlarmRequest {
        action: action.into(),
        member_id,
        alarm: kind.into(),
    };
    let send = async |request| connection.maintenance().alarm(request).await;
    Ok(connection.call(message, send).await?.alarms)
}
