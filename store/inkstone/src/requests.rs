//! Commands that a store and a node have in common.

use bytes::Bytes;
use cluster::{Node, Pending};
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, CompactionRequest, DeleteRangeRequest, PutRequest};
use revisions::{Command, Reader, Response};

use crate::key_range::KeyRange;
use crate::{Error, Remedy};

/// A command that writes one key.
pub(crate) fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Command {
    Command::Put(PutRequest {
        key: key.into(),
        value: value.into(),
        ..Default::default()
    })
}

/// A command that deletes one key.
pub(crate) fn delete(key: impl Into<Bytes>) -> Command {
    Command::DeleteRange(DeleteRangeRequest {
        key: key.into(),
        ..Default::default()
    })
}

/// A command that deletes all keys in a range, which must not be empty.
pub(crate) fn delete_range(range: KeyRange) -> Command {
    Command::DeleteRange(DeleteRangeRequest {
        key: range.key.into(),
        range_end: range.range_end.into(),
        ..Default::default()
    })
}

/// A command that removes the history before a revision; it is answered when the memory is
/// free.
pub(crate) fn compact(revision: i64) -> Command {
    Command::Compact(CompactionRequest {
        revision,
        physical: true,
    })
}

/// Commands that clear all raised alarms.
pub(crate) fn disarm(reader: &Reader) -> Vec<Command> {
    let clear = |member: etcd_api::etcdserverpb::AlarmMember| {
        Command::Alarm(AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id: member.member_id,
            alarm: member.alarm,
        })
    };
    reader.alarms().into_iter().map(clear).collect()
}

/// Executes a command and waits for the response. Fails at once if the command is invalid.
pub(crate) fn carry_out(node: &Node, command: Command) -> Result<Response, Error> {
    revisions::validate::command(&command, usize::MAX).map_err(Error::refused)?;
    Ok(node.carry_out(command)?)
}

/// Proposes a command without waiting. Fails at once if the command is invalid.
pub(crate) fn propose(node: &Node, command: Command) -> Result<Pending, Error> {
    revisions::validate::command(&command, usize::MAX).map_err(Error::refused)?;
    Ok(node.propose(command)?)
}

/// The effect of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub revision: i64,
    /// Number of deleted keys.
    pub deleted: u64,
}

impl Written {
    pub fn of(response: Response) -> Result<Written, Error> {
        let (header, deleted) = match response {
            Response::Put(put) => (put.header, 0),
            Response::DeleteRange(delete) => (delete.header, delete.deleted),
            Response::Txn(txn) => (txn.header, 0),
            Response::Compact(compact) => (compact.header, 0),
            other => return Err(unexpected(&other)),
        };
        Ok(Written {
            revision: header.map_or(0, |header| header.revision),
            deleted: u64::try_from(deleted).unwrap_or(0),
        })
    }
}

/// The error for a response of the wrong kind.
pub(crate) fn unexpected(response: &Response) -> Error {
    let message = format!("this command was answered with {response:?}; please report it");
    Error::new(Remedy::Repair, message)
}
