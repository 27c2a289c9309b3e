//! What a command must be like, wherever it comes from.

use etcd_api::Error;
use revisions::{Command, validate};

/// Limits that a leader holds other members' commands to. Each member has held them to its
/// own before it sent them on, but what comes in need not be from one that did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandLimits {
    /// Bytes of a command as it came over the wire.
    pub request_bytes_max: usize,
    /// Operations that a transaction may hold.
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
    /// Refuses what `member` must not ask for, with the error that a client gets for it.
    pub(crate) fn check(&self, member: u64, command: &Command) -> Result<(), Error> {
        if command.size_bytes() > self.request_bytes_max {
            return Err(Error::RequestTooLarge);
        }
        match command {
            // Members publish what they themselves are.
            Command::MemberPublish(request) if request.id != member => Err(Error::MemberNotFound),
            _ => validate::command(command, self.operations_max),
        }
    }
}
