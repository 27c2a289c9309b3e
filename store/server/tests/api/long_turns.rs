//! No call occupies its core for long, however much it reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use etcd_api::etcdserverpb::PutRequest;
use etcd_api::etcdserverpb::kv_client::KvClient;
use tonic::transport::Channel;

use crate::http;
use crate::serving::{Serving, bytes, get, get_prefix, put, serving};

const VALUES: usize = 400;
const VALUE_BYTES: usize = 1 << 20;
/// The system may preempt the thread in a short turn, which then looks long. A turn that is
/// long by itself is long in every attempt.
const ATTEMPTS_MAX: usize = 40;

async fn long_turns(serving: &Serving) -> u64 {
    let page = http::get(serving, "/metrics").await.body;
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("inkstone_long_turns_total "));
    line.unwrap().parse().unwrap()
}

/// Gets by another client until the flag is set; counts them.
async fn get_on(mut kv: KvClient<Channel>, over: Arc<AtomicBool>, gets: Arc<AtomicU64>) {
    while !over.load(Ordering::Relaxed) {
        let found = kv.range(get("small")).await.unwrap().into_inner();
        assert_eq!(found.count, 1);
        gets.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_range_of_400_mebibytes_occupies_no_core_and_delays_no_gets() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await.max_decoding_message_size(usize::MAX);
    kv.put(put("small", "1")).await.unwrap();
    let value = ::bytes::Bytes::from(vec![7; VALUE_BYTES]);
    for number in 0..VALUES {
        let request = PutRequest {
            key: bytes(&format!("large{number:03}")),
            value: value.clone(),
            ..PutRequest::default()
        };
        kv.put(request).await.unwrap();
    }
    let (over, gets) = (Arc::default(), Arc::<AtomicU64>::default());
    let others = tokio::spawn(get_on(
        serving.kv().await,
        Arc::clone(&over),
        Arc::clone(&gets),
    ));
    let mut turns = Vec::new();
    while turns.last() != Some(&0) && turns.len() < ATTEMPTS_MAX {
        let (turns_before, gets_before) =
            (long_turns(&serving).await, gets.load(Ordering::Relaxed));
        let found = kv.range(get_prefix('l')).await.unwrap().into_inner();
        assert_eq!(found.kvs.len(), VALUES);
        let gets = gets.load(Ordering::Relaxed) - gets_before;
        assert!(gets > 10, "{gets} gets during the range");
        turns.push(long_turns(&serving).await - turns_before);
    }
    over.store(true, Ordering::Relaxed);
    others.await.unwrap();
    assert_eq!(turns.last(), Some(&0), "long turns each time: {turns:?}");
}
