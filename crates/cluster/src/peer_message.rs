//! What members say to each other.
//!
//! ```text
//!   kind  1  raft            raft/wire.rs
//!         2  may I read      u64 round
//!         3  read at         u64 round, u64 index
//!         4  do this         u64 number, the command
//!         5  it is done      u64 number, u64 index, the response
//!         6  it is not       u64 number, u64 index, the error
//!         7  of a lease      u64 number, the question
//!         8  of a lease      u64 number, the answer
//!         9  a snapshot      u64 id, Raft's message that it goes with (raft/wire.rs)
//!        10  its piece       u64 id, the piece as the engine made it
//!        11  go on           u64 id, u64 piece wanted next, u64 pieces written,
//!                            u8 1: the last piece that came was another
//!        12  the end         u64 id, u8 1: it is of no more use, 0: it failed; why, UTF-8
//!        13  I return        u64 life, u64 round, u64 term and u64 index of the log's end,
//!                            the ids of the voters that it knows of
//!        14  my log ends     u64 life and u64 round of who returns, u64 term, u64 index,
//!                            u64 voters, their ids, the ids of those that were removed
//!        15  welcome         u64 life of who returns, u64 term, u64 index to catch up with
//!        16  lease questions for each: u64 number, u32 length, the question
//!        17  lease answers   for each: u64 number, u32 length, the answer; to a message of kind 16
//!        18  mine is damaged u64 main revision, the key
//!        19  here it is      u64 main revision, u32 length of the key, the key, the record
//!        20  which life      u64 number of the question
//!        21  this life       u64 number of the question, u64 life of the answering member
//! ```
//!
//! All of it may be lost, doubled, late and out of order. Commands are sent
//! once: whether a lost one was carried out is not known, and who asked is told
//! so. Everything else is repeated by whoever needs it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use raft::eraftpb::{Message, MessageType};
use revisions::{Command, LeaseAnswer, LeaseQuestion, Response};

pub use records::RecordMessage;

use crate::Error;
use crate::raft::wire;

mod records;

