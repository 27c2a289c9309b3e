//! A client that watches and does not read the events.

use crate::served::{Client, Served, Watch};

const EVENTS: i64 = 272;
const VALUE_BYTES: usize = 1 << 20;
const WRITERS: i64 = 4;
/// Smaller than one event, so that not even one is sent.
const WINDOW_BYTES: u32 = 16 << 10;
/// A quarter of the written bytes; 21 MiB were measured.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

fn value(number: i64) -> Vec<u8> {
    vec![number as u8; VALUE_BYTES]
}

async fn write_all(client: &Client) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let client = client.clone();
        writers.spawn(async move {
            for number in (writer..EVENTS).step_by(WRITERS as usize) {
                let key = format!("events/{number:04}");
                client.put(&key, value(number)).await.unwrap();
            }
        });
    }
    writers.join_all().await;
}

/// Reads all events and checks that no revision is missing and none comes
/// twice.
async fn read_all(watch: &mut Watch, first: i64) {
    let mut expected = first;
    while expected < first + EVENTS {
        let response = watch.next().await;
        assert!(!response.canceled, "{}", response.cancel_reason);
        for event in response.events {
            let kv = event.kv.unwrap();
            assert_eq!(kv.mod_revision(), expected, "in order and without a gap");
            let key = std::str::from_utf8(kv.key()).unwrap();
            let number = key.strip_prefix("events/").unwrap().parse().unwrap();
            assert!(kv.value() == value(number), "{key} has another's value");
            expected += 1;
        }
    }
}

#[tokio::test]
async fn an_unread_watch_takes_bounded_memory_and_loses_no_event() {
    let place = tempfile::tempdir().unwrap();
    let served = Served::start(place.path(), &["--quota-backend-bytes=-1"]);
    let client = served.connect().await;
    let first = 1 + client.put("before", value(0)).await.unwrap();
    let silent = served.connect_with_window(WINDOW_BYTES).await;
    let mut unread = silent.watch("events/", "events0", 0).await;
    let mut read = client.watch("events/", "events0", 0).await;
    let before = served.resident_bytes();

    let reading = tokio::spawn(async move { read_all(&mut read, first).await });
    write_all(&client).await;
    reading.await.unwrap();
    let grown = served.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "grown by {grown} bytes");
    assert_eq!(client.get("events/0007").await.unwrap(), value(7));

    read_all(&mut unread, first).await;
}

#[tokio::test]
async fn an_unread_watch_of_compacted_history_is_canceled_with_the_revision() {
    let place = tempfile::tempdir().unwrap();
    let served = Served::start(place.path(), &[]);
    let client = served.connect().await;
    let silent = served.connect_with_window(WINDOW_BYTES).await;
    let mut unread = silent.watch("events/", "events0", 0).await;
    let mut newest = 0;
    for number in 0..24 {
        newest = client.put("events/0", value(number)).await.unwrap();
    }
    client.compact(newest).await;
    let mut expected = 2;
    loop {
        let response = unread.next().await;
        if response.canceled {
            assert_eq!(response.compact_revision, newest, "{response:?}");
            assert!(expected < newest, "something was compacted unread");
            return;
        }
        for event in response.events {
            assert_eq!(event.kv.unwrap().mod_revision(), expected);
            expected += 1;
        }
    }
}
