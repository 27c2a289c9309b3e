//! Limits on commands that other members forward.

use etcd_api::Error;
use revisions::{Command, FOLLOW_BYTES_MAX, validate};

/// Limits that a leader applies to commands of other members. A correct member has applied
/// its own limits before it forwards a command, but the sender need not be correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandLimits {
    /// Most bytes of a command on the wire.
    pub request_bytes_max: usize,
    /// Most operations in a transaction.
    pub operations_max: usize,
}

impl Default for CommandLimits {
    /// No limits but those of the log.
    fn default() -> CommandLimits {
        CommandLimits {
            request_bytes_max: usize::MAX,
            operations_max: usize::MAX,
        }
    }
}

impl CommandLimits {
    /// Fails if `member` may not forward this command, with the error that its client gets.
    pub(crate) fn check(&self, member: u64, command: &Command) -> Result<(), Error> {
        let bytes_max = match command.plain() {
            Command::Follow(_) => self.request_bytes_max.max(FOLLOW_BYTES_MAX),
            _ => self.request_bytes_max,
        };
        if command.size_bytes() > bytes_max {
            return Err(Error::RequestTooLarge);
        }
        match command.plain() {
            // A member publishes only its own name and URLs.
            Command::MemberPublish(request) if request.id != member => Err(Error::MemberNotFound),
            _ => validate::command(command, self.operations_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use etcd_api::Fields;
    use etcd_api::etcdserverpb::PutRequest;
    use etcd_api::inkstonepb::follow_change::Change;
    use etcd_api::inkstonepb::{FollowChange, GivenRevision};
    use etcd_api::mvccpb::Event;

    use super::*;

    fn given(bytes: usize) -> Command {
        let value = vec![b'v'; bytes];
        let kv = Fields {
            key: b"k",
            value: &value,
            ..Fields::default()
        };
        let event = Event {
            kv: Some(kv.encode()),
            ..Event::default()
        };
        Command::Follow(FollowChange {
            cluster_id: 1,
            change: Some(Change::Revision(GivenRevision {
                revision: 2,
                events: vec![event],
            })),
        })
    }

    #[test]
    fn a_given_revision_may_be_larger_than_a_request() {
        let limits = CommandLimits {
            request_bytes_max: 1_000,
            ..CommandLimits::default()
        };
        let put = PutRequest {
            key: "k".into(),
            value: vec![b'v'; 2_000].into(),
            ..PutRequest::default()
        };
        let refused = limits.check(1, &Command::Put(put));
        assert_eq!(refused, Err(Error::RequestTooLarge));
        assert_eq!(limits.check(1, &given(2_000)), Ok(()));
        let refused = limits.check(1, &given(FOLLOW_BYTES_MAX));
        assert_eq!(refused, Err(Error::RequestTooLarge));
    }
}
