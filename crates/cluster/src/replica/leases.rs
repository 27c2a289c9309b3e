//! Questions about leases that only the leader can answer: deadlines are in its
//! memory.
//!
//! ```text
//!   new ──leads here──► a round of reads ──confirmed──► answered
//!    │ ▲                                └──run out, not revoked──► looked at again
//!    │ └──────── leads no more ◄──────────────────────────────────┘ with each entry
//!    └──another leads──► sent ──────────► answered
//! ```
//!
//! The round makes sure of two things: this member led after the question came,
//! so that every later leader gives the lease its full time after that; and all
//! that was acknowledged by then is applied, so that a lease which is not here is
//! gone. Asking twice does no harm, so questions without an answer are asked
//! again.
//!
//! A follower sends the questions that have come together in one message, and the leader
//! answers them in one: a stream of renewals at a follower costs a message for many of them.
//! A question that is asked again goes alone, which members of older releases understand.

use std::collections::BTreeMap;

use environment::Instant;
use etcd_api::Error as Refusal;
use revisions::{LeaseAnswer, LeaseQuestion};
use tokio::sync::oneshot;

use super::{Lead, Replica};
use crate::peer_message::PeerMessage;
use crate::reads::ROUND_PATIENCE;
use crate::{Error, Mutant, ReadAsker};

/// Questions in one message.
const TOGETHER_MAX: usize = 1024;

/// Who waits for an answer about a lease.
#[derive(Debug)]
pub enum LeaseAsker {
    /// A request task of this node.
    Local(oneshot::Sender<Result<LeaseAnswer, Error>>),
    /// A follower.
    Member {
        /// Which.
        member: u64,
        /// Its number for the question.
        number: u64,
        /// The question came with others: the answer may, too.
        together: bool,
    },
}

#[derive(Debug)]
struct Asked {
    question: LeaseQuestion,
    asker: LeaseAsker,
    deadline: Instant,
    /// Was sent to the leader, and is sent again after this.
    again: Option<Instant>,
    /// It was sent before.
    is_repeated: bool,
}

/// The questions of one member that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct LeaseQuestions {
    last_number: u64,
    all: BTreeMap<u64, Asked>,
    /// To be sent, or to wait for a round of reads.
    new: Vec<u64>,
    /// Renewals of leases that have run out: the outcome is not known yet.
    run_out: Vec<u64>,
    /// Answers for other members, by member, to be sent together.
    answers: BTreeMap<u64, Vec<(u64, LeaseAnswer)>>,
}

impl LeaseQuestions {
    /// For a new life: its questions have numbers that no earlier one had.
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

    /// Another leads: what was sent is asked again.
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
    /// Asks the leader, wherever it is.
    pub fn ask_lease(&mut self, question: LeaseQuestion, asker: LeaseAsker) {
        match self.failed.clone() {
            Some(error) => self.tell_lease(asker, Err(error)),
            None => self.lease_questions.add(Asked {
                question,
                asker,
                deadline: self.clock.now() + self.patience,
                again: None,
                is_repeated: false,
            }),
        }
    }

    /// A follower has several questions.
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

    /// Sends new questions on, or lets them wait for a round of reads.
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

    /// Sends a question that was sent before; one that was not is returned, to be sent with
    /// others.
    fn send_lease_question(&mut self, number: u64) -> Option<(u64, LeaseQuestion)> {
        let asked = self.lease_questions.all.get_mut(&number)?;
        if let LeaseAsker::Member { .. } = asked.asker {
            // It could go round in circles. The member that asked will ask again.
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

    /// A round of reads that began after the question came is confirmed and
    /// applied here, or a lease that it waited for may be gone.
    pub(super) fn answer_lease_question(&mut self, number: u64) {
        let Some(asked) = self.lease_questions.all.get(&number) else {
            return;
        };
        match self.reader.answer_of_lease(&asked.question) {
            Some(Ok(answer)) => {
                let asked = self.lease_questions.all.remove(&number);
                let asked = asked.expect("it was there");
                self.tell_lease(asked.asker, Ok(answer));
            }
            // The lead was lost meanwhile.
            Some(Err(_)) => self.lease_questions.new.push(number),
            None => self.lease_questions.run_out.push(number),
        }
    }

    /// Looks again at leases that had run out.
    pub(super) fn look_at_run_out_leases(&mut self) {
        for number in std::mem::take(&mut self.lease_questions.run_out) {
            self.answer_lease_question(number);
        }
    }

    /// The leader's answer to a question of this member's.
    pub(super) fn lease_answered(&mut self, number: u64, answer: LeaseAnswer) {
        let sent = |asked: &Asked| matches!(asked.asker, LeaseAsker::Local(_));
        if self.lease_questions.all.get(&number).is_some_and(sent)
            && let Some(asked) = self.lease_questions.all.remove(&number)
        {
            self.tell_lease(asked.asker, Ok(answer));
        }
    }

    /// Asks again what was lost, and gives up what is late.
    pub(super) fn tend_lease_questions(&mut self, now: Instant) {
        self.lease_questions.repeat(|again| now >= again);
        for asker in self.lease_questions.take_late(now) {
            let timeout = Error::Refused(Refusal::Timeout.into());
            self.tell_lease(asker, Err(timeout));
        }
    }

    pub(super) fn fail_lease_questions(&mut self, error: &Error) {
        let all = std::mem::take(&mut self.lease_questions.all);
        for asked in all.into_values() {
            self.tell_lease(asked.asker, Err(error.clone()));
        }
    }

    fn tell_lease(&mut self, asker: LeaseAsker, outcome: Result<LeaseAnswer, Error>) {
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
            // It has a deadline of its own.
            (LeaseAsker::Member { .. }, Err(_)) => {}
        }
    }
}
