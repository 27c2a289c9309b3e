//! The `inkstone` binary: one file per verb.
fn main() {}
