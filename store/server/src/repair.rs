//! Repairs of a data directory, for a program that is not a server.

use std::path::Path;
use std::sync::Arc;

use ::cluster::{NodeOptions, Repair};

/// What a repair of `directory` would do; `None` if it needs no repair. Changes nothing.
pub fn plan_repair(directory: &Path) -> Result<Option<Repair>, ::cluster::Error> {
    let options = NodeOptions::new(directory);
    let clock = Arc::clone(&options.clock);
    Repair::plan(&*options.disk, directory, &options.replica.machine, &clock)
}
