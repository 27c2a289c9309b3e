//! Members on small file systems of their own.

use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::etcdserverpb::{CompactionRequest, DefragmentRequest, DeleteRangeRequest};

use crate::small_disk::SmallDisk;
use crate::three::{LOOK, NAMES, Three, put};

async fn delete_all(three: &Three, key: &str, end: &str) -> i64 {
    let request = DeleteRangeRequest {
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        ..DeleteRangeRequest::default()
    };
    let deleted = three.kv(0).delete_range(request).await.unwrap();
    deleted.into_inner().header.unwrap().revision
}

async fn compact_and_defragment(three: &Three, revision: i64) {
    let compact = CompactionRequest {
        revision,
        physical: true,
    };
    three.kv(0).compact(compact).await.unwrap();
    let mut maintenance = MaintenanceClient::new(three.channel(0));
    maintenance.defragment(DefragmentRequest {}).await.unwrap();
}

/// A node with default flags on 365 MB: half of the data that fits is deleted, and its space
/// becomes free.
#[tokio::test]
async fn delete_compact_and_defragment_free_space_on_a_small_disk() {
    let mut three = Three::prepare_all(&NAMES[..1], &["--segment-bytes=67108864"]);
    let Some(disk) = SmallDisk::mount(&three.directory(0), 365) else {
        return;
    };
    three.enter(0, &disk.entrance());
    three.launch(0);
    three.put(0, "first", "1").await;
    let value = "v".repeat(1 << 20);
    let mut kv = three.kv(0);
    let mut puts = 0;
    while kv.put(put(&format!("k{puts:03}"), &value)).await.is_ok() {
        puts += 1;
    }
    assert!(puts > 160, "{puts} MiB on a disk of 365");
    disk.wait_for_segments();
    let before = disk.free_bytes();
    let revision = delete_all(&three, &format!("k{:03}", 100), "l").await;
    compact_and_defragment(&three, revision).await;
    // Freed segments may be reserved for the log by now; a checkpoint takes some pages.
    let after = disk.free_bytes();
    assert!(after + (1 << 20) >= before, "{before} bytes became {after}");
    for number in 0..20 {
        three.put(0, &format!("new{number}"), &value).await;
    }
    // Another program takes the rest.
    let ballast = disk.fill();
    let revision = delete_all(&three, "k000", "l").await;
    compact_and_defragment(&three, revision).await;
    let free = disk.free_bytes();
    assert!(free >= 64 << 20, "{free} bytes are free");
    drop(ballast);
    for number in 0..20 {
        three.put(0, &format!("newer{number}"), &value).await;
        tokio::time::sleep(LOOK).await;
    }
    assert!(three.is_running(0));
}
