//! Tests that messages are decoded as they were encoded, and refused when truncated.

use super::*;

fn rejoin_messages() -> Vec<PeerMessage> {
    let (incarnation, round) = (3, 4);
    let end = EntryId { term: 5, index: 6 };
    vec![
        PeerMessage::Rejoin(RejoinQuestion {
            incarnation,
            round,
            end,
            voters: vec![7, 8],
        }),
        PeerMessage::RejoinReply(RejoinReply {
            incarnation,
            round,
            end,
            voters: vec![1, 2, 7],
            removed: vec![8],
        }),
        PeerMessage::RejoinAccepted(RejoinAccepted {
            incarnation,
            term: 5,
            index: 6,
        }),
        PeerMessage::WhichIncarnation { number: 9 },
        PeerMessage::ThisIncarnation {
            number: 9,
            incarnation,
        },
    ]
}

#[test]
fn rejoin_messages_round_trip_and_are_refused_when_truncated() {
    for message in rejoin_messages() {
        let (kind, parts) = message.encode();
        let bytes = Bytes::from(parts.concat());
        let decoded = PeerMessage::decode(kind, bytes.clone()).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
        // A message may end with any number of ids.
        let needed = match message {
            PeerMessage::RejoinReply(_) => 64,
            PeerMessage::Rejoin(_) => 32,
            PeerMessage::WhichIncarnation { .. } => 8,
            PeerMessage::ThisIncarnation { .. } => 16,
            _ => 24,
        };
        let cut = (0..bytes.len()).filter(|length| *length < needed || length % 8 != 0);
        for length in cut {
            assert!(PeerMessage::decode(kind, bytes.slice(..length)).is_err());
        }
    }
}

fn of_leases() -> [PeerMessage; 2] {
    use etcd_api::etcdserverpb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};
    let question = |id| LeaseRequest::KeepAlive(LeaseKeepAliveRequest { id });
    let answer = |id| {
        let response = LeaseKeepAliveResponse {
            id,
            ttl: 60,
            ..LeaseKeepAliveResponse::default()
        };
        LeaseResponse::KeepAlive(response)
    };
    [
        PeerMessage::LeaseRequests {
            questions: vec![(1, question(i64::MIN)), (u64::MAX, question(7))],
        },
        PeerMessage::LeaseResponses {
            answers: vec![(1, answer(i64::MIN)), (u64::MAX, answer(7))],
        },
    ]
}

#[test]
fn lease_messages_with_many_items_round_trip_and_are_refused_when_truncated() {
    for message in of_leases() {
        let (kind, parts) = message.encode();
        let bytes = Bytes::from(parts.concat());
        let decoded = PeerMessage::decode(kind, bytes.clone()).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
        let first_item_bytes = 12 + usize::from(bytes[8]);
        for length in 1..bytes.len() {
            let cut = PeerMessage::decode(kind, bytes.slice(..length));
            assert_eq!(cut.is_ok(), length == first_item_bytes, "{length}");
        }
    }
}

fn of_snapshot() -> Vec<PeerMessage> {
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgSnapshot);
    (message.from, message.to, message.term) = (1, 2, 9);
    let metadata = message.mut_snapshot().mut_metadata();
    (metadata.index, metadata.term) = (100, 4);
    metadata.mut_conf_state().voters = vec![1, 2];
    let (id, message) = (7, Box::new(message));
    vec![
        PeerMessage::SnapshotOffer { id, message },
        PeerMessage::SnapshotPiece {
            id,
            bytes: Bytes::from_static(b"a part"),
        },
        PeerMessage::SnapshotWanted {
            id,
            report: ImportReport {
                wanted: 3,
                written: 2,
                out_of_order: true,
            },
        },
        PeerMessage::SnapshotOver {
            id,
            outcome: Ok(()),
        },
        PeerMessage::SnapshotOver {
            id,
            outcome: Err("the disk is full".into()),
        },
    ]
}

#[test]
fn snapshot_messages_round_trip() {
    for message in of_snapshot() {
        let (kind, parts) = message.encode();
        let decoded = PeerMessage::decode(kind, parts.concat().into()).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
    }
}

#[test]
fn truncated_snapshot_messages_are_refused() {
    for message in of_snapshot() {
        let (kind, parts) = message.encode();
        let bytes = Bytes::from(parts.concat());
        // Behind its head, a piece or a reason may have any length.
        let head = match message {
            PeerMessage::SnapshotPiece { .. } => 8,
            PeerMessage::SnapshotOver { .. } => 9,
            _ => bytes.len(),
        };
        for length in 0..head {
            assert!(PeerMessage::decode(kind, bytes.slice(..length)).is_err());
        }
    }
}

#[test]
fn an_offer_of_something_else_is_refused() {
    let (kind, _) = of_snapshot()[0].encode();
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgAppend);
    let parts = [vec![words(&[7])], wire::encode(&message)].concat();
    assert!(PeerMessage::decode(kind, parts.concat().into()).is_err());
}

#[test]
fn probes_and_echoes_round_trip_and_are_refused_when_truncated() {
    for message in [
        PeerMessage::Probe { number: 7 },
        PeerMessage::Echo { number: u64::MAX },
    ] {
        let (kind, parts) = message.encode();
        let bytes = Bytes::from(parts.concat());
        let decoded = PeerMessage::decode(kind, bytes.clone()).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
        for length in 0..bytes.len() {
            assert!(PeerMessage::decode(kind, bytes.slice(..length)).is_err());
        }
    }
}
