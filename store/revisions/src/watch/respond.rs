//! Makes responses of events: adds previous versions and splits into fragments.

use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::WatchResponse;
use etcd_api::mvccpb::Event;
use prost::Message;

use super::event::KeyEvent;
use super::stream::{Delivery, WatchStream, notice};

impl WatchStream {
    /// Makes a response. If it is split, returns the first fragment and keeps the others for the
    /// next calls.
    pub(super) fn respond(&self, delivery: Delivery) -> WatchResponse {
        let watcher = &delivery.watcher;
        let events = delivery.events.into_iter().map(|event| Event {
            prev_kv: watcher.prev_kv.then(|| self.previous(&event)).flatten(),
            r#type: event.kind as i32,
            kv: Some(event.kv),
        });
        let response = WatchResponse {
            events: events.collect(),
            ..notice(watcher.id, delivery.revision)
        };
        if !watcher.fragment {
            return response;
        }
        let mut fragments = fragments(response, self.shared.options.response_bytes_max).into_iter();
        let first = fragments
            .next()
            .expect("a response has at least one fragment");
        self.shared.lock().fragments.extend(fragments);
        first
    }

    /// The version before the event; `None` if it is compacted or cannot be read.
    fn previous(&self, event: &KeyEvent) -> Option<EncodedKeyValue> {
        if event.created {
            return None;
        }
        let snapshot = self.hub.engine.snapshot();
        let before = event.revision - 1;
        if before < snapshot.compacted() {
            return None;
        }
        let version = snapshot.get(&event.key, before)?;
        match self.hub.engine.read(&version) {
            Ok(stored) => Some(EncodedKeyValue(stored.kv)),
            Err(error) => {
                tracing::warn!(%error, revision = before, "previous version not read for a watch");
                None
            }
        }
    }
}

/// Splits a response by size, at least one event in each part; all but the
/// last are marked.
fn fragments(mut response: WatchResponse, bytes_max: usize) -> Vec<WatchResponse> {
    if response.events.len() < 2 || response.encoded_len() < bytes_max {
        return vec![response];
    }
    let events = std::mem::take(&mut response.events);
    let frame = WatchResponse {
        fragment: true,
        ..response
    };
    let frame_bytes = frame.encoded_len();
    let mut parts = vec![frame.clone()];
    let mut bytes = frame_bytes;
    for event in events {
        // Each event has a tag and a length in addition.
        let length = event.encoded_len();
        let event_bytes = 1 + prost::length_delimiter_len(length) + length;
        let part = parts.last().expect("never empty");
        if !part.events.is_empty() && bytes + event_bytes >= bytes_max {
            parts.push(frame.clone());
            bytes = frame_bytes;
        }
        bytes += event_bytes;
        parts.last_mut().expect("never empty").events.push(event);
    }
    assert!(
        parts.iter().all(|part| !part.events.is_empty()),
        "an empty fragment"
    );
    parts.last_mut().expect("never empty").fragment = false;
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn response(sizes: &[usize]) -> WatchResponse {
        let event = |&size: &usize| Event {
            kv: Some(EncodedKeyValue(Bytes::from(vec![0x0a; size]))),
            ..Event::default()
        };
        WatchResponse {
            events: sizes.iter().map(event).collect(),
            ..WatchResponse::default()
        }
    }

    fn events_per_part(sizes: &[usize], bytes_max: usize) -> Vec<usize> {
        let parts = fragments(response(sizes), bytes_max);
        let (last, others) = parts.split_last().unwrap();
        assert!(!last.fragment && others.iter().all(|part| part.fragment));
        parts.iter().map(|part| part.events.len()).collect()
    }

    #[test]
    fn a_small_response_stays_whole() {
        assert_eq!(events_per_part(&[10, 10], 1000), [2]);
    }

    #[test]
    fn parts_stay_below_the_limit() {
        assert_eq!(events_per_part(&[100; 5], 230), [2, 2, 1]);
        for part in fragments(response(&[100; 50]), 1000) {
            assert!(part.encoded_len() < 1000);
        }
    }

    #[test]
    fn an_event_larger_than_the_limit_has_a_part_of_its_own() {
        assert_eq!(events_per_part(&[10, 5000, 10], 1000), [1, 1, 1]);
        assert_eq!(events_per_part(&[5000], 1000), [1]);
    }
}
