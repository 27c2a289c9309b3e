//! The encoding of Raft's messages on the wire.
//!
//! ```text
//!   0  u8   type            16  u64 from         56  u64 commit term
//!   1  u8   1 rejected,     24  u64 term         64  u64 request snapshot
//!           2 snapshot      32  u64 log term     72  u64 reject hint
//!   2  u16  context length  40  u64 index        80  i64 priority
//!   4  u32  entries         48  u64 commit
//!   8  u64  to              88  context, snapshot, entries
//!
//!   snapshot  u64 index, u64 term, u32 voters, u32 learners, the ids
//!   entry     u64 term, u64 index, u32 length, the records of its batch
//! ```
//!
//! All numbers are little-endian. No bytes from the network reach a protobuf decoder, and
//! an entry's records are verified before Raft gets the entry.

use bytes::{BufMut, Bytes, BytesMut};
use engine::Body;
use raft::eraftpb::{Entry, Message, MessageType, Snapshot};

use super::entry::{records_of, to_raft};
use crate::fields::Fields;

const HEADER_BYTES: usize = 88;
const REJECTED: u8 = 1;
const SNAPSHOT: u8 = 2;

/// The types of messages that members send to each other. The library uses the other types
/// internally and would take such a message for this member's own, so they are refused.
const TYPES: [MessageType; 10] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTimeoutNow,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];

/// Encodes a message; the records of its entries are not copied.
pub(crate) fn encode(message: &Message) -> Vec<Bytes> {
    assert!(
        TYPES.contains(&message.get_msg_type()),
        "a message of this type is never sent: {message:?}"
    );
    let mut head = BytesMut::with_capacity(HEADER_BYTES + message.context.len());
    put_header(&mut head, message);
    head.put_slice(&message.context);
    if message.has_snapshot() {
        put_snapshot(&mut head, message.get_snapshot());
    }
    let mut parts = Vec::with_capacity(1 + 2 * message.entries.len());
    for entry in &message.entries {
        let records = records_of(entry);
        head.put_u64_le(entry.term);
        head.put_u64_le(entry.index);
        head.put_u32_le(length(records.len()));
        parts.push(head.split().freeze());
        parts.push(records.clone());
    }
    if !head.is_empty() {
        parts.push(head.freeze());
    }
    parts
}

fn put_header(head: &mut BytesMut, message: &Message) {
    let rejected = if message.reject { REJECTED } else { 0 };
    let snapshot = if message.has_snapshot() { SNAPSHOT } else { 0 };
    head.put_u8(message.get_msg_type() as u8);
    head.put_u8(rejected | snapshot);
    let context = u16::try_from(message.context.len())
        .expect("a context is a few numbers or a short constant");
    head.put_u16_le(context);
    head.put_u32_le(length(message.entries.len()));
    for word in [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.request_snapshot,
        message.reject_hint,
    ] {
        head.put_u64_le(word);
    }
    head.put_i64_le(message.priority);
}

fn put_snapshot(head: &mut BytesMut, snapshot: &Snapshot) {
    let metadata = snapshot.get_metadata();
    let members = metadata.get_conf_state();
    assert!(members.voters_outgoing.is_empty(), "one change at a time");
    head.put_u64_le(metadata.index);
    head.put_u64_le(metadata.term);
    head.put_u32_le(length(members.voters.len()));
    head.put_u32_le(length(members.learners.len()));
    let ids = members.voters.iter().chain(&members.learners);
    ids.for_each(|&id| head.put_u64_le(id));
}

fn length(number: usize) -> u32 {
    u32::try_from(number).expect("a message is far below 4 GiB")
}

/// Decodes a message that [`encode`] wrote. The error says what is wrong with it.
pub(crate) fn decode(bytes: Bytes) -> Result<Message, String> {
    let mut fields = Fields(bytes);
    let mut message = Message::default();
    let kind = fields.u8()?;
    let kind = TYPES.iter().find(|known| **known as u8 == kind);
    let kind = kind.ok_or("a message of a type that members do not send")?;
    message.set_msg_type(*kind);
    let flags = fields.u8()?;
    message.reject = flags & REJECTED != 0;
    let context_bytes = fields.u16()?;
    let entries = fields.u32()?;
    message.to = fields.u64()?;
    message.from = fields.u64()?;
    message.term = fields.u64()?;
    message.log_term = fields.u64()?;
    message.index = fields.u64()?;
    message.commit = fields.u64()?;
    message.commit_term = fields.u64()?;
    message.request_snapshot = fields.u64()?;
    message.reject_hint = fields.u64()?;
    message.priority = fields.u64()? as i64;
    message.context = fields.bytes(context_bytes.into())?;
    if flags & SNAPSHOT != 0 {
        message.set_snapshot(snapshot(&mut fields)?);
    }
    for _ in 0..entries {
        message.mut_entries().push(entry(&mut fields)?);
    }
    check_entries(&message)?;
    if fields.0.is_empty() {
        Ok(message)
    } else {
        Err("bytes follow the message".into())
    }
}

