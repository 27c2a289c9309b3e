//! The messages between members, and their encoding.
//!
//! ```text
//!   kind  1 Raft             raft/wire.rs
//!         2 ReadIndex        u64 round
//!         3 ReadAt           u64 round, u64 index
//!         4 Command          u64 number, the command
//!         5 Answer, Ok       u64 number, u64 index, the response
//!         6 Answer, Err      u64 number, u64 index, the error
//!         7 LeaseRequest    u64 number, the question
//!         8 LeaseResponse      u64 number, the answer
//!         9 SnapshotOffer    u64 id, Raft's MsgSnapshot (raft/wire.rs)
//!        10 SnapshotPiece    u64 id, the piece as the engine encodes it
//!        11 SnapshotWanted   u64 id, u64 wanted, u64 written, u8 out of order (0 or 1)
//!        12 SnapshotOver     u64 id, u8 outcome (1: success, 0: failure), reason in UTF-8
//!        13 Rejoin           u64 incarnation, u64 round, u64 term, u64 index, the voters' ids
//!        14 RejoinReply      u64 incarnation, u64 round, u64 term, u64 index, u64 number of
//!                            voters, the voters' ids, the removed members' ids
//!        15 RejoinAccepted   u64 incarnation, u64 term, u64 index
//!        16 LeaseRequests   for each: u64 number, u32 length, the question
//!        17 LeaseResponses     for each: u64 number, u32 length, the answer
//!        18 Record, Wanted   u64 main revision, the key
//!        19 Record, Given    u64 main revision, u32 length of the key, the key, the record
//!        20 WhichIncarnation u64 number
//!        21 ThisIncarnation  u64 number, u64 incarnation
//!        22 Hash, Stated     u64 index, u64 revision, u64 since, u64 effects, u64 keys,
//!                            u64 check of these
//!        23 Hash, Reached    the same
//!        24 Hash, Question   u64 number, u64 revision
//!        25 Hash, Answer     u64 number, u8 outcome (1: success, 0: failure), then u64 hash,
//!                            u64 compacted, u64 hashed and u64 newest revision, or the error
//!        26 Probe            u64 number
//!        27 Echo             u64 number
//!        28 Figures, Question  u64 number
//!        29 Figures, Answer  u64 number, the figures
//! ```
//!
//! Numbers are little-endian; the variants of [`PeerMessage`] describe the fields. Every
//! message may be lost, doubled, late and out of order. Commands are sent once: the outcome
//! of a lost one is unknown, and its client gets an error that says so. The sender of any
//! other message repeats it until it has what it needs.

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::{Message, MessageType};
use revisions::{Command, LeaseRequest, LeaseResponse, Response};

pub use figures::FiguresMessage;
pub use hashes::HashMessage;
pub use records::RecordMessage;

use crate::fields::Fields;
use crate::raft::wire;
use crate::snapshot::ImportReport;
use crate::{EntryId, Error};

mod figures;
mod hashes;
mod records;

/// The question of a rejoining member, which may have lost the tail of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejoinQuestion {
    /// The sender's incarnation. Former ones may have confirmed entries that this one lacks.
    pub incarnation: u64,
    /// Number of the question.
    pub round: u64,
    /// The last entry in the sender's log.
    pub end: EntryId,
    /// Ids of the voters that the sender knows of.
    pub voters: Vec<u64>,
}

/// A member's answer to [`RejoinQuestion`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejoinReply {
    /// The rejoining member's incarnation.
    pub incarnation: u64,
    /// Number of the question.
    pub round: u64,
    /// The last entry in the sender's log.
    pub end: EntryId,
    /// Ids of the voters in the configuration that the sender has applied.
    pub voters: Vec<u64>,
    /// Ids of those voters in the question that were removed, as far as the sender has
    /// applied.
    pub removed: Vec<u64>,
}

/// A leader's answer to [`RejoinQuestion`], besides [`RejoinReply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejoinAccepted {
    /// The rejoining member's incarnation.
    pub incarnation: u64,
    /// The leader's term.
    pub term: u64,
    /// A member that has committed this index has stored every entry that it acknowledged
    /// and that was committed.
    pub index: u64,
}

