//! Reassembles the chunks of a range stream: a server may cut them anywhere.

use etcd_api::etcdserverpb::RangeRequest;
use etcd_api::etcdserverpb::kv_client::KvClient;
use tonic::transport::Channel;

use super::stream::text_of;
use crate::requests::refusal;

/// Keys, count, `more` and revision of the whole range as text, or the refusal.
pub async fn gather(kv: &mut KvClient<Channel>, range: RangeRequest) -> String {
    match try_gather(kv, range).await {
        Ok(text) => text,
        Err(status) => refusal(&status),
    }
}

async fn try_gather(
    kv: &mut KvClient<Channel>,
    range: RangeRequest,
) -> Result<String, tonic::Status> {
    let mut chunks = kv.range_stream(range).await?.into_inner();
    let (mut kvs, mut count, mut more, mut revision) = (Vec::new(), 0, false, 0);
    let mut headers = 0;
    while let Some(chunk) = chunks.message().await? {
        let Some(mut part) = chunk.range_response else {
            continue;
        };
        kvs.append(&mut part.kvs);
        count += part.count;
        more |= part.more;
        if let Some(header) = part.header {
            headers += 1;
            revision = header.revision;
        }
    }
    let kvs: Vec<String> = kvs.iter().map(text_of).collect();
    Ok(format!(
        "revision {revision} in {headers} headers, count {count}, more {more}: {kvs:#?}"
    ))
}
