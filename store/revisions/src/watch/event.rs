//! One change of one key, as watchers see it; encoded once, shared by all.

use bytes::Bytes;
use engine::KeyChange;
use etcd_api::mvccpb::event::EventType;
use etcd_api::{EncodedKeyValue, Fields};

use crate::key_value::encode;

/// An event before it is made part of a response. Cloning shares its bytes.
#[derive(Clone, Debug)]
pub(crate) struct KeyEvent {
    /// Main revision.
    pub revision: i64,
    pub kind: EventType,
    /// Whether the put created the key, so that there is no previous version.
    pub created: bool,
    pub key: Bytes,
    /// The stored version; for a deletion the key and the revision.
    pub kv: EncodedKeyValue,
}

impl KeyEvent {
    pub fn of(change: KeyChange) -> KeyEvent {
        let revision = change.revision.main;
        if change.tombstone {
            return KeyEvent::deletion(revision, &change.key);
        }
        KeyEvent {
            revision,
            kind: EventType::Put,
            created: change.created == revision,
            key: change.key,
            kv: EncodedKeyValue(change.kv),
        }
    }

    /// The log's tombstone names the key alone; clients get the revision too.
    fn deletion(revision: i64, key: &[u8]) -> KeyEvent {
        let named = Fields {
            key,
            mod_revision: revision,
            ..Fields::default()
        };
        let (key, kv) = encode(&named);
        let kv = EncodedKeyValue(kv);
        KeyEvent {
            revision,
            kind: EventType::Delete,
            created: false,
            key,
            kv,
        }
    }

    /// Bytes of memory that the event takes.
    pub fn size_bytes(&self) -> usize {
        size_of::<KeyEvent>() + self.kv.0.len()
    }
}