/// A message between members.
#[derive(Clone, Debug)]
pub enum PeerMessage {
    /// A message of the Raft library, but for MsgSnapshot.
    Raft(Message),
    /// A follower asks the leader for the commit index, to serve reads that wait.
    ReadIndex {
        /// The follower's number for the round.
        round: u64,
    },
    /// The leader's answer to `ReadIndex`, after it has confirmed that it leads.
    ReadAt {
        /// The follower's number for the round.
        round: u64,
        /// The follower may serve the reads once it has applied the entry of this index.
        index: u64,
    },
    /// A follower forwards a command of its client to the leader.
    Command {
        /// The follower's number for the command.
        number: u64,
        command: Command,
    },
    /// The leader's answer to `Command`.
    Answer {
        /// The follower's number for the command.
        number: u64,
        /// Index of the entry that contains the command's effect, or after which it was
        /// evaluated. The follower answers its client once it has applied this entry.
        index: u64,
        /// Boxed to keep messages small, because they are moved often.
        outcome: Box<Result<Response, revisions::Error>>,
    },
    /// A follower asks a question about a lease that only the leader can answer.
    LeaseRequest {
        /// The follower's number for the question.
        number: u64,
        question: LeaseRequest,
    },
    /// The leader's answer to `LeaseRequest`. A member that does not lead sends none.
    LeaseResponse {
        /// The follower's number for the question.
        number: u64,
        /// Boxed to keep messages small, because they are moved often.
        answer: Box<LeaseResponse>,
    },
    /// Several questions about leases at once. A member of a release before this message
    /// drops it; the follower then repeats each question in a message of its own.
    LeaseRequests {
        /// The follower's number for each question, and the question.
        questions: Vec<(u64, LeaseRequest)>,
    },
    /// The leader's answers to `LeaseRequests`.
    LeaseResponses {
        /// The follower's number for each question, and the answer.
        answers: Vec<(u64, LeaseResponse)>,
    },
    /// A leader offers a snapshot to a member that is behind the log. Repeated until the member
    /// answers with `SnapshotWanted`.
    SnapshotOffer {
        /// The leader's number for the transfer.
        id: u64,
        /// The MsgSnapshot that the member's Raft library gets when the snapshot is complete.
        message: Box<Message>,
    },
    /// A piece of a snapshot.
    SnapshotPiece {
        /// The leader's number for the transfer.
        id: u64,
        /// The piece as the engine encodes it; it contains its own number.
        bytes: Bytes,
    },
    /// The member's report on its import.
    SnapshotWanted {
        /// The leader's number for the transfer.
        id: u64,
        report: ImportReport,
    },
    /// The member ends the transfer.
    SnapshotOver {
        /// The leader's number for the transfer.
        id: u64,
        /// `Ok` if the member has the snapshot's state, from this transfer or otherwise; or the
        /// reason of the failure.
        outcome: Result<(), String>,
    },
    /// A rejoining member asks the voters and the leader where their logs end. Repeated until
    /// the member is whole.
    Rejoin(RejoinQuestion),
    /// The answer to `Rejoin`. From now on the sender does not rely on former incarnations of
    /// the rejoining member.
    RejoinReply(RejoinReply),
    /// A leader's answer to `Rejoin`, besides `RejoinReply`: it has forgotten what former
    /// incarnations of the rejoining member have confirmed.
    RejoinAccepted(RejoinAccepted),
    /// Asks a member which incarnation it is in, because another message named one that the
    /// member has not confirmed. A member of a release before this message drops it.
    WhichIncarnation {
        /// Number of the question, a random one that other processes cannot guess.
        number: u64,
    },
    /// The answer to `WhichIncarnation`.
    ThisIncarnation {
        /// Number of the question.
        number: u64,
        /// The incarnation of the member that answers.
        incarnation: u64,
    },
    /// A request for a value that is damaged on the sender, or the record in answer to one. A
    /// member of a release before this message drops it.
    Record(RecordMessage),
    /// A hash of the state, or a request for one. A member of a release before this message
    /// drops it.
    Hash(HashMessage),
    /// Measures the round trip to a member. A member of a release before this message drops it.
    Probe {
        /// The sender's number for the probe.
        number: u64,
    },
    /// The answer to `Probe`.
    Echo {
        /// Number of the probe.
        number: u64,
    },
    /// Figures of a member, or a request for them. A member of a release before this message
    /// drops it.
    Figures(FiguresMessage),
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
const REJOIN: u8 = 13;
const REJOIN_REPLY: u8 = 14;
const REJOIN_ACCEPTED: u8 = 15;
const LEASE_QUESTIONS: u8 = 16;
const LEASE_ANSWERS: u8 = 17;
const RECORD_WANTED: u8 = 18;
const RECORD_GIVEN: u8 = 19;
const WHICH_INCARNATION: u8 = 20;
const THIS_INCARNATION: u8 = 21;
const STATE_HASH_STATED: u8 = 22;
const STATE_HASH_REACHED: u8 = 23;
const HASH_QUESTION: u8 = 24;
const HASH_ANSWER: u8 = 25;
const PROBE: u8 = 26;
const ECHO: u8 = 27;
const FIGURES_QUESTION: u8 = 28;
const FIGURES_ANSWER: u8 = 29;

impl PeerMessage {
    /// Whether it asks for a read, which shares a round with others.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, PeerMessage::ReadIndex { .. })
    }

