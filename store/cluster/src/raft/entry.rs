//! Converts entries between the log and the Raft library.
//!
//! A batch's records are an entry's data, byte for byte. If the batch changes the members
//! of the cluster, the library has to read the change in its own encoding. That encoding is
//! derived from the records wherever it is needed, and neither stored nor sent.

use bytes::Bytes;
use engine::Body;
use protobuf::Message as _;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, Entry, EntryType};
use revisions::MemberChange;

/// An entry as the library has it.
pub(crate) fn to_raft(term: u64, index: u64, body: &Body) -> Entry {
    let mut entry = Entry {
        term,
        index,
        ..Entry::default()
    };
    match configuration_change(body) {
        Some(change) => {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
            entry.data = encode(&change);
            entry.context = body.bytes().clone();
        }
        None => entry.data = body.bytes().clone(),
    }
    entry
}

/// The records of an entry that [`to_raft`] made, or of a new leader's empty
/// one.
pub(crate) fn records_of(entry: &Entry) -> &Bytes {
    match entry.get_entry_type() {
        EntryType::EntryNormal => &entry.data,
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => &entry.context,
    }
}

/// The change that a batch makes to Raft's configuration, if it makes one.
pub(crate) fn configuration_change(body: &Body) -> Option<ConfChangeV2> {
    let (kind, node_id) = match revisions::membership_of_body(body)? {
        MemberChange::Added {
            id,
            is_learner: true,
            ..
        } => (ConfChangeType::AddLearnerNode, id),
        MemberChange::Added { id, .. } | MemberChange::Promoted { id } => {
            (ConfChangeType::AddNode, id)
        }
        MemberChange::Removed { id } => (ConfChangeType::RemoveNode, id),
        MemberChange::Updated { .. } | MemberChange::Published { .. } => return None,
    };
    let mut single = ConfChangeSingle::default();
    single.set_change_type(kind);
    single.node_id = node_id;
    let mut change = ConfChangeV2::default();
    change.mut_changes().push(single);
    Some(change)
}

fn encode(change: &ConfChangeV2) -> Bytes {
    change
        .write_to_bytes()
        .expect("a message of two numbers can be encoded")
        .into()
}
