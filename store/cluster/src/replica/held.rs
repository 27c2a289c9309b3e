//! Other members' commands that wait at the leader: until it may evaluate commands, until
//! the open batch has room, or until a transfer of leadership has ended.

use std::collections::VecDeque;

use revisions::Command;

use super::answer::{Answer, Requester, leader_changed};

/// Bytes of other members' commands that may wait at the leader. A command is accepted
/// as long as fewer bytes wait, so the last one may exceed the limit.
const HELD_BYTES_MAX: usize = 64 << 20;

/// The commands, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct HeldCommands {
    commands: VecDeque<(Requester, Command)>,
    bytes: usize,
}

impl HeldCommands {
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub fn has_room(&self) -> bool {
        self.bytes < HELD_BYTES_MAX
    }

    pub fn push(&mut self, to: Requester, command: &Command) {
        self.bytes += command.size_bytes();
        self.commands.push_back((to, command.clone()));
    }

    pub fn first(&self) -> Option<&Command> {
        self.commands.front().map(|(_, command)| command)
    }

    pub fn pop(&mut self) -> Option<(Requester, Command)> {
        let (to, command) = self.commands.pop_front()?;
        self.bytes -= command.size_bytes();
        Some((to, command))
    }

    /// The answers that none of the commands was carried out, when leadership ends.
    pub fn into_answers(self) -> impl Iterator<Item = Answer> {
        let commands = self.commands.into_iter();
        commands.map(|(to, _)| Answer::new(to, Err(leader_changed())))
    }
}