    /// The term, if only the leader of that term may send this message.
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

    /// Whether the message is consistent with its connection from member `from` to member `to`.
    /// Raft's messages name their sender and receiver; all others have no such fields.
    #[must_use]
    pub fn is_in_the_name_of(&self, from: u64, to: u64) -> bool {
        match self {
            PeerMessage::Raft(message) => (message.from, message.to) == (from, to),
            PeerMessage::SnapshotOffer { message, .. } => (message.from, message.to) == (from, to),
            _ => true,
        }
    }

    /// Whether the message may be large, so that it should not delay others on its connection.
    pub fn is_bulk(&self) -> bool {
        match self {
            PeerMessage::Raft(message) => message.get_msg_type() == MessageType::MsgAppend,
            PeerMessage::ReadIndex { .. }
            | PeerMessage::ReadAt { .. }
            | PeerMessage::LeaseRequest { .. }
            | PeerMessage::LeaseRequests { .. }
            | PeerMessage::SnapshotWanted { .. }
            | PeerMessage::SnapshotOver { .. }
            | PeerMessage::Rejoin(_)
            | PeerMessage::RejoinReply(_)
            | PeerMessage::RejoinAccepted(_)
            | PeerMessage::WhichIncarnation { .. }
            | PeerMessage::ThisIncarnation { .. }
            | PeerMessage::Hash(_)
            | PeerMessage::Probe { .. }
            | PeerMessage::Echo { .. }
            | PeerMessage::Figures(_) => false,
            // The answer may list the keys.
            PeerMessage::LeaseResponse { answer, .. } => {
                matches!(**answer, LeaseResponse::TimeToLive(_))
            }
            PeerMessage::LeaseResponses { answers } => answers
                .iter()
                .any(|(_, answer)| matches!(answer, LeaseResponse::TimeToLive(_))),
            PeerMessage::Record(record) => record.is_bulk(),
            PeerMessage::Command { .. }
            | PeerMessage::Answer { .. }
            | PeerMessage::SnapshotOffer { .. }
            | PeerMessage::SnapshotPiece { .. } => true,
        }
    }

