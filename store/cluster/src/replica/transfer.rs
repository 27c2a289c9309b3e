//! Transfers of leadership to another member, on request of an operator or a client.
//!
//! ```text
//!   leads ──asked──► evaluated commands go to the log ──► other asked to stand ──► other leads
//!     ▲                                                         │
//!     └────────── other does not lead within an election timeout ┘
//! ```
//!
//! During a transfer commands wait: if they were evaluated here, they would be dropped
//! when this member's leadership ends. The leader knows the transfer under way
//! (`leader.rs`); the callers that wait for its outcome are here, because they are answered
//! when another member leads.

use environment::Instant;
use etcd_api::Error as Refusal;

use super::answer::{ReplySender, leader_changed, timeout};
use super::replica_core::Core;
use crate::Error;

/// A caller that waits until member `to` leads.
#[derive(Debug)]
struct WaitingTransfer {
    to: u64,
    caller: ReplySender<()>,
    deadline: Instant,
}

/// The callers that wait for a transfer.
#[derive(Debug, Default)]
pub(super) struct TransferCallers(Vec<WaitingTransfer>);

impl TransferCallers {
    /// Lets a caller wait until member `to` leads, or the transfer to it has failed.
    pub fn wait(&mut self, core: &Core, to: u64, caller: ReplySender<()>) {
        self.0.push(WaitingTransfer {
            to,
            caller,
            deadline: core.deadline(),
        });
    }

    /// Answers callers when their transfer has succeeded or failed. `transferee` is the member
    /// to which leadership is being handed.
    pub fn answer(&mut self, core: &mut Core, transferee: Option<u64>) {
        if self.0.is_empty() {
            return;
        }
        let (leads, leader) = (core.holds_leadership(), core.leader);
        let other_leads = leader != 0 && leader != core.member_id;
        let over = |waiting: &mut WaitingTransfer| match leads {
            true => transferee != Some(waiting.to),
            false => other_leads,
        };
        for waiting in self.0.extract_if(.., over) {
            let outcome = if leads {
                Err(timeout())
            } else if leader == waiting.to {
                Ok(())
            } else {
                Err(leader_changed())
            };
            core.reply(waiting.caller, outcome);
        }
    }

    /// Answers callers that have waited too long with a timeout.
    pub fn end_late(&mut self, core: &mut Core, now: Instant) {
        for waiting in self.0.extract_if(.., |it| now >= it.deadline) {
            core.reply(waiting.caller, Err(timeout()));
        }
    }

    /// Answers all callers, because this member ends.
    pub fn end(&mut self, core: &mut Core, error: &Error) {
        for waiting in self.0.drain(..) {
            core.reply(waiting.caller, Err(error.clone()));
        }
    }
}

/// Whether this leader has to hand leadership to member `to`: false if that is this member.
/// Fails if the other one does not vote.
pub(super) fn is_needed(core: &Core, to: u64) -> Result<bool, Error> {
    if !core.voters().contains(&to) {
        return Err(Error::Refused(Refusal::BadLeaderTransferee.into()));
    }
    Ok(to != core.member_id)
}