/// A message between members.
#[derive(Clone, Debug)]
pub enum PeerMessage {
    /// Raft's own.
    Raft(Message),
    /// A follower wants to read what is committed now.
    ReadIndex {
        /// The follower's number for the round.
        round: u64,
    },
    /// It may, once it has applied this.
    ReadAt {
        /// Its number.
        round: u64,
        /// Index of an entry.
        index: u64,
    },
    /// A follower was asked to do what only the leader can.
    Command {
        /// The follower's number for it.
        number: u64,
        /// What.
        command: Command,
    },
    /// What became of it.
    Answer {
        /// The follower's number.
        number: u64,
        /// The entry that it is part of, or that it was decided after.
        index: u64,
        /// Boxed: messages are moved about.
        outcome: Box<Result<Response, revisions::Error>>,
    },
    /// A follower was asked what only the leader knows of a lease.
    LeaseQuestion {
        /// The follower's number for it.
        number: u64,
        /// What.
        question: LeaseQuestion,
    },
    /// What the leader knows. A member that does not lead says nothing.
    LeaseAnswer {
        /// The follower's number.
        number: u64,
        /// Boxed: messages are moved about.
        answer: Box<LeaseAnswer>,
    },
    /// Several questions about leases at once. A member of a release before this message
    /// drops it; the follower then repeats each question in a message of its own.
    LeaseQuestions {
        /// The follower's number for each question, and the question.
        questions: Vec<(u64, LeaseQuestion)>,
    },
    /// The leader's answers to questions that came together.
    LeaseAnswers {
        /// The follower's number for each question, and the answer.
        answers: Vec<(u64, LeaseAnswer)>,
    },
    /// A leader has a snapshot for a member that is behind the log. Repeated
    /// until the member says where to begin.
    SnapshotOffer {
        /// The leader's number for the transfer.
        id: u64,
        /// What Raft is told when it is whole.
        message: Box<Message>,
    },
    /// A part of it.
    SnapshotPiece {
        /// Of which.
        id: u64,
        /// Describes itself.
        bytes: Bytes,
    },
    /// How far the member has got.
    SnapshotWanted {
        /// With which.
        id: u64,
        /// Number of the piece that it wants next.
        wanted: u64,
        /// Pieces that are written.
        written: u64,
        /// What came last was not the piece it wanted.
        out_of_order: bool,
    },
    /// The member wants no more of it.
    SnapshotOver {
        /// Of which.
        id: u64,
        /// It has what is in it, from here or elsewhere. Otherwise: why not.
        outcome: Result<(), String>,
    },
    /// A member may have lost the end of its log, and asks everyone about it until
    /// it is whole again.
    Returning {
        /// Its life: former ones have confirmed what this one may not have.
        life: u64,
        /// Number of the question.
        round: u64,
        /// Where its log ends now.
        term: u64,
        /// See `term`.
        index: u64,
        /// Voters that it knows of.
        voters: Vec<u64>,
    },
    /// Who was asked knows of that life from now on.
    Statement {
        /// Whose question it answers.
        life: u64,
        /// The question's number.
        round: u64,
        /// Where the log of who answers ends.
        term: u64,
        /// See `term`.
        index: u64,
        /// Who votes, as far as is applied here.
        voters: Vec<u64>,
        /// The same: who was removed, of those that were asked about.
        removed: Vec<u64>,
    },
    /// A leader counts on the former lives no more.
    Welcome {
        /// Whose question it answers.
        life: u64,
        /// The leader's.
        term: u64,
        /// Who has this committed has all it has helped to commit.
        index: u64,
    },
    /// Which life is the member in? It was told, and not by an answer to this question. A
    /// member of a release before this message drops it.
    WhichLife {
        /// Number of the question, which cannot be guessed.
        number: u64,
    },
    /// The answer to it.
    ThisLife {
        /// Number of the question.
        number: u64,
        /// The life of the member that answers.
        life: u64,
    },
    /// Of a value that is damaged on one member. A member of a release before this
    /// message drops it.
    Record(RecordMessage),
}

const RAFT: u8 = 1;
const READ_INDEX: u8 = 2;
const READ_AT: u8 = 3;
const COMMAND: u8 = 4;
const DONE: u8 = 5;
const NOT_DONE: u8 = 6;
const LEASE_QUESTION: u8 = 7;
const LEASE_ANSWER: u8 = 8;
const SNAPSHOT_OFFER: u8 = 9;
const SNAPSHOT_PIECE: u8 = 10;
const SNAPSHOT_WANTED: u8 = 11;
const SNAPSHOT_OVER: u8 = 12;
const RETURNING: u8 = 13;
const STATEMENT: u8 = 14;
const WELCOME: u8 = 15;
const LEASE_QUESTIONS: u8 = 16;
const LEASE_ANSWERS: u8 = 17;
const RECORD_WANTED: u8 = 18;
const RECORD_GIVEN: u8 = 19;
const WHICH_LIFE: u8 = 20;
const THIS_LIFE: u8 = 21;

impl PeerMessage {
    /// The term whose leader alone may say this.
    #[must_use]
    pub fn term_led(&self) -> Option<u64> {
        const LEADERS: [MessageType; 3] = [
            MessageType::MsgAppend,
            MessageType::MsgHeartbeat,
            MessageType::MsgTimeoutNow,
        ];
        match self {
            PeerMessage::Raft(message) if LEADERS.contains(&message.get_msg_type()) => {
                Some(message.term)
            }
            _ => None,
        }
    }

