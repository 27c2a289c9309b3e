//! Reads a server's keys, history and hash after a restart.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use etcd_api::{
    EncodedKeyValue,
    etcdserverpb::{
        HashKvRequest, RangeRequest, WatchCreateRequest, WatchRequest, WatchResponse,
        kv_client::KvClient, maintenance_client::MaintenanceClient, watch_client::WatchClient,
        watch_request::RequestUnion,
    },
    mvccpb::{Event, event::EventType},
};
use tokio_stream::StreamExt;
use tonic::{Code, Streaming, transport::Channel};

use super::load::PREFIX;
use crate::{
    crash::verify::{ANSWER_BYTES_MAX, end_of, range},
    process::Outcome,
};

/// A watch without a message for this long counts as complete.
const SILENCE: Duration = Duration::from_secs(20);

/// Changes of one revision: the new value of each key, `None` for a deletion.
pub type Changes = BTreeMap<Bytes, Option<Bytes>>;

/// The state that a server returns.
#[derive(Debug, Default)]
pub struct Found {
    /// The newest revision, by the header of an answer.
    pub revision: i64,
    pub keys: Vec<EncodedKeyValue>,
    pub history: BTreeMap<i64, Changes>,
}

/// HashKV's answer; equal before and after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    pub hash: u32,
    pub compacted: i64,
    pub revision: i64,
}

/// Reads the keys, and the history that is newer than `floor`.
pub async fn read(url: &str, floor: i64) -> Outcome<Found> {
    let channel = Channel::from_shared(url.to_owned())?.connect().await?;
    let mut kv = KvClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
    let (keys, revision) = range(&mut kv, PREFIX.to_owned()).await?;
    let history = match revision > floor {
        true => history(channel, floor + 1, revision).await?,
        false => BTreeMap::new(),
    };
    Ok(Found {
        revision,
        keys,
        history,
    })
}

/// Sums the whole store.
pub async fn sum(url: &str) -> Outcome<Sum> {
    let mut maintenance = MaintenanceClient::connect(url.to_owned()).await?;
    let request = HashKvRequest { revision: 0 };
    let answer = maintenance.hash_kv(request).await?.into_inner();
    Ok(Sum {
        hash: answer.hash,
        compacted: answer.compact_revision,
        revision: answer.hash_revision,
    })
}

/// Whether a read at `revision` is refused because of a compaction; never one
/// at 0, which is now.
pub async fn is_compacted(url: &str, revision: i64) -> Outcome<bool> {
    let mut kv = KvClient::connect(url.to_owned()).await?;
    let request = RangeRequest {
        key: PREFIX.into(),
        revision,
        ..RangeRequest::default()
    };
    match kv.range(request).await {
        Ok(_) => Ok(false),
        Err(status) if status.code() == Code::OutOfRange => Ok(true),
        Err(status) => Err(status.into()),
    }
}

/// Watches from `first` until `last` has come, or until no event comes any more.
/// The caller checks for missing revisions.
async fn history(channel: Channel, first: i64, last: i64) -> Outcome<BTreeMap<i64, Changes>> {
    let mut answers = watch(channel, first).await?;
    let mut history = BTreeMap::new();
    while history.last_key_value().is_none_or(|(at, _)| *at < last) {
        let Ok(answer) = tokio::time::timeout(SILENCE, answers.message()).await else {
            break;
        };
        let answer = answer?.ok_or("the watch ended")?;
        if answer.canceled {
            return Err(format!(
                "watch from {first}: {} (compacted: {})",
                answer.cancel_reason, answer.compact_revision
            )
            .into());
        }
        for event in answer.events {
            note(&mut history, event)?;
        }
    }
    Ok(history)
}

async fn watch(channel: Channel, first: i64) -> Outcome<Streaming<WatchResponse>> {
    let create = WatchCreateRequest {
        key: PREFIX.into(),
        range_end: end_of(PREFIX),
        start_revision: first,
        ..WatchCreateRequest::default()
    };
    let request = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    // The requests stay open: the server ends a watch when its client closes them.
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut client = WatchClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    Ok(client.watch(requests).await?.into_inner())
}

fn note(history: &mut BTreeMap<i64, Changes>, event: Event) -> Outcome {
    let is_put = event.r#type() == EventType::Put;
    let kv = event.kv.ok_or("an event without a key")?.decode()?;
    let newest = history.last_key_value().map_or(0, |(at, _)| *at);
    if kv.mod_revision < newest {
        return Err(format!("the watch goes back from {newest} to {}", kv.mod_revision).into());
    }
    let changes = history.entry(kv.mod_revision).or_default();
    let value = is_put.then_some(kv.value);
    match changes.insert(kv.key.clone(), value) {
        None => Ok(()),
        Some(_) => Err(format!("{:?} came twice at {}", kv.key, kv.mod_revision).into()),
    }
}
