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
use etcd_api::Error as Refusal;
use revisions::{LeaseAnswer, LeaseQuestion};
use tokio::sync::oneshot;

use super::{Lead, Replica};
use crate::peer_message::PeerMessage;
use crate::reads::ROUND_PATIENCE;
use crate::{Error, Mutant, ReadAsker};

/// Most questions, or answers, in one message.
const TOGETHER_MAX: usize = 1024;

/// The receiver of an answer about a lease.
#[derive(Debug)]
pub enum LeaseAsker {
    /// A request task of this node.
    Local(oneshot::Sender<Result<LeaseAnswer, Error>>),
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
struct Asked {
    question: LeaseQuestion,
    asker: LeaseAsker,
    deadline: Instant,
    /// Set if the question was sent to the leader; when it is sent again.
    again: Option<Instant>,
    /// The question was sent before.
    is_repeated: bool,
}

/// The questions of one member that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct LeaseQuestions {
    last_number: u64,
    all: BTreeMap<u64, Asked>,
    /// Questions to be sent to the leader, or, at the leader, to wait for a round of reads.
    new: Vec<u64>,
    /// Renewals of leases that have run out and are not revoked: the outcome is open.
    run_out: Vec<u64>,
    /// Answers for other members, by member, to be sent together.
    answers: BTreeMap<u64, Vec<(u64, LeaseAnswer)>>,
}

impl LeaseQuestions {
    /// Numbers the questions of this life above `first_number`; no earlier life used these
    /// numbers.
    pub fn new(first_number: u64) -> LeaseQuestions {
        LeaseQuestions {
            last_number: first_number,
            ..LeaseQuestions::default()
        }
    }

    fn add(&mut self, asked: Asked) {
        self.last_number += 1;
        self.all.insert(self.last_number, asked);
        self.new.push(self.last_number);
    }

    /// Repeats all questions that were sent, after a change of leader.
    pub fn restart(&mut self) {
        self.repeat(|_| true);
    }

    fn repeat(&mut self, due: impl Fn(Instant) -> bool) {
        for (&number, asked) in &mut self.all {
            if asked.again.is_some_and(&due) {
                asked.again = None;
                asked.is_repeated = true;
                self.new.push(number);
            }
        }
    }

    fn take_late(&mut self, now: Instant) -> Vec<LeaseAsker> {
        let late = |(&number, asked): (&u64, &Asked)| (now >= asked.deadline).then_some(number);
        let late: Vec<u64> = self.all.iter().filter_map(late).collect();
        let late = late.iter().filter_map(|number| self.all.remove(number));
        late.map(|asked| asked.asker).collect()
    }
}

impl Replica {
    /// Takes a question about a lease. The leader, here or at another member, answers it.
    pub fn ask_lease(&mut self, question: LeaseQuestion, asker: LeaseAsker) {
        match self.failed.clone() {
            Some(error) => self.answer_lease(asker, Err(error)),
            None => self.lease_questions.add(Asked {
                question,
                asker,
                deadline: self.clock.now() + self.patience,
                again: None,
                is_repeated: false,
            }),
        }
    }

    /// Takes the questions that a follower has sent together.
    pub(super) fn asked_together(&mut self, member: u64, questions: Vec<(u64, LeaseQuestion)>) {
        for (number, question) in questions.into_iter().take(TOGETHER_MAX) {
            let asker = LeaseAsker::Member {
                member,
                number,
                together: true,
            };
            self.ask_lease(question, asker);
        }
    }

    /// Sends new questions to the leader or, at the leader, lets them wait for a round of
    /// reads.
    pub(super) fn pass_on_lease_questions(&mut self) {
        if self.lease_questions.new.is_empty() || matches!(self.lead, Lead::Behind { .. }) {
            return;
        }
        let ready = self.lead == Lead::Ready;
        if !ready && self.leader == 0 {
            return;
        }
        let mut together = Vec::new();
        for number in std::mem::take(&mut self.lease_questions.new) {
            if !ready {
                together.extend(self.send_lease_question(number));
            } else if self.breaks(Mutant::RenewsWithoutConfirmation) {
                self.answer_lease_question(number);
            } else if let Some(asked) = self.lease_questions.all.get(&number) {
                self.reads.add(ReadAsker::Lease(number), asked.deadline);
            }
        }
        for questions in together.chunks(TOGETHER_MAX) {
            let questions = questions.to_vec();
            let message = PeerMessage::LeaseQuestions { questions };
            self.output.messages.push((self.leader, message));
        }
    }

