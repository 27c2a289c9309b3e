//! The events that a node reports to its observer.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::{Node, NodeOptions, Observer};
use environment::simulated::SimulatedDisk;
use etcd_api::etcdserverpb::{CompactionRequest, PutRequest};
use revisions::Command;

/// Sends the name of each evaluated command, and whether it was carried out; `swept` and
/// true for a sweep.
#[derive(Debug)]
struct Events(Mutex<Sender<(&'static str, bool)>>);

impl Observer for Events {
    fn evaluated(&self, command: &Command, done: bool, _took: Duration) {
        let name = match command {
            Command::Put(_) => "put",
            Command::Compact(_) => "compact",
            _ => "other",
        };
        let _ = self.0.lock().unwrap().send((name, done));
    }

    fn swept(&self, _took: Duration) {
        let _ = self.0.lock().unwrap().send(("swept", true));
    }
}

#[test]
fn every_command_and_every_sweep_is_reported() {
    let (sender, events) = channel();
    let mut options = NodeOptions::new("/node");
    options.disk = Arc::new(SimulatedDisk::new(1));
    options.replica.machine.engine.log.segment_bytes = 64 << 10;
    options.replica.machine.engine.batch_bytes_max = 32 << 10;
    options.replica.machine.engine.log.reserve_bytes = 0;
    options.replica.heartbeat_interval = Duration::from_millis(5);
    options.observer = Some(Arc::new(Events(Mutex::new(sender))));
    let node = Node::start(options).unwrap();
    let put = |lease| {
        Command::Put(PutRequest {
            key: "k".into(),
            lease,
            ..Default::default()
        })
    };
    for command in [put(0), put(0), put(7)] {
        let _ = node.propose(command).unwrap().wait();
    }
    let compact = CompactionRequest {
        revision: 3,
        physical: true,
    };
    let compact = Command::Compact(compact);
    node.propose(compact).unwrap().wait().unwrap();
    let expected = [
        ("put", true),
        ("put", true),
        ("put", false),
        ("compact", true),
        ("swept", true),
    ];
    for one in expected {
        assert_eq!(events.recv().unwrap(), one);
    }
    node.stop();
    assert!(events.try_recv().is_err(), "no other event is reported");
}