    /// Encodes the message: its kind, and its bytes in several parts.
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
            PeerMessage::LeaseRequest { number, question } => {
                (LEASE_QUESTION, vec![words(&[*number]), question.encode()])
            }
            PeerMessage::LeaseResponse { number, answer } => {
                (LEASE_ANSWER, vec![words(&[*number]), answer.encode()])
            }
            PeerMessage::LeaseRequests { questions } => {
                let questions = questions.iter().map(|(number, it)| (*number, it.encode()));
                (LEASE_QUESTIONS, vec![numbered(questions)])
            }
            PeerMessage::LeaseResponses { answers } => {
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
            PeerMessage::SnapshotWanted { id, report } => {
                let flag = Bytes::copy_from_slice(&[u8::from(report.out_of_order)]);
                let head = words(&[*id, report.wanted, report.written]);
                (SNAPSHOT_WANTED, vec![head, flag])
            }
            PeerMessage::SnapshotOver { id, outcome } => {
                let flag = Bytes::copy_from_slice(&[u8::from(outcome.is_ok())]);
                let why = outcome.as_ref().err().cloned().unwrap_or_default();
                (SNAPSHOT_OVER, vec![words(&[*id]), flag, why.into()])
            }
            PeerMessage::Rejoin(question) => {
                let EntryId { term, index } = question.end;
                let head = words(&[question.incarnation, question.round, term, index]);
                (REJOIN, vec![head, words(&question.voters)])
            }
            PeerMessage::RejoinReply(reply) => {
                let EntryId { term, index } = reply.end;
                let voters = reply.voters.len() as u64;
                let head = words(&[reply.incarnation, reply.round, term, index, voters]);
                let parts = vec![head, words(&reply.voters), words(&reply.removed)];
                (REJOIN_REPLY, parts)
            }
            PeerMessage::RejoinAccepted(accepted) => {
                let words = words(&[accepted.incarnation, accepted.term, accepted.index]);
                (REJOIN_ACCEPTED, vec![words])
            }
            PeerMessage::WhichIncarnation { number } => {
                (WHICH_INCARNATION, vec![words(&[*number])])
            }
            PeerMessage::ThisIncarnation {
                number,
                incarnation,
            } => (THIS_INCARNATION, vec![words(&[*number, *incarnation])]),
            PeerMessage::Record(record) => record.encode(),
            PeerMessage::Hash(hash) => hash.encode(),
            PeerMessage::Probe { number } => (PROBE, vec![words(&[*number])]),
            PeerMessage::Echo { number } => (ECHO, vec![words(&[*number])]),
            PeerMessage::Figures(figures) => figures.encode(),
        }
    }

    /// Decodes a message of this kind from the joined parts of [`PeerMessage::encode`]. The
    /// error says what is wrong with it.
    pub fn decode(kind: u8, bytes: Bytes) -> Result<PeerMessage, String> {
        let text = |error: revisions::Error| error.to_string();
        let mut fields = Fields(bytes);
        Ok(match kind {
            RAFT => PeerMessage::Raft(wire::decode(fields.0)?),
            READ_INDEX => PeerMessage::ReadIndex {
                round: fields.u64()?,
            },
            READ_AT => PeerMessage::ReadAt {
                round: fields.u64()?,
                index: fields.u64()?,
            },
            COMMAND => PeerMessage::Command {
                number: fields.u64()?,
                command: Command::decode(fields.0).map_err(text)?,
            },
            DONE | NOT_DONE => {
                let (number, index) = (fields.u64()?, fields.u64()?);
                let outcome = if kind == DONE {
                    Ok(Response::decode(fields.0).map_err(text)?)
                } else {
                    Err(revisions::Error::decode(fields.0).map_err(text)?)
                };
                PeerMessage::Answer {
                    number,
                    index,
                    outcome: Box::new(outcome),
                }
            }
            LEASE_QUESTION => PeerMessage::LeaseRequest {
                number: fields.u64()?,
                question: LeaseRequest::decode(fields.0).map_err(text)?,
            },
            LEASE_ANSWER => PeerMessage::LeaseResponse {
                number: fields.u64()?,
                answer: Box::new(LeaseResponse::decode(fields.0).map_err(text)?),
            },
            LEASE_QUESTIONS => PeerMessage::LeaseRequests {
                questions: all_numbered(fields, LeaseRequest::decode)?,
            },
            LEASE_ANSWERS => PeerMessage::LeaseResponses {
                answers: all_numbered(fields, LeaseResponse::decode)?,
            },
            SNAPSHOT_OFFER..=SNAPSHOT_OVER => decode_of_snapshot(kind, fields)?,
            REJOIN => PeerMessage::Rejoin(RejoinQuestion {
                incarnation: fields.u64()?,
                round: fields.u64()?,
                end: fields.entry_id()?,
                voters: fields.all_u64()?,
            }),
            REJOIN_REPLY => PeerMessage::RejoinReply(decode_rejoin_reply(fields)?),
            REJOIN_ACCEPTED => PeerMessage::RejoinAccepted(RejoinAccepted {
                incarnation: fields.u64()?,
                term: fields.u64()?,
                index: fields.u64()?,
            }),
            WHICH_INCARNATION => PeerMessage::WhichIncarnation {
                number: fields.u64()?,
            },
            THIS_INCARNATION => PeerMessage::ThisIncarnation {
                number: fields.u64()?,
                incarnation: fields.u64()?,
            },
            RECORD_WANTED | RECORD_GIVEN => {
                PeerMessage::Record(RecordMessage::decode(kind, fields)?)
            }
            STATE_HASH_STATED..=HASH_ANSWER => {
                PeerMessage::Hash(HashMessage::decode(kind, fields)?)
            }
            PROBE => PeerMessage::Probe {
                number: fields.u64()?,
            },
            ECHO => PeerMessage::Echo {
                number: fields.u64()?,
            },
            FIGURES_QUESTION | FIGURES_ANSWER => {
                PeerMessage::Figures(FiguresMessage::decode(kind, fields)?)
            }
            _ => return Err(format!("a message of unknown kind {kind}")),
        })
    }
}

