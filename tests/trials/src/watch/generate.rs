//! Random writes and watches over few keys, so that they affect each other.

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::watch_create_request::FilterType;
use etcd_api::etcdserverpb::{RangeRequest, TxnRequest, WatchCreateRequest};

use crate::requests;

const KEYS: u64 = 8;
/// Size of large values: three fit into one request, but with their previous values not into
/// one answer of 1.5 MiB.
const LARGE_BYTES: usize = 400_000;

/// Number of watch ids that a request may choose; an id may be in use already.
const IDS: u64 = 6;

pub fn key(random: &mut Random) -> Bytes {
    format!("w/{}", random.below(KEYS)).into()
}

fn value(random: &mut Random, large: bool) -> Bytes {
    let length = match random.below(5) {
        _ if large => LARGE_BYTES,
        0 => 3_000,
        _ => random.below(30) as usize,
    };
    vec![b'a' + random.below(5) as u8; length].into()
}

/// A key, an interval (perhaps empty or reversed), all keys from one on, or all keys.
fn interval(random: &mut Random) -> (Bytes, Bytes) {
    match random.below(12) {
        0..5 => (key(random), Bytes::new()),
        5..8 => (key(random), key(random)),
        8 => (key(random), Bytes::from_static(b"\0")),
        9 => (Bytes::from_static(b"w/"), Bytes::from_static(b"w0")),
        10 => (Bytes::new(), Bytes::from_static(b"\0")),
        _ => (Bytes::from_static(b"w/3"), Bytes::from_static(b"w/6")),
    }
}

/// A transaction, a single write among them.
pub fn write(random: &mut Random) -> TxnRequest {
    let first = random.below(KEYS);
    let large = random.chance(1, 20);
    let count = match random.below(4) {
        0 => 1 + random.below(4),
        _ if large => 3,
        _ => 1,
    };
    // Different keys: a transaction may put each key only once.
    let success = (first..first + count).map(|number| {
        let key = format!("w/{}", number % KEYS);
        match random.below(4) {
            0 => Request::RequestDeleteRange(requests::delete(key)),
            _ => Request::RequestPut(requests::put(key, value(random, large))),
        }
    });
    transaction(success.collect())
}

/// A put or the deletion of a key.
pub fn touch(key: &Bytes, delete: bool) -> TxnRequest {
    transaction(vec![match delete {
        true => Request::RequestDeleteRange(requests::delete(key.clone())),
        false => Request::RequestPut(requests::put(key.clone(), Bytes::new())),
    }])
}

fn transaction(success: Vec<Request>) -> TxnRequest {
    TxnRequest {
        success: success.into_iter().map(requests::operation).collect(),
        ..TxnRequest::default()
    }
}

/// A watch; revisions are around `newest` and `compacted`.
pub fn watch(random: &mut Random, newest: i64, compacted: i64) -> WatchCreateRequest {
    let (key, range_end) = interval(random);
    let start_revision = match random.below(6) {
        0 | 1 => 0,
        2 => newest + 1 + random.below(8) as i64,
        3 => (compacted - 2 + random.below(5) as i64).max(0),
        _ => newest - random.below(newest.min(200) as u64) as i64,
    };
    let filters: &[FilterType] = match random.below(8) {
        0 => &[FilterType::Noput],
        1 => &[FilterType::Nodelete],
        2 => &[FilterType::Noput, FilterType::Nodelete],
        _ => &[],
    };
    WatchCreateRequest {
        key,
        range_end,
        start_revision,
        progress_notify: random.chance(1, 4),
        filters: filters.iter().map(|filter| *filter as i32).collect(),
        prev_kv: random.chance(1, 2),
        watch_id: match random.chance(1, 4) {
            true => 1 + random.below(IDS) as i64,
            false => 0,
        },
        fragment: random.chance(1, 2),
    }
}

/// A range, of which most can be streamed.
pub fn range(random: &mut Random, newest: i64, compacted: i64) -> RangeRequest {
    let (key, range_end) = interval(random);
    let revision = match random.below(3) {
        0 => (compacted - 2).max(0) + random.below((newest - compacted + 4) as u64) as i64,
        _ => 0,
    };
    let mut range = RangeRequest {
        key,
        range_end,
        revision,
        limit: match random.below(3) {
            0 => random.below(6) as i64,
            _ => 0,
        },
        keys_only: random.chance(1, 6),
        count_only: random.chance(1, 8),
        serializable: random.chance(1, 2),
        ..RangeRequest::default()
    };
    match random.below(10) {
        0 => range.sort_order = random.below(4) as i32,
        1 => range.sort_target = random.below(6) as i32,
        2 => range.min_mod_revision = newest - 3,
        3 => range.max_create_revision = newest - 3,
        _ => {}
    }
    range
}