    /// Repeats a question that was sent before. Returns one that was not, for the caller to
    /// send with others.
    fn send_lease_question(&mut self, number: u64) -> Option<(u64, LeaseQuestion)> {
        let asked = self.lease_questions.all.get_mut(&number)?;
        if let LeaseAsker::Member { .. } = asked.asker {
            // A forwarded question could go round in circles. The member that asked will
            // ask again.
            self.lease_questions.all.remove(&number);
            return None;
        }
        asked.again = Some(self.clock.now() + ROUND_PATIENCE);
        let question = asked.question.clone();
        if !asked.is_repeated {
            return Some((number, question));
        }
        let message = PeerMessage::LeaseQuestion { number, question };
        self.output.messages.push((self.leader, message));
        None
    }

    /// Sends the answers that have gathered for other members.
    pub(super) fn send_lease_answers(&mut self) {
        for (member, answers) in std::mem::take(&mut self.lease_questions.answers) {
            for answers in answers.chunks(TOGETHER_MAX) {
                let answers = answers.to_vec();
                let message = PeerMessage::LeaseAnswers { answers };
                self.output.messages.push((member, message));
            }
        }
    }

    /// Answers a question, if that is possible by now. To be called when a round of reads that
    /// began after the question is confirmed and applied here, and again after each entry
    /// that may have revoked a lease that had run out.
    pub(super) fn answer_lease_question(&mut self, number: u64) {
        let Some(asked) = self.lease_questions.all.get(&number) else {
            return;
        };
        match self.reader.answer_of_lease(&asked.question) {
            Some(Ok(answer)) => {
                let asked = self.lease_questions.all.remove(&number);
                let asked = asked.expect("it was there");
                self.answer_lease(asked.asker, Ok(answer));
            }
            // This member has lost its leadership.
            Some(Err(_)) => self.lease_questions.new.push(number),
            None => self.lease_questions.run_out.push(number),
        }
    }

    /// Tries again to answer the questions about leases that had run out.
    pub(super) fn retry_run_out_leases(&mut self) {
        for number in std::mem::take(&mut self.lease_questions.run_out) {
            self.answer_lease_question(number);
        }
    }

    /// Handles the leader's answer to a question of this member.
    pub(super) fn lease_answered(&mut self, number: u64, answer: LeaseAnswer) {
        let sent = |asked: &Asked| matches!(asked.asker, LeaseAsker::Local(_));
        if self.lease_questions.all.get(&number).is_some_and(sent)
            && let Some(asked) = self.lease_questions.all.remove(&number)
        {
            self.answer_lease(asked.asker, Ok(answer));
        }
    }

    /// Repeats questions without an answer, and ends those that have reached their deadline.
    pub(super) fn tend_lease_questions(&mut self, now: Instant) {
        self.lease_questions.repeat(|again| now >= again);
        for asker in self.lease_questions.take_late(now) {
            let timeout = Error::Refused(Refusal::Timeout.into());
            self.answer_lease(asker, Err(timeout));
        }
    }

    pub(super) fn fail_lease_questions(&mut self, error: &Error) {
        let all = std::mem::take(&mut self.lease_questions.all);
        for asked in all.into_values() {
            self.answer_lease(asked.asker, Err(error.clone()));
        }
    }

    fn answer_lease(&mut self, asker: LeaseAsker, outcome: Result<LeaseAnswer, Error>) {
        match (asker, outcome) {
            (LeaseAsker::Local(to), outcome) => self.output.leases.push((to, outcome)),
            (
                LeaseAsker::Member {
                    member,
                    number,
                    together: true,
                },
                Ok(answer @ LeaseAnswer::KeepAlive(_)),
            ) => {
                let gathered = self.lease_questions.answers.entry(member).or_default();
                gathered.push((number, answer));
            }
            (LeaseAsker::Member { member, number, .. }, Ok(answer)) => {
                let answer = Box::new(answer);
                let message = PeerMessage::LeaseAnswer { number, answer };
                self.output.messages.push((member, message));
            }
            // The member has a deadline of its own for its question.
            (LeaseAsker::Member { .. }, Err(_)) => {}
        }
    }
}
