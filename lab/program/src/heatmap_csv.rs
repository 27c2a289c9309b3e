//! Reader and writer of etcd's rw-heatmap CSV, faithful to the byte.
//!
//! ```text
//!   type,ratio,conn_size,value_size,iter1,iter2,comment
//!   PARAM,,,,,,"key_size=256,key_space_size=65536,...,commit=7d4a9b2"
//!   DATA,4.0000,32,256,30012.1200:7503.0300,29911.0000:7477.7500,
//! ```
//!
//! One `DATA` row is one cell; each iteration is reads and writes per second. The
//! ratio is reads per write as `bc` prints it with four decimals: without a zero
//! before the point. An iteration of `0:0` is a run that failed: the script that writes
//! these files turns failures into zeros, and its plots average them. This module keeps
//! failures apart ([`Iteration::failed`]).

mod read;
mod write;

pub use read::{Mistake, parse};
pub use write::to_csv;

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RwHeatmap {
    /// The comment of the `PARAM` row: the settings of the script that wrote the file.
    pub parameters: String,
    /// The `DATA` rows, in the file's order.
    pub cells: Vec<RwCell>,
}

/// One cell of the map.
#[derive(Clone, Debug, PartialEq)]
pub struct RwCell {
    pub reads_per_write: f64,
    /// Number of connections; each has one client.
    pub connections: u64,
    pub value_bytes: u64,
    pub iterations: Vec<Iteration>,
    /// The row's last column, free text.
    pub comment: String,
}

/// One repetition of a cell, in operations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iteration {
    pub reads: f64,
    pub writes: f64,
}

impl Iteration {
    /// Whether the iteration failed, which the file writes as a rate of zero.
    pub fn failed(&self) -> bool {
        self.reads + self.writes <= 0.0
    }
}

impl RwCell {
    pub fn failures(&self) -> usize {
        self.iterations.iter().filter(|it| it.failed()).count()
    }
}
