//! A node without peers on a simulated disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::{Node, NodeOptions};
use environment::real::RealClock;
use environment::simulated::SimulatedDisk;
use environment::{Clock, Instant};
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use revisions::Command;

pub fn options(disk: &SimulatedDisk) -> NodeOptions {
    let mut options = NodeOptions::new("/node");
    options.disk = Arc::new(disk.clone());
    options.replica.machine.engine.log.segment_bytes = 64 << 10;
    options.replica.machine.engine.batch_bytes_max = 32 << 10;
    options.replica.machine.engine.log.reserve_bytes = 0;
    options.replica.heartbeat_interval = Duration::from_millis(5);
    options
}

pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Command {
    let (key, value) = (key.into().into(), value.into().into());
    Command::Put(PutRequest {
        key,
        value,
        ..Default::default()
    })
}

pub fn value(node: &Node, key: &str) -> Option<Vec<u8>> {
    let request = RangeRequest {
        key: key.as_bytes().to_vec().into(),
        ..Default::default()
    };
    let response = node.reader().range(&request).unwrap();
    response.kvs.first().map(|entry| entry.value().to_vec())
}

/// A real clock that panics once `broken` is set.
#[derive(Debug, Default)]
pub struct BreakableClock {
    pub broken: AtomicBool,
}

impl Clock for BreakableClock {
    fn now(&self) -> Instant {
        assert!(!self.broken.load(Ordering::Relaxed), "a broken invariant");
        RealClock.now()
    }

    fn unix_time(&self) -> Duration {
        RealClock.unix_time()
    }

    fn sleep(&self, length: Duration) {
        RealClock.sleep(length);
    }
}
