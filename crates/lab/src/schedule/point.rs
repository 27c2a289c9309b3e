//! Where something is measured, and what: cells and sides.

use crate::record::Cell;
use crate::report::number::counted;
use crate::targets::TargetSpec;
use crate::workload::Workload;

/// A cell with what is run in it: one number of clients.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name and place.
    pub cell: Cell,
    /// What runs in it.
    pub workload: Workload,
}

/// One side.
#[derive(Clone, Debug)]
pub struct Arm {
    /// As records call it.
    pub name: String,
    /// What is measured.
    pub target: TargetSpec,
}

impl Point {
    /// One point for each number of clients of a workload.
    pub fn of(workload: &Workload) -> Vec<Point> {
        let counts = &workload.clients.clients;
        let point = |clients: &u32| {
            let mut single = workload.clone();
            single.clients.clients = vec![*clients];
            let name = match counts.len() {
                1 => workload.name.clone(),
                _ => format!(
                    "{}, {}",
                    workload.name,
                    counted(u64::from(*clients), "client")
                ),
            };
            Point {
                cell: Cell {
                    name,
                    workload: workload.name.clone(),
                    clients: *clients,
                    connections: workload.clients.connections,
                    value_bytes: workload.load.value.length.mean(),
                    rw_ratio: None,
                },
                workload: single,
            }
        };
        counts.iter().map(point).collect()
    }
}
