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

use super::answer::{Reply, ReplySender, leader_changed, timeout};
use super::replica_core::Core;
use super::role::Role;
use crate::Error;

/// A caller that waits until member `to` leads.
#[derive(Debug)]
struct Waiting {
    to: u64,
    caller: ReplySender<()>,
    deadline: Instant,
}

/// The callers that wait for a transfer.
#[derive(Debug, Default)]
pub(super) struct TransferCallers(Vec<Waiting>);

impl TransferCallers {
    /// Hands leadership to member `to`, and answers the caller when that member leads or the
    /// transfer has failed.
    pub fn ask(&mut self, core: &mut Core, role: &mut Role, to: u64, caller: ReplySender<()>) {
        let outcome = match &core.failed {
            Some(error) => Err(error.clone()),
            None => check(core, role, to),
        };
        match (outcome, role) {
            (Ok(true), Role::Leader(leader)) => {
                leader.hand_over_to(to);
                self.0.push(Waiting {
                    to,
                    caller,
                    deadline: core.deadline(),
                });
            }
            (outcome, _) => reply(core, caller, outcome.map(|_| ())),
        }
    }

    /// Answers callers when their transfer has succeeded or failed.
    pub fn answer(&mut self, core: &mut Core, role: &Role) {
        if self.0.is_empty() {
            return;
        }
        let transferee = role.transferee(core);
        let (leads, leader) = (core.holds_leadership(), core.leader);
        let other_leads = leader != 0 && leader != core.member_id;
        let over = |waiting: &mut Waiting| match leads {
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
            reply(core, waiting.caller, outcome);
        }
    }

    /// Answers callers that have waited too long with a timeout.
    pub fn end_late(&mut self, core: &mut Core, now: Instant) {
        for waiting in self.0.extract_if(.., |it| now >= it.deadline) {
            reply(core, waiting.caller, Err(timeout()));
        }
    }

    /// Answers all callers, because this member ends.
    pub fn end(&mut self, core: &mut Core, error: &Error) {
        for waiting in self.0.drain(..) {
            reply(core, waiting.caller, Err(error.clone()));
        }
    }
}

fn reply(core: &mut Core, caller: ReplySender<()>, outcome: Result<(), Error>) {
    let reply = Reply::new(caller, outcome);
    core.output.replies.transfers.push(reply);
}

/// Whether a transfer to member `to` has to begin: false if that member leads already. Fails
/// if this member may not begin it.
fn check(core: &Core, role: &Role, to: u64) -> Result<bool, Error> {
    let votes = core.voters().contains(&to);
    if !core.holds_leadership() || !role.is_leader() {
        Err(Error::Refused(Refusal::NotLeader.into()))
    } else if !votes {
        Err(Error::Refused(Refusal::BadLeaderTransferee.into()))
    } else {
        Ok(to != core.member_id)
    }
}
