//! A rolling restart under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use etcd_api::etcdserverpb::RangeRequest;
use etcd_api::etcdserverpb::kv_client::KvClient;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::three::{LOOK, LOOKS_MAX, Three, put};

/// Writers that write through any member that answers, until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    writers: JoinSet<Written>,
}

/// The result of one writer.
#[derive(Debug, Default)]
pub struct Written {
    /// Number of the writer.
    pub writer: usize,
    /// Keys `w<writer>/0` up to this were acknowledged.
    pub keys: u64,
    /// Errors after which it repeated a put.
    pub complaints: Vec<Status>,
}

impl Load {
    /// Starts writers, each of which begins at another member.
    pub fn start(three: &Three, writers: usize, members: &[usize]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Load {
            stop: Arc::clone(&stop),
            writers: JoinSet::new(),
        };
        for writer in 0..writers {
            let clients = members.iter().map(|&it| KvClient::new(three.channel(it)));
            let clients = clients.collect();
            load.writers
                .spawn(write(writer, clients, Arc::clone(&stop)));
        }
        load
    }

    /// Stops the writers, waits for their last acknowledgements and returns their results.
    pub async fn stop(self) -> Vec<Written> {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.join_all().await
    }
}

/// Puts one key after the other, each repeatedly until a member has acknowledged it.
async fn write(
    writer: usize,
    mut clients: Vec<KvClient<Channel>>,
    stop: Arc<AtomicBool>,
) -> Written {
    let mut written = Written {
        writer,
        ..Written::default()
    };
    let (mut at, all) = (writer, clients.len());
    while !stop.load(Ordering::Relaxed) {
        let key = format!("w{writer}/{}", written.keys);
        for attempt in 0.. {
            assert!(attempt < LOOKS_MAX, "no member took {key}: {written:?}");
            match clients[at % all].put(put(&key, "1")).await {
                Ok(_) => break,
                Err(status) => {
                    written.complaints.push(status);
                    at += 1;
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        written.keys += 1;
    }
    written
}

/// Number of a writer's keys that one member has.
pub async fn keys_of(three: &Three, number: usize, writer: usize) -> u64 {
    let request = RangeRequest {
        key: format!("w{writer}/").into(),
        range_end: format!("w{writer}0").into(),
        count_only: true,
        ..RangeRequest::default()
    };
    let counted = three.kv(number).range(request).await.unwrap();
    counted.into_inner().count.cast_unsigned()
}

/// Whether the connection ended before the answer: tonic reports `Unknown` for that, other
/// gRPC clients `Unavailable`.
fn is_lost_connection(status: &Status) -> bool {
    status.code() == Code::Unknown && status.message() == "transport error"
}

#[tokio::test]
async fn a_rolling_restart_under_load_loses_no_acknowledged_write() {
    let mut three = Three::start();
    three.put(0, "k", "1").await;
    let load = Load::start(&three, 6, &[0, 1, 2]);
    for number in 0..3 {
        let revision = three.put(number, "k", "before").await;
        three.stop(number).await;
        three.launch(number);
        three.hash(number, revision).await;
    }
    let all = load.stop().await;
    // Clients repeat calls after each of these errors, and no call waited for its timeout.
    // Proposals that were lost with the old leader have an error of their own.
    let complaints: Vec<&Status> = all.iter().flat_map(|it| &it.complaints).collect();
    let strange = complaints.iter().find(|status| {
        let late = status.message() == "etcdserver: request timed out";
        late || (status.code() != Code::Unavailable && !is_lost_connection(status))
    });
    assert!(strange.is_none(), "{strange:?}");
    let revision = three.put(0, "k", "after").await;
    for Written { writer, keys, .. } in &all {
        assert!(*keys > 0);
        for number in 0..3 {
            let found = keys_of(&three, number, *writer).await;
            assert_eq!(found, *keys, "of writer {writer} at {number}");
        }
    }
    let hashes = [
        three.hash(0, revision).await.hash,
        three.hash(1, revision).await.hash,
        three.hash(2, revision).await.hash,
    ];
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}
