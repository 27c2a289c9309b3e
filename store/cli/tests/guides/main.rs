//! The commands of guides, run as they stand.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

mod page;
mod walk;

use walk::{Walk, installed, is_root, root};

/// A walk with etcd's programs; `None` where something is missing.
fn walk_with_etcd() -> Option<Walk> {
    let Some(etcd) = harness::etcd_binary(&root()) else {
        eprintln!("SKIPPED: there is no etcd to move from; `cargo xtask etcd` builds one");
        return None;
    };
    let mut walk = Walk::new()?;
    for name in ["etcd", "etcdctl", "etcdutl"] {
        walk.add_program(name, &etcd.with_file_name(name));
    }
    Some(walk)
}

#[test]
fn the_guide_from_etcd_and_back_works_as_it_stands() {
    let Some(mut walk) = walk_with_etcd() else {
        return;
    };
    walk.follow(&["docs/use/moving.md"]);
}

#[test]
fn the_guide_of_following_works_as_it_stands() {
    let Some(mut walk) = walk_with_etcd() else {
        return;
    };
    walk.follow(&["docs/use/following.md"]);
}

#[test]
fn a_cluster_of_three_with_tls_is_made_as_the_guide_says() {
    let Some(mut walk) = Walk::new() else { return };
    walk.follow(&["docs/use/tls-cluster.md"]);
}

#[test]
fn a_dead_member_is_replaced_as_the_guide_says() {
    let Some(mut walk) = Walk::new() else { return };
    walk.follow(&["docs/use/tls-cluster.md", "docs/use/replacing.md"]);
}

#[test]
fn members_are_upgraded_one_by_one_as_the_guide_says() {
    let Some(mut walk) = Walk::new() else { return };
    walk.follow(&["docs/use/tls-cluster.md", "docs/use/upgrading.md"]);
}

#[test]
fn a_cluster_is_restored_from_a_backup_as_the_guide_says() {
    let Some(mut walk) = Walk::new() else { return };
    walk.follow(&["docs/use/tls-cluster.md", "docs/use/restoring.md"]);
}

#[test]
fn a_full_quota_and_a_full_disk_grow_as_the_guide_says() {
    let Some(mut walk) = Walk::new() else { return };
    walk.follow(&["docs/use/growing.md"]);
}

#[test]
fn a_lost_server_is_restored_from_a_continuous_backup_as_the_guide_says() {
    let Some(mut walk) = Walk::new() else { return };
    walk.follow(&["docs/use/backups.md"]);
}

#[test]
fn patroni_keeps_a_leader_of_postgresql_as_the_guide_says() {
    let programs = ["patroni", "psql", "postgres", "setpriv"];
    if let Some(missing) = programs.iter().find(|it| installed(it).is_none()) {
        return eprintln!("SKIPPED: {missing} is not installed: docs/use/patroni.md says how");
    }
    if !is_root() {
        return eprintln!("SKIPPED: PostgreSQL has a user of its own, which only root can become");
    }
    let Some(mut walk) = Walk::new() else { return };
    walk.follow(&["docs/use/tls-cluster.md", "docs/use/patroni.md"]);
}

#[test]
fn a_command_that_fails_fails_its_guide() {
    let Some(mut walk) = Walk::new() else { return };
    let page = page::parse("```sh on each\ntest \"$(hostname)\" != b\n```\n");
    let failed = walk.run(&page).unwrap_err();
    assert!(failed.contains("block 1, on b"), "{failed}");
}
