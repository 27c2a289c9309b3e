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
//! ```
//!
//! All of it may be lost, doubled, late and out of order. Commands are sent
//! once: whether a lost one was carried out is not known, and who asked is told
//! so. Everything else is repeated by whoever needs it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use raft::eraftpb::{Message, MessageType};
use revisions::{Command, LeaseAnswer, LeaseQuestion, Response};

use crate::Error;
use crate::raft::wire;

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
}

const RAFT: u8 = 1;
const READ_INDEX: u8 = 2;
const READ_AT: u8 = 3;
const COMMAND: u8 = 4;
const DONE: u8 = 5;
const NOT_DONE: u8 = 6;
const LEASE_QUESTION: u8 = 7;
const LEASE_ANSWER: u8 = 8;

impl PeerMessage {
    /// Whether it may be large, and should not stand in the way of others.
    pub fn is_bulk(&self) -> bool {
        match self {
            PeerMessage::Raft(message) => message.get_msg_type() == MessageType::MsgAppend,
            PeerMessage::ReadIndex { .. }
            | PeerMessage::ReadAt { .. }
            | PeerMessage::LeaseQuestion { .. } => false,
            // The answer may list the keys.
            PeerMessage::LeaseAnswer { answer, .. } => {
                matches!(**answer, LeaseAnswer::TimeToLive(_))
            }
            PeerMessage::Command { .. } | PeerMessage::Answer { .. } => true,
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
            _ => return Err(format!("a message of unknown kind {kind}")),
        })
    }
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

/// An error of this node, as far as others understand it.
pub(crate) fn for_others(error: Error) -> revisions::Error {
    match error {
        Error::Refused(error) => error,
        Error::TooManyRequests { .. } => etcd_api::Error::TooManyRequests.into(),
        Error::Stopped => etcd_api::Error::Stopped.into(),
        Error::LogFailed { .. } | Error::Storage(_) | Error::Raft(_) => {
            etcd_api::Error::Unhealthy.into()
        }
    }
}
