//! Watches: changes in order, delivered as they become durable.

use std::collections::VecDeque;

use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use etcd_api::{EncodedKeyValue, mvccpb};
use revisions::{Reader, WatchStream};

use crate::key_range::KeyRange;
use crate::waiting::block_on;
use crate::{Error, Remedy};

/// One change of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    deleted: bool,
    encoded: EncodedKeyValue,
}

impl Event {
    /// The key that changed.
    pub fn key(&self) -> &[u8] {
        self.encoded.key()
    }

    /// The new value; empty for a deletion.
    pub fn value(&self) -> &[u8] {
        self.encoded.value()
    }

    /// The revision of the change.
    pub fn revision(&self) -> i64 {
        self.encoded.mod_revision()
    }

    /// Whether the key was deleted.
    pub fn is_deletion(&self) -> bool {
        self.deleted
    }
}

/// A cursor over the changes of a range. Its queue is bounded: a cursor that falls behind
/// reads from the log.
#[derive(Debug)]
pub struct Watch {
    stream: WatchStream,
    /// Events that were received and not returned yet.
    events: VecDeque<Event>,
}

impl Watch {
    pub(crate) fn open(reader: &Reader, range: KeyRange, revision: i64) -> Watch {
        let stream = reader.watch_hub().subscribe();
        stream.create(WatchCreateRequest {
            key: range.key.into(),
            range_end: range.range_end.into(),
            start_revision: revision,
            ..Default::default()
        });
        Watch {
            stream,
            events: VecDeque::new(),
        }
    }

    /// Blocks the calling thread until the next change and returns it. An error ends the
    /// watch: the required revision is compacted, or the store has closed.
    #[expect(
        clippy::should_implement_trait,
        reason = "a watch has no end, only errors"
    )]
    pub fn next(&mut self) -> Result<Event, Error> {
        block_on(self.receive())
    }

    /// [`Watch::next`] for tasks. Dropping the future loses no event.
    pub async fn receive(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            match self.stream.next().await {
                Some(response) => self.take(response)?,
                None => return Err(Error::new(Remedy::Reopen, "the store has closed")),
            }
        }
    }

    fn take(&mut self, response: WatchResponse) -> Result<(), Error> {
        if response.compact_revision > 0 {
            let message = format!(
                "history before revision {} is compacted; watch from there",
                response.compact_revision
            );
            return Err(Error::new(Remedy::CorrectTheCall, message));
        }
        if response.canceled {
            return Err(Error::new(Remedy::CorrectTheCall, response.cancel_reason));
        }
        self.events
            .extend(response.events.into_iter().filter_map(|event| {
                let deleted = event.r#type == mvccpb::event::EventType::Delete as i32;
                event.kv.map(|encoded| Event { deleted, encoded })
            }));
        Ok(())
    }
}