fn decode_of_snapshot(kind: u8, mut fields: Fields) -> Result<PeerMessage, String> {
    let id = fields.u64()?;
    Ok(match kind {
        SNAPSHOT_OFFER => {
            let message = wire::decode(fields.0)?;
            if message.get_msg_type() != MessageType::MsgSnapshot || !message.has_snapshot() {
                return Err("an offer carries no snapshot".into());
            }
            PeerMessage::SnapshotOffer {
                id,
                message: Box::new(message),
            }
        }
        SNAPSHOT_PIECE => PeerMessage::SnapshotPiece {
            id,
            bytes: fields.0,
        },
        SNAPSHOT_WANTED => PeerMessage::SnapshotWanted {
            id,
            report: ImportReport {
                wanted: fields.u64()?,
                written: fields.u64()?,
                out_of_order: fields.u8()? != 0,
            },
        },
        _ => PeerMessage::SnapshotOver {
            id,
            outcome: match fields.u8()? != 0 {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&fields.0).into_owned()),
            },
        },
    })
}

fn decode_rejoin_reply(mut fields: Fields) -> Result<RejoinReply, String> {
    let (incarnation, round) = (fields.u64()?, fields.u64()?);
    let end = fields.entry_id()?;
    let count = fields.u64()?;
    let mut voters = fields.all_u64()?;
    if count > voters.len() as u64 {
        return Err("the message is cut off".into());
    }
    let removed = voters.split_off(count as usize);
    Ok(RejoinReply {
        incarnation,
        round,
        end,
        voters,
        removed,
    })
}

fn words(words: &[u64]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(8 * words.len());
    words.iter().for_each(|&word| bytes.put_u64_le(word));
    bytes.freeze()
}

/// Encodes items, each with its number and length.
fn numbered(items: impl Iterator<Item = (u64, Bytes)>) -> Bytes {
    let mut bytes = BytesMut::new();
    for (number, item) in items {
        bytes.put_u64_le(number);
        bytes.put_u32_le(u32::try_from(item.len()).expect("an item is far below 4 GiB"));
        bytes.put_slice(&item);
    }
    bytes.freeze()
}

/// Decodes the items that [`numbered`] has encoded.
fn all_numbered<T>(
    mut fields: Fields,
    decode: impl Fn(Bytes) -> Result<T, revisions::Error>,
) -> Result<Vec<(u64, T)>, String> {
    let mut items = Vec::new();
    while !fields.0.is_empty() {
        let number = fields.u64()?;
        let item = decode(fields.sized()?).map_err(|error| error.to_string())?;
        items.push((number, item));
    }
    Ok(items)
}

/// Maps an error of this node to one that other members can decode.
pub(crate) fn for_others(error: Error) -> revisions::Error {
    match error {
        Error::Refused(error) => error,
        Error::TooManyRequests { .. } => etcd_api::Error::TooManyRequests.into(),
        Error::Stopped => etcd_api::Error::Stopped.into(),
        _ => etcd_api::Error::Unhealthy.into(),
    }
}

#[cfg(test)]
mod tests;