    /// Whether it may be large, and should not stand in the way of others.
    pub fn is_bulk(&self) -> bool {
        match self {
            PeerMessage::Raft(message) => message.get_msg_type() == MessageType::MsgAppend,
            PeerMessage::ReadIndex { .. }
            | PeerMessage::ReadAt { .. }
            | PeerMessage::LeaseQuestion { .. }
            | PeerMessage::LeaseQuestions { .. }
            | PeerMessage::SnapshotWanted { .. }
            | PeerMessage::SnapshotOver { .. }
            | PeerMessage::Returning { .. }
            | PeerMessage::Statement { .. }
            | PeerMessage::Welcome { .. }
            | PeerMessage::WhichLife { .. }
            | PeerMessage::ThisLife { .. } => false,
            // The answer may list the keys.
            PeerMessage::LeaseAnswer { answer, .. } => {
                matches!(**answer, LeaseAnswer::TimeToLive(_))
            }
            PeerMessage::LeaseAnswers { answers } => answers
                .iter()
                .any(|(_, answer)| matches!(answer, LeaseAnswer::TimeToLive(_))),
            PeerMessage::Record(record) => record.is_bulk(),
            PeerMessage::Command { .. }
            | PeerMessage::Answer { .. }
            | PeerMessage::SnapshotOffer { .. }
            | PeerMessage::SnapshotPiece { .. } => true,
        }
    }

    /// Its kind, and its bytes in pieces.
    pub fn encode(&self) -> (u8, Vec<Bytes>) {
        match self {
            PeerMessage::Raft(message) => (RAFT, wire::encode(message)),
            PeerMessage::ReadIndex { round } => (READ_INDEX, vec![words(&[*round])]),
            PeerMessage::ReadAt { round, index } => (READ_AT, vec![words(&[*round, *index])]),
            PeerMessage::Command { number, command } => {
                (COMMAND, vec![words(&[*number]), command.encode()])
            }
            PeerMessage::Answer {
                number,
                index,
                outcome,
            } => {
                let head = words(&[*number, *index]);
                match &**outcome {
                    Ok(response) => (DONE, vec![head, response.encode()]),
                    Err(error) => (NOT_DONE, vec![head, error.encode()]),
                }
            }
            PeerMessage::LeaseQuestion { number, question } => {
                (LEASE_QUESTION, vec![words(&[*number]), question.encode()])
            }
            PeerMessage::LeaseAnswer { number, answer } => {
                (LEASE_ANSWER, vec![words(&[*number]), answer.encode()])
            }
            PeerMessage::LeaseQuestions { questions } => {
                let questions = questions.iter().map(|(number, it)| (*number, it.encode()));
                (LEASE_QUESTIONS, vec![numbered(questions)])
            }
            PeerMessage::LeaseAnswers { answers } => {
                let answers = answers.iter().map(|(number, it)| (*number, it.encode()));
                (LEASE_ANSWERS, vec![numbered(answers)])
            }
            PeerMessage::SnapshotOffer { id, message } => {
                let mut parts = vec![words(&[*id])];
                parts.append(&mut wire::encode(message));
                (SNAPSHOT_OFFER, parts)
            }
            PeerMessage::SnapshotPiece { id, bytes } => {
                (SNAPSHOT_PIECE, vec![words(&[*id]), bytes.clone()])
            }
            PeerMessage::SnapshotWanted {
                id,
                wanted,
                written,
                out_of_order,
            } => {
                let flag = Bytes::copy_from_slice(&[u8::from(*out_of_order)]);
                (
                    SNAPSHOT_WANTED,
                    vec![words(&[*id, *wanted, *written]), flag],
                )
            }
            PeerMessage::SnapshotOver { id, outcome } => {
                let flag = Bytes::copy_from_slice(&[u8::from(outcome.is_ok())]);
                let why = outcome.as_ref().err().cloned().unwrap_or_default();
                (SNAPSHOT_OVER, vec![words(&[*id]), flag, why.into()])
            }
            PeerMessage::Returning {
                life,
                round,
                term,
                index,
                voters,
            } => {
                let head = words(&[*life, *round, *term, *index]);
                (RETURNING, vec![head, words(voters)])
            }
            PeerMessage::Statement {
                life,
                round,
                term,
                index,
                voters,
                removed,
            } => {
                let head = words(&[*life, *round, *term, *index, voters.len() as u64]);
                (STATEMENT, vec![head, words(voters), words(removed)])
            }
            PeerMessage::Welcome { life, term, index } => {
                (WELCOME, vec![words(&[*life, *term, *index])])
            }
            PeerMessage::WhichLife { number } => (WHICH_LIFE, vec![words(&[*number])]),
            PeerMessage::ThisLife { number, life } => (THIS_LIFE, vec![words(&[*number, *life])]),
            PeerMessage::Record(record) => record.encode(),
        }
    }

