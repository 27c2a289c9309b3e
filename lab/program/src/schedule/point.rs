//! Points and arms: cells with their workloads, and sides with their targets.

use crate::record::Cell;
use crate::report::number::counted;
use crate::targets::TargetSpec;
use crate::workload::Workload;

/// A cell and its workload, which has one number of clients.
#[derive(Clone, Debug)]
pub struct Point {
    pub cell: Cell,
    pub workload: Workload,
}

/// One side of an experiment.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Name in records.
    pub name: String,
    pub target: TargetSpec,
}

impl Arm {
    pub fn of(name: &str, target: &TargetSpec) -> Arm {
        Arm {
            name: name.to_owned(),
            target: target.clone(),
        }
    }
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
