//! etcd as a member and as a cluster, where `cargo xtask etcd` has built it.

use std::path::Path;

use harness::{Cluster, Member, Program, etcd_binary};

#[test]
fn an_etcd_that_is_alone_or_of_three_leads_and_stops() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(etcd) = etcd_binary(&root) else {
        eprintln!("SKIPPED: there is no etcd: cargo xtask etcd");
        return;
    };
    let program = Program::new(etcd);
    let place = tempfile::tempdir().unwrap();
    let mut alone = Member::alone(program.clone(), place.path()).unwrap();
    assert!(alone.leads());
    alone.stop().unwrap();
    let mut three = Cluster::start(&program, place.path(), 3).unwrap();
    assert!(three.leader().leads());
    three.kill_all().unwrap();
    three.start_all().unwrap();
    three.check_healthy().unwrap();
}
