//! Three members that run out of descriptors, or of space on their disks, under load: once
//! the shortage ends they serve again by themselves, and no acknowledged write is lost.

use std::net::TcpStream;
use std::time::Duration;

use crate::rolling::{Load, Written};
use crate::small_disk::SmallDisk;
use crate::three::{LOOK, LOOKS_MAX, NAMES, Three, put};

const MIB: usize = 1 << 20;

/// Puts of one writer to one member, repeated until each is acknowledged.
async fn put_values(three: &Three, at: usize, name: &str, count: usize, bytes: usize) {
    let value = "v".repeat(bytes);
    let mut kv = three.kv(at).max_encoding_message_size(8 * MIB);
    for number in 0..count {
        let key = format!("{name}{number}");
        let mut attempts = 0;
        while let Err(status) = kv.put(put(&key, &value)).await {
            attempts += 1;
            assert!(attempts < LOOKS_MAX, "{key} is not taken: {status}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

async fn check_equal(three: &Three) {
    let revision = three.put(0, "last", "1").await;
    let mut hashes = Vec::new();
    for number in 0..3 {
        hashes.push(three.hash(number, revision).await.hash);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

async fn check_written(three: &Three, written: &[Written]) {
    for writer in written {
        assert!(writer.keys > 0, "{writer:?}");
        for number in [0, writer.keys / 2, writer.keys - 1] {
            let key = format!("w{}/{number}", writer.writer);
            let found = three.get(1, &key).await;
            assert_eq!(found.as_deref(), Some("1"), "{key} was acknowledged");
        }
    }
}

#[tokio::test]
async fn members_with_72_descriptors_serve_beside_200_idle_connections() {
    let three = Three::start_with_files(72);
    three.put(0, "first", "1").await;
    let leader = three.leader(0).await;
    let followers: Vec<usize> = (0..3).filter(|&it| it != leader).collect();
    let connect = |number: usize| {
        let address = three.client_address(followers[number % 2]);
        TcpStream::connect(address).unwrap()
    };
    let idle: Vec<TcpStream> = (0..200).map(connect).collect();
    put_values(&three, leader, "large", 140, MIB).await;
    for number in 0..3 {
        three.put(number, "between", "1").await;
    }
    drop(idle);
    for number in 0..3 {
        three.put(number, "after", "1").await;
        let status = three.status(number).await.unwrap();
        assert!(status.errors.is_empty(), "{status:?}");
    }
    for number in [0, 70, 139] {
        let found = three.get(followers[0], &format!("large{number}")).await;
        assert_eq!(found.map(|it| it.len()), Some(MIB));
    }
    check_equal(&three).await;
}

#[test]
fn a_start_with_too_few_descriptors_is_refused_with_the_figure_and_the_remedy() {
    let mut three = Three::prepare_all(&NAMES, &[]);
    three.limit_files(25);
    let (code, message) = three.refusal(0);
    assert_eq!(code, Some(1), "{message}");
    for part in ["may open 25 files", "ulimit -n", "LimitNOFILE"] {
        assert!(message.contains(part), "{message}");
    }
}

/// Waits until the member reports that its disk is full.
async fn comes_to_be_full(three: &Three, number: usize) {
    for _ in 0..LOOKS_MAX {
        let status = three.status(number).await.unwrap();
        if status.errors.iter().any(|it| it.contains("is full")) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("member {number} does not say that its disk is full");
}

#[tokio::test]
async fn full_disks_under_load_end_no_member_and_service_resumes_with_space() {
    let mut three = Three::prepare_all(&NAMES, &["--segment-bytes=1048576"]);
    let disks = NAMES.iter().enumerate();
    let disks = disks.map(|(number, _)| SmallDisk::mount(&three.directory(number), 400));
    let Some(disks) = disks.collect::<Option<Vec<SmallDisk>>>() else {
        return;
    };
    for (number, disk) in disks.iter().enumerate() {
        three.enter(number, &disk.entrance());
        three.launch(number);
    }
    three.put(0, "first", "1").await;
    let leader = three.leader(0).await;
    let follower = (leader + 1) % 3;
    let load = Load::start(&three, 3, &[0, 1, 2]);
    // One disk of three: the others serve.
    let ballast = disks[follower].fill();
    put_values(&three, leader, "one", 40, 100_000).await;
    comes_to_be_full(&three, follower).await;
    put_values(&three, (leader + 2) % 3, "two", 10, 100_000).await;
    drop(ballast);
    // The leader's disk: another leads, or it serves again afterwards.
    let ballast = disks[leader].fill();
    put_values(&three, follower, "three", 40, 100_000).await;
    drop(ballast);
    // All disks: no member serves, and all serve again.
    let ballasts: Vec<_> = disks.iter().map(SmallDisk::fill).collect();
    let refused = async {
        let value = "v".repeat(100_000);
        for number in 0.. {
            let put = put(&format!("four{number}"), &value);
            if three.kv(0).put(put).await.is_err() {
                return;
            }
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(60), refused).await;
    refused.expect("full disks take no put");
    drop(ballasts);
    put_values(&three, 0, "five", 10, 100_000).await;
    let written = load.stop().await;
    check_written(&three, &written).await;
    check_equal(&three).await;
    for number in 0..3 {
        let status = three.status(number).await.unwrap();
        assert!(status.errors.is_empty(), "{number}: {status:?}");
        assert!(three.is_running(number));
    }
}
