//! Questions about leases that only the leader can answer, because deadlines are only in
//! its memory.
//!
//! ```text
//!   new ──leads here──► a round of reads ──confirmed──► answered
//!    │ ▲                                └──run out, not revoked──► checked again
//!    │ └──────── leads no more ◄──────────────────────────────────┘ with each entry
//!    └──another leads──► sent ──────────► answered
//! ```
//!
//! The round makes sure of two things. This member led after the question arrived, so
//! every later leader gives the lease its full time after that. And everything that was
//! acknowledged by then is applied, so a lease that does not exist here is gone. A
//! question can be asked twice without harm, so one without an answer is repeated.
//!
//! A follower sends the questions that have gathered in one message, and the leader
//! answers them in one, so that a stream of renewals at a follower costs few messages.
//! A repeated question is sent alone, which members of older releases understand.

use std::collections::BTreeMap;

use environment::Instant;
use revisions::{LeaseRequest, LeaseResponse};

use super::answer::{Reply, ReplySender, timeout};
use super::reads::{ROUND_PATIENCE, ReadRequester, Reads};
use super::replica_core::Core;
use crate::peer_message::PeerMessage;
use crate::{Error, Mutant};

/// Most questions, or answers, in one message.
const TOGETHER_MAX: usize = 1024;

/// The receiver of an answer about a lease.
#[derive(Debug)]
pub(super) enum LeaseRequester {
    /// A request task of this node.
    Local(ReplySender<LeaseResponse>),
    /// A follower.
    Member {
        member: u64,
        /// The follower's number for the question.
        number: u64,
        /// The question came together with others, and so may the answer.
        together: bool,
    },
}

#[derive(Debug)]
struct WaitingQuestion {
    question: LeaseRequest,
    requester: LeaseRequester,
    deadline: Instant,
    /// Set if the question was sent to the leader; when it is sent again.
    resend_at: Option<Instant>,
    /// The question was sent before.
    is_repeated: bool,
}

/// The questions of one member that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct LeaseRequests {
    last_number: u64,
    all: BTreeMap<u64, WaitingQuestion>,
    /// Questions to be sent to the leader, or, at the leader, to wait for a round of reads.
    new: Vec<u64>,
    /// Renewals of leases that have run out and are not revoked: the outcome is open.
    run_out: Vec<u64>,
    /// Answers for other members, by member, to be sent together.
    answers: BTreeMap<u64, Vec<(u64, LeaseResponse)>>,
}

impl LeaseRequests {
    /// Numbers the questions of this incarnation above `first_number`; no earlier incarnation
    /// used these numbers.
    pub fn new(first_number: u64) -> LeaseRequests {
        LeaseRequests {
            last_number: first_number,
            ..LeaseRequests::default()
        }
    }

    /// Takes a question about a lease. The leader, here or at another member, answers it.
    pub fn ask(&mut self, core: &Core, question: LeaseRequest, requester: LeaseRequester) {
        self.last_number += 1;
        let waiting = WaitingQuestion {
            question,
            requester,
            deadline: core.deadline(),
            resend_at: None,
            is_repeated: false,
        };
        self.all.insert(self.last_number, waiting);
        self.new.push(self.last_number);
    }

    /// Takes the questions that a follower has sent together.
    pub fn ask_together(&mut self, core: &Core, member: u64, questions: Vec<(u64, LeaseRequest)>) {
        for (number, question) in questions.into_iter().take(TOGETHER_MAX) {
            let requester = LeaseRequester::Member {
                member,
                number,
                together: true,
            };
            self.ask(core, question, requester);
        }
    }

    /// Repeats all questions that were sent, after a change of leader.
    pub fn restart(&mut self) {
        self.repeat(|_| true);
    }

    fn repeat(&mut self, due: impl Fn(Instant) -> bool) {
        for (&number, waiting) in &mut self.all {
            if waiting.resend_at.is_some_and(&due) {
                waiting.resend_at = None;
                waiting.is_repeated = true;
                self.new.push(number);
            }
        }
    }