    /// Reads what [`PeerMessage::encode`] gave, in one piece; says what is
    /// wrong otherwise.
    pub fn decode(kind: u8, mut bytes: Bytes) -> Result<PeerMessage, String> {
        let text = |error: revisions::Error| error.to_string();
        Ok(match kind {
            RAFT => PeerMessage::Raft(wire::decode(bytes)?),
            READ_INDEX => PeerMessage::ReadIndex {
                round: word(&mut bytes)?,
            },
            READ_AT => PeerMessage::ReadAt {
                round: word(&mut bytes)?,
                index: word(&mut bytes)?,
            },
            COMMAND => PeerMessage::Command {
                number: word(&mut bytes)?,
                command: Command::decode(bytes).map_err(text)?,
            },
            DONE | NOT_DONE => {
                let (number, index) = (word(&mut bytes)?, word(&mut bytes)?);
                let outcome = if kind == DONE {
                    Ok(Response::decode(bytes).map_err(text)?)
                } else {
                    Err(revisions::Error::decode(bytes).map_err(text)?)
                };
                PeerMessage::Answer {
                    number,
                    index,
                    outcome: Box::new(outcome),
                }
            }
            LEASE_QUESTION => PeerMessage::LeaseQuestion {
                number: word(&mut bytes)?,
                question: LeaseQuestion::decode(bytes).map_err(text)?,
            },
            LEASE_ANSWER => PeerMessage::LeaseAnswer {
                number: word(&mut bytes)?,
                answer: Box::new(LeaseAnswer::decode(bytes).map_err(text)?),
            },
            LEASE_QUESTIONS => PeerMessage::LeaseQuestions {
                questions: all_numbered(bytes, LeaseQuestion::decode)?,
            },
            LEASE_ANSWERS => PeerMessage::LeaseAnswers {
                answers: all_numbered(bytes, LeaseAnswer::decode)?,
            },
            SNAPSHOT_OFFER..=SNAPSHOT_OVER => decode_of_snapshot(kind, bytes)?,
            RETURNING => PeerMessage::Returning {
                life: word(&mut bytes)?,
                round: word(&mut bytes)?,
                term: word(&mut bytes)?,
                index: word(&mut bytes)?,
                voters: all_words(bytes)?,
            },
            STATEMENT => decode_statement(bytes)?,
            WELCOME => PeerMessage::Welcome {
                life: word(&mut bytes)?,
                term: word(&mut bytes)?,
                index: word(&mut bytes)?,
            },
            WHICH_LIFE => PeerMessage::WhichLife {
                number: word(&mut bytes)?,
            },
            THIS_LIFE => PeerMessage::ThisLife {
                number: word(&mut bytes)?,
                life: word(&mut bytes)?,
            },
            RECORD_WANTED | RECORD_GIVEN => {
                PeerMessage::Record(RecordMessage::decode(kind, bytes)?)
            }
            _ => return Err(format!("a message of unknown kind {kind}")),
        })
    }
}