/// Checks that entries follow each other, which the library takes for granted.
fn check_entries(message: &Message) -> Result<(), String> {
    let mut last = (message.index, message.log_term);
    let appends = message.get_msg_type() == MessageType::MsgAppend;
    if appends && (message.index == 0) != (message.log_term == 0) {
        return Err(format!(
            "entry {} cannot be of term {}: only index 0, before the first entry, has term 0",
            message.index, message.log_term
        ));
    }
    for entry in &message.entries {
        let follows = last.0.checked_add(1) == Some(entry.index);
        if !follows || entry.term < last.1 || entry.term > message.term {
            return Err(format!(
                "entry {} of term {} follows entry {} of term {} in a message of term {}",
                entry.index, entry.term, last.0, last.1, message.term
            ));
        }
        last = (entry.index, entry.term);
    }
    Ok(())
}

fn entry(fields: &mut Fields) -> Result<Entry, String> {
    let (term, index) = (fields.u64()?, fields.u64()?);
    let records = fields.sized()?;
    let body = Body::verify(records).map_err(|error| format!("entry {index}: {error}"))?;
    Ok(to_raft(term, index, &body))
}

fn snapshot(fields: &mut Fields) -> Result<Snapshot, String> {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    metadata.index = fields.u64()?;
    metadata.term = fields.u64()?;
    let (voters, learners) = (fields.u32()?, fields.u32()?);
    let members = metadata.mut_conf_state();
    for _ in 0..voters {
        members.voters.push(fields.u64()?);
    }
    for _ in 0..learners {
        members.learners.push(fields.u64()?);
    }
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Batch, Change};

    fn body(text: &'static [u8]) -> Body {
        let change = Change::State {
            kind: 200,
            payload: Bytes::from_static(text),
        };
        let batch = Batch {
            changes: vec![change],
            ..Batch::default()
        };
        batch.encode().unwrap()
    }

    fn append() -> Message {
        let mut message = Message {
            to: 7,
            from: u64::MAX,
            term: 5,
            log_term: 3,
            index: 40,
            commit: 39,
            priority: -1,
            context: Bytes::from_static(b"round 9"),
            ..Message::default()
        };
        message.set_msg_type(MessageType::MsgAppend);
        let entries = [
            (41, 3, body(b"one")),
            (42, 5, Body::default()),
            (43, 5, body(b"two")),
        ];
        for (index, term, body) in &entries {
            message.mut_entries().push(to_raft(*term, *index, body));
        }
        message
    }

    fn snapshot() -> Message {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgSnapshot);
        message.reject = true;
        let metadata = message.mut_snapshot().mut_metadata();
        (metadata.index, metadata.term) = (100, 4);
        metadata.mut_conf_state().voters = vec![1, 2];
        metadata.mut_conf_state().learners = vec![3];
        message
    }

    fn bytes(message: &Message) -> Bytes {
        encode(message).concat().into()
    }

    #[test]
    fn messages_are_decoded_as_they_were_encoded() {
        for message in [append(), snapshot()] {
            assert_eq!(decode(bytes(&message)), Ok(message));
        }
    }

    #[test]
    fn a_truncated_message_is_refused_and_an_altered_one_causes_no_panic() {
        for message in [append(), snapshot()] {
            let good = bytes(&message);
            for length in 0..good.len() {
                assert!(decode(good.slice(..length)).is_err(), "{length} bytes");
            }
            for bit in 0..good.len() * 8 {
                let mut bytes = good.to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                // The transport has a checksum, so an altered message may decode here.
                let _ = decode(bytes.into());
            }
        }
    }

    #[test]
    fn message_types_that_members_do_not_send_are_refused() {
        let mut bytes = bytes(&append()).to_vec();
        for kind in (0..=u8::MAX).filter(|kind| TYPES.iter().all(|it| *it as u8 != *kind)) {
            bytes[0] = kind;
            let refused = decode(bytes.clone().into()).unwrap_err();
            assert_eq!(refused, "a message of a type that members do not send");
        }
    }

    #[test]
    fn entries_with_a_gap_or_a_falling_term_are_refused() {
        for (at, index, term) in [(1, 43, 5), (1, 42, 2), (0, 41, 2), (2, 43, 6)] {
            let mut message = append();
            message.mut_entries()[at].index = index;
            message.mut_entries()[at].term = term;
            assert!(decode(bytes(&message)).is_err(), "{at} {index} {term}");
        }
    }

    #[test]
    fn an_append_behind_an_entry_without_a_term_is_refused() {
        for (index, term) in [(40, 0), (0, 3)] {
            let mut message = append();
            message.mut_entries().clear();
            (message.index, message.log_term) = (index, term);
            assert!(decode(bytes(&message)).is_err(), "{index} {term}");
        }
    }
}
