//! Every chore of the repository: a bare call lists the verbs.
fn main() {}