fn decode_of_snapshot(kind: u8, mut bytes: Bytes) -> Result<PeerMessage, String> {
    let id = word(&mut bytes)?;
    Ok(match kind {
        SNAPSHOT_OFFER => {
            let message = wire::decode(bytes)?;
            if message.get_msg_type() != MessageType::MsgSnapshot || !message.has_snapshot() {
                return Err("an offer of no snapshot".into());
            }
            PeerMessage::SnapshotOffer {
                id,
                message: Box::new(message),
            }
        }
        SNAPSHOT_PIECE => PeerMessage::SnapshotPiece { id, bytes },
        SNAPSHOT_WANTED => PeerMessage::SnapshotWanted {
            id,
            wanted: word(&mut bytes)?,
            written: word(&mut bytes)?,
            out_of_order: flag(&mut bytes)?,
        },
        _ => PeerMessage::SnapshotOver {
            id,
            outcome: match flag(&mut bytes)? {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&bytes).into_owned()),
            },
        },
    })
}

fn decode_statement(mut bytes: Bytes) -> Result<PeerMessage, String> {
    let mut head = [0; 5];
    for place in &mut head {
        *place = word(&mut bytes)?;
    }
    let [life, round, term, index, count] = head;
    let mut voters = all_words(bytes)?;
    if count > voters.len() as u64 {
        return Err("the message is cut off".into());
    }
    let removed = voters.split_off(count as usize);
    Ok(PeerMessage::Statement {
        life,
        round,
        term,
        index,
        voters,
        removed,
    })
}

fn flag(bytes: &mut Bytes) -> Result<bool, String> {
    if bytes.is_empty() {
        return Err("the message is cut off".into());
    }
    Ok(bytes.get_u8() != 0)
}

fn words(words: &[u64]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(8 * words.len());
    words.iter().for_each(|&word| bytes.put_u64_le(word));
    bytes.freeze()
}

fn word(bytes: &mut Bytes) -> Result<u64, String> {
    if bytes.len() < 8 {
        return Err("the message is cut off".into());
    }
    Ok(bytes.get_u64_le())
}

/// The rest of a message: numbers and nothing else.
fn all_words(mut bytes: Bytes) -> Result<Vec<u64>, String> {
    let mut words = Vec::with_capacity(bytes.len() / 8);
    while !bytes.is_empty() {
        words.push(word(&mut bytes)?);
    }
    Ok(words)
}

/// Items that each have a number and a length.
fn numbered(items: impl Iterator<Item = (u64, Bytes)>) -> Bytes {
    let mut bytes = BytesMut::new();
    for (number, item) in items {
        bytes.put_u64_le(number);
        bytes.put_u32_le(u32::try_from(item.len()).expect("an item is far below 4 GiB"));
        bytes.put_slice(&item);
    }
    bytes.freeze()
}

/// Reads what [`numbered`] wrote, to the end of the message.
fn all_numbered<T>(
    mut bytes: Bytes,
    decode: impl Fn(Bytes) -> Result<T, revisions::Error>,
) -> Result<Vec<(u64, T)>, String> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        let number = word(&mut bytes)?;
        if bytes.len() < 4 {
            return Err("the message is cut off".into());
        }
        let length = bytes.get_u32_le() as usize;
        if bytes.len() < length {
            return Err("the message is cut off".into());
        }
        let item = decode(bytes.split_to(length)).map_err(|error| error.to_string())?;
        items.push((number, item));
    }
    Ok(items)
}

/// An error of this node, as far as others understand it.
pub(crate) fn for_others(error: Error) -> revisions::Error {
    match error {
        Error::Refused(error) => error,
        Error::TooManyRequests { .. } => etcd_api::Error::TooManyRequests.into(),
        Error::Stopped => etcd_api::Error::Stopped.into(),
        Error::LogFailed { .. } | Error::Storage(_) | Error::Raft(_) | Error::Removed { .. } => {
            etcd_api::Error::Unhealthy.into()
        }
    }
}

#[cfg(test)]
mod tests;
