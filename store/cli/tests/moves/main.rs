//! Stores that move: by a snapshot, between Inkstone and etcd in both directions, and by following the
//! source while it is written. Everything must be there afterwards.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::Path;

mod changes;
mod following;
mod killed;
mod store;

use changes::Changes;
use store::{Kind, Store, compare, config, etcd, inkstone, restore, run};

/// Operations of one move; the variable INKSTONE_MOVE_OPERATIONS sets another number.
const OPERATIONS: u64 = 1_500;

/// Fills a store at random.
async fn fill(store: &Store, seed: u64) {
    let operations = std::env::var("INKSTONE_MOVE_OPERATIONS");
    let operations = operations.map_or(OPERATIONS, |text| text.parse().unwrap());
    let mut changes = Changes::of_seed(seed);
    changes.make(store, operations).await;
    changes.change_lease(store).await;
    changes.change_accounts(store).await;
}

/// Fills a store, moves it, and compares everything.
async fn move_store(from: Kind, to: Kind, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let source = Store::start(from, config("source", folder.path())).await;
    fill(&source, seed).await;
    let file = folder.path().join("moved.db");
    let endpoint = format!("--endpoint={}", source.member.client_url());
    run(inkstone().args(["snapshot", "save", &endpoint]).arg(&file));
    check_compressed(from, &endpoint, &file);
    let target_config = config("target", folder.path());
    restore(to, &file, &target_config);
    let target = Store::start(to, target_config).await;
    compare(&source, &target).await;
    // Both go on in the same way.
    for store in [&source, &target] {
        let mut changes = Changes::of_seed(seed + 1);
        for _ in 0..50 {
            store.kv().txn(changes.transaction()).await.unwrap();
        }
    }
    compare(&source, &target).await;
}

/// A snapshot that the server has compressed is the same file; an etcd does not do it.
#[expect(clippy::disallowed_methods, reason = "files of the tests' own")]
fn check_compressed(from: Kind, endpoint: &str, file: &Path) {
    let compressed = file.with_extension("compressed");
    let mut save = inkstone();
    save.args(["snapshot", "save", "--compress", endpoint]);
    let output = save.arg(&compressed).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    match from {
        Kind::Inkstone => {
            assert!(output.status.success(), "{error}");
            let (one, other) = (std::fs::read(file), std::fs::read(compressed));
            assert!(one.unwrap() == other.unwrap(), "another file");
        }
        Kind::Etcd => assert!(error.contains("does not compress"), "{error}"),
    }
}

#[tokio::test]
async fn a_store_moves_from_inkstone_to_inkstone() {
    move_store(Kind::Inkstone, Kind::Inkstone, 1).await;
}

#[tokio::test]
async fn a_store_moves_from_inkstone_to_etcd() {
    if etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to move to; `cargo xtask etcd` builds one");
        return;
    }
    move_store(Kind::Inkstone, Kind::Etcd, 2).await;
}

#[tokio::test]
async fn a_store_moves_from_etcd_to_inkstone() {
    if etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to move from; `cargo xtask etcd` builds one");
        return;
    }
    move_store(Kind::Etcd, Kind::Inkstone, 3).await;
}
