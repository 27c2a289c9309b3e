//! Commands with their callers. Only a caller makes one.

use revisions::Command;

/// A command with its caller. Its permission is checked where it is evaluated.
pub(crate) struct Signed(pub(super) Command);

impl Signed {
    pub(crate) fn command(&self) -> &Command {
        &self.0
    }

    pub(crate) fn into_command(self) -> Command {
        self.0
    }
}
