//! Limits on commands that other members forward.

use etcd_api::Error;
use revisions::{Command, validate};

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
        if command.size_bytes() > self.request_bytes_max {
            return Err(Error::RequestTooLarge);
        }
        match command.plain() {
            // A member publishes only its own name and URLs.
            Command::MemberPublish(request) if request.id != member => Err(Error::MemberNotFound),
            _ => validate::command(command, self.operations_max),
        }
    }
}
