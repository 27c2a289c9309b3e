//! What a node is started with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use environment::real::{RealClock, RealDisk};
use environment::{Clock, Disk};

use crate::Observer;

/// How a [`crate::Node`] is started.
///
/// ```no_run
/// let mut options = cluster::NodeOptions::new("data");
/// options.queue_bytes_max = 16 << 20;
/// let node = cluster::Node::start(options)?;
/// # Ok::<(), cluster::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Everything this node keeps lives here; made when missing.
    pub directory: PathBuf,
    /// The state machine's and the engine's options.
    pub machine: revisions::Options,
    /// Bytes of commands that may wait to be evaluated; beyond them proposals
    /// are refused with [`crate::Error::TooManyRequests`]. A single command
    /// is always let in.
    pub queue_bytes_max: usize,
    /// Bytes of commands that one batch may hold. Larger batches share a
    /// flush among more commands but make each of them wait longer.
    pub batch_bytes_max: usize,
    /// How often leases and upkeep are looked at when nothing else happens.
    pub tick: Duration,
    /// Where the bytes go.
    pub disk: Arc<dyn Disk>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Who counts what happens, if anyone.
    pub observer: Option<Arc<dyn Observer>>,
}

impl NodeOptions {
    /// The defaults: durable, real disk, real clock.
    pub fn new(directory: impl Into<PathBuf>) -> NodeOptions {
        NodeOptions {
            directory: directory.into(),
            machine: revisions::Options::default(),
            queue_bytes_max: 64 << 20,
            batch_bytes_max: 4 << 20,
            tick: Duration::from_millis(100),
            disk: Arc::new(RealDisk),
            clock: Arc::new(RealClock),
            observer: None,
        }
    }
}
