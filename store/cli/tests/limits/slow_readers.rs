//! Very many clients that request large answers and read them slowly, or not at all.

use std::time::Duration;

use etcd_api::etcdserverpb::RangeRequest;
use h2::RecvStream;
use tokio::task::JoinSet;

use crate::raw::Raw;
use crate::served::Served;

const READERS: usize = 200;
/// Ten values of 1 MiB are one answer.
const VALUES: usize = 10;
const VALUE_BYTES: usize = 1 << 20;
/// Memory that the process may allocate.
const MEMORY_BYTES: u64 = 768 << 20;
/// Memory that it may have in RAM: a quarter of `MEMORY_BYTES` for answers that are made or
/// sent (decision 0019), and 96 MiB for the rest: the program, the index, the end of the log,
/// and free memory that the allocator keeps. 219 MiB in all were measured, with two cores.
const RESIDENT_BYTES_MAX: u64 = MEMORY_BYTES / 4 + (96 << 20);
/// Bytes that a reader reads per second: too few for the answer to keep its memory.
const TAKEN_BYTES: usize = 1;
const LOOKS: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Requests all values, and reads the answer slowly.
async fn read_slowly(address: String) {
    let mut connection = Raw::connect(&address, &h2::client::Builder::new()).await;
    // The server may drop the answer, but does not have to.
    if let Ok(answer) = connection.call("KV/Range", &all()).await.await {
        trickle(answer.into_body()).await;
    }
}

/// Reads a byte per second.
async fn trickle(mut body: RecvStream) {
    while let Some(Ok(_)) = body.data().await {
        let _ = body.flow_control().release_capacity(TAKEN_BYTES);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn all() -> RangeRequest {
    RangeRequest {
        key: "large/".into(),
        range_end: "large0".into(),
        ..RangeRequest::default()
    }
}

#[tokio::test]
async fn two_hundred_slow_readers_take_bounded_memory_and_delay_no_others() {
    let place = tempfile::tempdir().unwrap();
    let served = Served::start_within(MEMORY_BYTES, place.path());
    let client = served.connect().await;
    for number in 0..VALUES {
        let value = vec![number as u8; VALUE_BYTES];
        client.put(&format!("large/{number}"), value).await.unwrap();
    }
    let mut readers = JoinSet::new();
    (0..READERS).for_each(|_| drop(readers.spawn(read_slowly(served.address().to_owned()))));
    let other = served.connect().await;
    for look in 0..LOOKS {
        let value = vec![look as u8];
        other.put("small", value.clone()).await.unwrap();
        assert_eq!(other.get("small").await.unwrap(), value);
        let resident_bytes = served.resident_bytes();
        assert!(
            resident_bytes < RESIDENT_BYTES_MAX,
            "{resident_bytes} bytes are more than {RESIDENT_BYTES_MAX}"
        );
        tokio::time::sleep(LOOK_EVERY).await;
    }
    readers.shutdown().await;
    let found = other.kv().range(all()).await.unwrap().into_inner();
    assert_eq!(found.kvs.len(), VALUES);
}
