//! A disk that fills up under the server, and a server killed on it.

use std::collections::BTreeMap;

use etcd_api::etcdserverpb::DeleteRangeRequest;
use harness::Program;
use tonic::Code;

use crate::served::{Client, PROGRAM, Served};
use crate::small_disk::SmallDisk;

/// Room for the log's reserve of 64 MiB and some segments.
const DISK_MEBIBYTES: u32 = 144;
const VALUE_BYTES: usize = 64 << 10;
const WRITERS: u8 = 8;

/// The program, run where the disk is mounted.
fn program(disk: &SmallDisk) -> Program {
    let mut program = Program::new(PROGRAM).with(&["--segment-bytes=4194304"]);
    program.prefix = disk.entrance();
    program
}

fn value(writer: u8, number: u32) -> Vec<u8> {
    vec![writer ^ number as u8; VALUE_BYTES]
}

/// Acknowledged puts: by key, the writer and number that make up the value.
type Acknowledged = BTreeMap<String, (u8, u32)>;

/// Runs writers concurrently, each until it is refused; no two write the same key.
async fn write_until_refused(client: &Client, round: u8) -> (Acknowledged, Vec<tonic::Status>) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let client = client.clone();
        writers.spawn(async move {
            let mut acknowledged = Acknowledged::new();
            for number in 0.. {
                let key = format!("{round}/{writer}/{number:05}");
                match client.put(&key, value(writer, number)).await {
                    Ok(_) => acknowledged.insert(key, (writer, number)),
                    Err(refusal) => return (acknowledged, refusal),
                };
            }
            unreachable!("numbers do not end")
        });
    }
    let (mut all, mut refusals) = (Acknowledged::new(), Vec::new());
    for (acknowledged, refusal) in writers.join_all().await {
        all.extend(acknowledged);
        refusals.push(refusal);
    }
    (all, refusals)
}

async fn expect_all(client: &Client, acknowledged: &Acknowledged) {
    for (key, &(writer, number)) in acknowledged {
        let found = client.get(key).await;
        assert!(
            found.is_some_and(|found| found == value(writer, number)),
            "{key} was acknowledged"
        );
    }
}

/// A full disk must raise no alarm, because an alarm would outlast the shortage.
async fn expect_no_alarm(client: &Client) {
    let alarms = client.alarms().await;
    assert!(alarms.is_empty(), "{alarms:?}");
}

async fn delete(client: &Client, from: &str, to: &str) -> i64 {
    let request = DeleteRangeRequest {
        key: from.to_owned().into(),
        range_end: to.to_owned().into(),
        ..DeleteRangeRequest::default()
    };
    let response = client.kv().delete_range(request).await.unwrap();
    response.into_inner().header.unwrap().revision
}

#[tokio::test]
async fn a_full_disk_refuses_writes_keeps_acknowledged_ones_and_recovers_with_room() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(place.path(), DISK_MEBIBYTES) else {
        return;
    };
    let start = || Served::launch(program(&disk), place.path());
    let mut served = start();
    let client = served.connect().await;
    let (mut acknowledged, refusals) = write_until_refused(&client, 0).await;
    assert!(acknowledged.len() > 100, "{} fitted", acknowledged.len());
    for refusal in refusals {
        assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal}");
        assert_eq!(
            refusal.message(),
            "etcdserver: mvcc: database space exceeded"
        );
    }
    expect_no_alarm(&client).await;
    expect_all(&client, &acknowledged).await;

    // Deletions succeed on a full disk; the server is killed during further ones and puts.
    delete(&client, "0/0/", "0/00").await;
    acknowledged.retain(|key, _| !key.starts_with("0/0/"));
    let writes = tokio::spawn({
        let client = client.clone();
        async move { write_until_refused(&client, 1).await.0 }
    });
    delete(&client, "0/1/", "0/10").await;
    acknowledged.retain(|key, _| !key.starts_with("0/1/"));
    served.kill();
    acknowledged.extend(writes.await.unwrap());

    let served = start();
    let client = served.connect().await;
    expect_all(&client, &acknowledged).await;
    assert_eq!(client.get("0/0/00000").await, None);
    assert_eq!(client.get("0/1/00000").await, None);

    // Compaction makes room, and writes succeed again.
    let revision = delete(&client, "0/", "2").await;
    client.compact(revision).await;
    let (again, _) = write_until_refused(&client, 2).await;
    assert!(again.len() > 100, "only {} fitted again", again.len());
    expect_all(&client, &again).await;
    expect_no_alarm(&client).await;
}
