//! The call Snapshot. `store/cli/tests/moves.rs` compares what the file has in it.

use std::io::Read;

use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{CompactionRequest, SnapshotRequest, SnapshotResponse};
use etcd_api::inkstonepb::CompressedSnapshotRequest;
use etcd_api::inkstonepb::snapshots_client::SnapshotsClient;
use sha2::{Digest, Sha256};
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use crate::serving::{Serving, put, serving};

async fn begin(serving: &Serving) -> (Channel, Streaming<SnapshotResponse>) {
    let channel = serving.channel().await;
    let mut maintenance = MaintenanceClient::new(channel.clone());
    let messages = maintenance.snapshot(SnapshotRequest {}).await.unwrap();
    (channel, messages.into_inner())
}

/// All messages of a stream.
async fn rest(mut messages: Streaming<SnapshotResponse>) -> Vec<SnapshotResponse> {
    let mut all = Vec::new();
    while let Some(message) = messages.message().await.unwrap() {
        all.push(message);
    }
    all
}

/// The file of these messages.
#[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
fn file_of(messages: &[SnapshotResponse]) -> (tempfile::TempDir, bolt::DatabaseFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.db");
    let blobs = messages.iter().map(|message| &message.blob[..]);
    std::fs::write(&path, blobs.collect::<Vec<_>>().concat()).unwrap();
    let file = etcd_snapshot::open(&path, false, |_, _| ()).unwrap();
    (folder, file)
}

/// Puts about 40 MB: more than the connection and the server hold.
async fn fill(serving: &Serving) {
    let mut kv = serving.kv().await;
    let value = "v".repeat(1 << 20);
    for number in 0..40 {
        kv.put(put(&format!("key/{number}"), &value)).await.unwrap();
    }
}

#[tokio::test]
async fn messages_say_what_remains_and_the_last_is_the_checksum() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    let value = "value".repeat(100);
    for number in 0..2_000 {
        kv.put(put(&format!("key/{number}"), &value)).await.unwrap();
    }
    let (_channel, messages) = begin(&serving).await;
    let messages = rest(messages).await;
    let (sum, pages) = messages.split_last().unwrap();
    assert!(pages.len() > 2, "{} messages", pages.len());
    let total: usize = pages.iter().map(|message| message.blob.len()).sum();
    let (mut remaining, mut digest) = (total, Sha256::new());
    for message in pages {
        remaining -= message.blob.len();
        assert_eq!(message.remaining_bytes, remaining as u64);
        assert_eq!(message.version, "3.7.0");
        assert!(message.blob.len() <= 256 << 10);
        digest.update(&message.blob);
    }
    assert_eq!((remaining, sum.remaining_bytes), (0, 0));
    assert_eq!(sum.blob[..], digest.finalize()[..]);
    let (_folder, file) = file_of(&messages);
    let status = etcd_snapshot::status(&file, |_| ()).unwrap();
    assert_eq!((status.revision, status.keys), (2_001, 2_000));
}

#[tokio::test]
async fn compressed_blocks_have_the_same_file_in_less_bytes() {
    let serving = serving(&[]);
    fill(&serving).await;
    let (channel, messages) = begin(&serving).await;
    let whole: Vec<u8> = rest(messages)
        .await
        .iter()
        .flat_map(|it| it.blob.to_vec())
        .collect();
    let mut snapshots = SnapshotsClient::new(channel);
    let blocks = snapshots.compressed(CompressedSnapshotRequest {}).await;
    let mut blocks = blocks.unwrap().into_inner();
    let (mut inflated, mut sent) = (Vec::new(), 0);
    while let Some(block) = blocks.message().await.unwrap() {
        let before = inflated.len();
        let mut decoder = flate2::read::DeflateDecoder::new(&block.deflated[..]);
        decoder.read_to_end(&mut inflated).unwrap();
        assert_eq!(inflated.len() - before, block.bytes as usize);
        let behind = whole.len() - inflated.len();
        assert_eq!(block.remaining_bytes, behind.saturating_sub(32) as u64);
        sent += block.deflated.len();
    }
    assert!(inflated == whole, "another file");
    assert!(sent * 10 < whole.len(), "{sent} of {}", whole.len());
}

#[tokio::test]
async fn a_snapshot_is_of_one_revision_although_writes_and_compactions_go_on() {
    let serving = serving(&[]);
    fill(&serving).await;
    let mut kv = serving.kv().await;
    let (_channel, mut messages) = begin(&serving).await;
    let first = messages.message().await.unwrap().unwrap();
    for number in 0..40 {
        kv.put(put(&format!("key/{number}"), "later"))
            .await
            .unwrap();
    }
    // A physical one would wait for the end of the snapshot.
    let compaction = CompactionRequest {
        revision: 81,
        physical: false,
    };
    kv.compact(compaction).await.unwrap();
    let mut all = vec![first];
    all.extend(rest(messages).await);
    let (_folder, file) = file_of(&all);
    let status = etcd_snapshot::status(&file, |_| ()).unwrap();
    assert_eq!((status.revision, status.keys), (41, 40));
    assert!(
        etcd_snapshot::hash(&file, 5, |_| ()).is_ok(),
        "not compacted"
    );
}

#[tokio::test]
async fn a_fifth_snapshot_is_refused_until_another_ends() {
    let serving = serving(&[]);
    fill(&serving).await;
    let mut open = Vec::new();
    for _ in 0..4 {
        let (channel, mut messages) = begin(&serving).await;
        messages.message().await.unwrap().unwrap();
        open.push((channel, messages));
    }
    let (_channel, mut fifth) = begin(&serving).await;
    let refused = fifth.message().await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("4 snapshots"), "{refused}");
    // A client that leaves makes room.
    drop(open.pop());
    loop {
        let (_channel, mut again) = begin(&serving).await;
        if again.message().await.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn the_end_of_the_server_ends_the_stream_with_an_error() {
    let mut serving = serving(&[]);
    fill(&serving).await;
    let (_channel, mut messages) = begin(&serving).await;
    messages.message().await.unwrap().unwrap();
    serving.stop();
    let outcome = loop {
        match messages.message().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(outcome.is_err(), "not a complete file");
}
