//! Compares keys, revision and history with the models after a restart.

use bytes::Bytes;
use etcd_api::{
    EncodedKeyValue,
    etcdserverpb::{
        CompactionRequest, RangeRequest, WatchCreateRequest, WatchRequest, kv_client::KvClient,
        watch_client::WatchClient, watch_request::RequestUnion,
    },
};
use tokio_stream::StreamExt;
use tonic::transport::Channel;

use super::{Totals, model::Model};
use crate::process::Outcome;

/// Limit for answers; gRPC's default is smaller.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;
const HISTORY_SECONDS: u64 = 60;

/// Verifies the store against all models and returns its revision.
/// `before` is the revision that was verified last.
pub(super) async fn everything(
    url: &str,
    models: &mut [Model],
    before: i64,
    totals: &mut Totals,
) -> Outcome<i64> {
    let channel = Channel::from_shared(url.to_owned())?.connect().await?;
    let mut kv = KvClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
    let (_, newest) = range(&mut kv, "crash/".into()).await?;
    let (mut acknowledged, mut survivors) = (0, 0);
    for model in models {
        let (found, _) = range(&mut kv, model.prefix()).await?;
        survivors += i64::from(model.verify(&found, newest)?);
        acknowledged += std::mem::take(&mut model.acknowledged) as i64;
    }
    let expected = before + acknowledged + survivors;
    if newest != expected {
        return Err(format!(
            "revision {newest} after {before} and {acknowledged} acknowledged and \
             {survivors} surviving writes: it should be {expected}"
        )
        .into());
    }
    let history = tokio::time::Duration::from_secs(HISTORY_SECONDS);
    tokio::time::timeout(history, every_revision(channel, before + 1, newest))
        .await
        .map_err(|_| format!("history {}..={newest} did not come", before + 1))??;
    totals.acknowledged += acknowledged as u64;
    totals.survivors += survivors as u64;
    Ok(newest)
}

/// Compacts, so that reclaim has garbage to release.
pub async fn compact(url: &str, revision: i64) -> Outcome {
    let mut kv = KvClient::connect(url.to_owned()).await?;
    let request = CompactionRequest {
        revision,
        physical: true,
    };
    kv.compact(request).await?;
    Ok(())
}

/// All keys below `prefix`, and the revision of the answer.
pub async fn range(
    kv: &mut KvClient<Channel>,
    prefix: String,
) -> Outcome<(Vec<EncodedKeyValue>, i64)> {
    let request = RangeRequest {
        range_end: end_of(&prefix),
        key: prefix.into(),
        ..RangeRequest::default()
    };
    let response = kv.range(request).await?.into_inner();
    let header = response.header.ok_or("an answer without a header")?;
    Ok((response.kvs, header.revision))
}

/// A watch from `first` must show each revision up to `last`, in order.
async fn every_revision(channel: Channel, first: i64, last: i64) -> Outcome {
    if first > last {
        return Ok(());
    }
    let create = WatchCreateRequest {
        key: "crash/".into(),
        range_end: end_of("crash/"),
        start_revision: first,
        ..WatchCreateRequest::default()
    };
    let request = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut client = WatchClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let mut answers = client.watch(requests).await?.into_inner();
    let mut next = first;
    while next <= last {
        let answer = answers.message().await?.ok_or("the watch ended")?;
        if answer.canceled {
            return Err(format!("watch from {first}: {}", answer.cancel_reason).into());
        }
        for event in answer.events {
            let revision = event.kv.ok_or("an event without a key")?.mod_revision();
            if revision != next && revision != next - 1 {
                return Err(format!("history goes from {} to {revision}", next - 1).into());
            }
            next = revision + 1;
        }
    }
    Ok(())
}

/// The end of the range of all keys that begin with an ASCII `prefix`.
pub fn end_of(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    let last = end.last_mut().expect("a prefix is not empty");
    assert!(*last < u8::MAX, "an ASCII byte has a successor");
    *last += 1;
    end.into()
}