    /// Sends new questions to the leader or, if this member is a leader that is `ready`, lets
    /// them wait for a round of reads.
    pub fn pass_on(&mut self, core: &mut Core, ready: bool, reads: &mut Reads) {
        if self.new.is_empty() || !ready && core.leader == 0 {
            return;
        }
        let mut together = Vec::new();
        for number in std::mem::take(&mut self.new) {
            if !ready {
                together.extend(self.send(core, number));
            } else if core.breaks(Mutant::RenewsWithoutConfirmation) {
                self.answer_question(core, number);
            } else if let Some(waiting) = self.all.get(&number) {
                reads.add(ReadRequester::Lease(number), waiting.deadline);
            }
        }
        for questions in together.chunks(TOGETHER_MAX) {
            let questions = questions.to_vec();
            core.send_to_leader(PeerMessage::LeaseRequests { questions });
        }
    }

    /// Repeats a question that was sent before. Returns one that was not, for the caller to
    /// send with others.
    fn send(&mut self, core: &mut Core, number: u64) -> Option<(u64, LeaseRequest)> {
        let waiting = self.all.get_mut(&number)?;
        if let LeaseRequester::Member { .. } = waiting.requester {
            // A forwarded question could go round in circles. The member that asked will
            // ask again.
            self.all.remove(&number);
            return None;
        }
        waiting.resend_at = Some(core.now() + ROUND_PATIENCE);
        let question = waiting.question.clone();
        if !waiting.is_repeated {
            return Some((number, question));
        }
        core.send_to_leader(PeerMessage::LeaseRequest { number, question });
        None
    }

    /// Sends the answers that have gathered for other members.
    pub fn send_answers(&mut self, core: &mut Core) {
        for (member, answers) in std::mem::take(&mut self.answers) {
            for answers in answers.chunks(TOGETHER_MAX) {
                let answers = answers.to_vec();
                core.send(member, PeerMessage::LeaseResponses { answers });
            }
        }
    }

    /// Answers a question, if that is possible by now. To be called when a round of reads that
    /// began after the question is confirmed and applied here, and again after each entry
    /// that may have revoked a lease that had run out.
    pub fn answer_question(&mut self, core: &mut Core, number: u64) {
        let Some(waiting) = self.all.get(&number) else {
            return;
        };
        match core.reader.answer_of_lease(&waiting.question) {
            Some(Ok(answer)) => {
                let waiting = self.all.remove(&number).expect("it was there");
                self.answer(core, waiting.requester, Ok(answer));
            }
            // This member has lost its leadership.
            Some(Err(_)) => self.new.push(number),
            None => self.run_out.push(number),
        }
    }

    /// Tries again to answer the questions about leases that had run out.
    pub fn retry_run_out(&mut self, core: &mut Core) {
        for number in std::mem::take(&mut self.run_out) {
            self.answer_question(core, number);
        }
    }

    /// Handles the leader's answer to a question of this member.
    pub fn answered(&mut self, core: &mut Core, number: u64, answer: LeaseResponse) {
        let is_local =
            |waiting: &WaitingQuestion| matches!(waiting.requester, LeaseRequester::Local(_));
        if self.all.get(&number).is_some_and(is_local)
            && let Some(waiting) = self.all.remove(&number)
        {
            self.answer(core, waiting.requester, Ok(answer));
        }
    }

    /// Repeats questions without an answer, and ends those that have reached their deadline.
    pub fn tend(&mut self, core: &mut Core, now: Instant) {
        self.repeat(|resend_at| now >= resend_at);
        let late = self
            .all
            .extract_if(.., |_, waiting| now >= waiting.deadline);
        let late: Vec<WaitingQuestion> = late.map(|(_, waiting)| waiting).collect();
        for waiting in late {
            self.answer(core, waiting.requester, Err(timeout()));
        }
    }

    /// Ends all questions, because this member ends.
    pub fn end(&mut self, core: &mut Core, error: &Error) {
        for waiting in std::mem::take(&mut self.all).into_values() {
            self.answer(core, waiting.requester, Err(error.clone()));
        }
    }

    pub fn answer(
        &mut self,
        core: &mut Core,
        requester: LeaseRequester,
        outcome: Result<LeaseResponse, Error>,
    ) {
        let (member, number, together) = match requester {
            LeaseRequester::Local(to) => {
                return core.output.replies.leases.push(Reply::new(to, outcome));
            }
            LeaseRequester::Member {
                member,
                number,
                together,
            } => (member, number, together),
        };
        // A member that gets no answer asks again.
        let Ok(answer) = outcome else { return };
        if together && matches!(answer, LeaseResponse::KeepAlive(_)) {
            let gathered = self.answers.entry(member).or_default();
            gathered.push((number, answer));
        } else {
            let answer = Box::new(answer);
            core.send(member, PeerMessage::LeaseResponse { number, answer });
        }
    }
}
