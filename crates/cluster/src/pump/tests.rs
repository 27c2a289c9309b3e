//! Steps of a pump without its thread.

use environment::simulated::{SimulatedClock, SimulatedDisk};
use tokio::sync::oneshot;

use super::*;
use crate::outbox::Nowhere;

#[test]
fn who_waits_for_garbage_to_go_is_told_that_the_log_has_failed() {
    let mut options = NodeOptions::new("/node");
    options.disk = Arc::new(SimulatedDisk::new(1));
    options.clock = Arc::new(SimulatedClock::stepped());
    options.machine.engine.reserve_bytes = 0;
    let replica = Replica::open(
        Arc::clone(&options.disk),
        &options.directory,
        options.replica(1),
        Arc::clone(&options.clock),
    );
    let inbox = Arc::new(Inbox::new(options.queue_bytes_max));
    let outbox = Arc::new(Nowhere);
    let mut pump = Pump::new(&options, replica.unwrap(), inbox, outbox, Arc::default());
    let (answer, mut receiver) = oneshot::channel();
    pump.step(Arrived {
        persisted: Some(Err("the device is gone".into())),
        defragment: vec![answer],
        ..Arrived::default()
    });
    let told = receiver.try_recv().unwrap().unwrap_err();
    assert!(matches!(told, Error::LogFailed { .. }), "{told}");
}
