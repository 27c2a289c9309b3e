//! A store follows another cluster, and clients are moved to it.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use etcd_api::etcdserverpb::PutRequest;
use harness::ServerProcess;
use tempfile::TempDir;

use crate::changes::Changes;
use crate::store::{Kind, Store, compare, config, etcd, inkstone, restore, run};

/// Changes between two events of a move.
const CHANGES: u64 = 150;

/// A source, and a store that was filled from its snapshot.
struct Pair {
    folder: TempDir,
    source: Store,
    target: Store,
    changes: Changes,
    compares_at_rest: bool,
}

impl Pair {
    async fn new(from: Kind, seed: u64) -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let source = Store::start(from, config("source", folder.path())).await;
        let mut changes = Changes::of_seed(seed);
        changes.compacts = false;
        changes.make(&source, CHANGES).await;
        let file = folder.path().join("source.db");
        let endpoint = format!("--endpoint={}", source.member.client_url());
        run(inkstone().args(["snapshot", "save", &endpoint]).arg(&file));
        let target = config("target", folder.path());
        restore(Kind::Inkstone, &file, &target);
        // What is written now comes by the watch.
        changes.make(&source, CHANGES).await;
        let target = Store::start(Kind::Inkstone, target).await;
        Pair {
            folder,
            source,
            target,
            changes,
            compares_at_rest: seed.is_multiple_of(2),
        }
    }

    fn verb(&self, verb: &str) -> std::process::Command {
        let mut command = inkstone();
        command.args([verb, &self.source.member.client_url()]);
        command.args(["--endpoint", &self.target.member.client_url()]);
        command
    }

    fn follow(&self) -> ServerProcess {
        let mut command = self.verb("follow");
        command.arg("--check-every=1s");
        ServerProcess::spawn(command, &self.log()).unwrap()
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("follow.log")
    }

    fn cut_over(&self) -> Output {
        let pause = match self.compares_at_rest {
            true => "--pause-max=1m",
            false => "--pause-max=1ns",
        };
        self.verb("cut-over").arg(pause).output().unwrap()
    }

    /// Waits until the store has the source's revision of now.
    async fn caught_up(&self) {
        let revision = self.source.revision().await;
        while self.target.revision().await < revision {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn change(&mut self) {
        self.changes.make(&self.source, CHANGES).await;
    }
}

fn put() -> PutRequest {
    PutRequest {
        key: "moved".into(),
        value: "1".into(),
        ..PutRequest::default()
    }
}

async fn refusal_of_a_put(store: &Store) -> String {
    store
        .kv()
        .put(put())
        .await
        .unwrap_err()
        .message()
        .to_owned()
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn a_store_follows_and_is_cut_over(from: Kind, seed: u64) {
    let mut pair = Pair::new(from, seed).await;
    let mut follower = pair.follow();
    pair.change().await;
    drop(follower);
    pair.change().await;
    follower = pair.follow();
    pair.change().await;
    pair.source.restart().await;
    pair.change().await;
    pair.caught_up().await;
    pair.source.compact().await;
    pair.change().await;
    pair.target.restart().await;
    pair.change().await;
    let refused = refusal_of_a_put(&pair.target).await;
    assert!(refused.contains("this store follows cluster"), "{refused}");
    let moved = pair.cut_over();
    let log = text_of(&pair.log());
    assert!(moved.status.success(), "{}\n{log}", error_of(&moved));
    assert!(follower.wait_for_end().unwrap().success(), "{log}");
    compare(&pair.source, &pair.target).await;
    let refused = refusal_of_a_put(&pair.source).await;
    assert_eq!(refused, etcd_api::Error::Corrupt.message());
    pair.target.kv().put(put()).await.unwrap();
}

#[tokio::test]
async fn a_store_follows_inkstone_through_restarts_and_is_cut_over() {
    a_store_follows_and_is_cut_over(Kind::Inkstone, 11).await;
}

#[tokio::test]
async fn a_store_follows_etcd_through_restarts_and_is_cut_over() {
    if etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to follow; `cargo xtask etcd` builds one");
        return;
    }
    a_store_follows_and_is_cut_over(Kind::Etcd, 12).await;
}

#[tokio::test]
async fn a_cut_over_without_a_follower_lets_the_source_accept_writes_again() {
    let mut pair = Pair::new(Kind::Inkstone, 13).await;
    let refused = error_of(&pair.cut_over());
    assert!(
        refused.contains("the store follows no cluster"),
        "{refused}"
    );
    let mut follower = pair.follow();
    follower.wait_for_line("following from revision").unwrap();
    drop(follower);
    pair.change().await;
    let failed = pair.verb("cut-over").arg("--wait=200ms").output().unwrap();
    let error = error_of(&failed);
    assert!(!failed.status.success(), "{error}");
    assert!(error.contains("the source accepts writes again"), "{error}");
    pair.source.kv().put(put()).await.unwrap();
    let refused = refusal_of_a_put(&pair.target).await;
    assert!(refused.contains("this store follows cluster"), "{refused}");
}

#[tokio::test]
async fn a_store_is_cut_over_without_its_source_only_by_the_source_s_name() {
    let mut pair = Pair::new(Kind::Inkstone, 18).await;
    let mut follower = pair.follow();
    follower.wait_for_line("following from revision").unwrap();
    pair.caught_up().await;
    let revision = pair.target.revision().await;
    pair.source.member.kill().unwrap();
    let endpoint = pair.target.member.client_url();
    let lost = |source: &str| {
        let mut command = inkstone();
        command.args([
            "cut-over",
            source,
            "--source-is-lost",
            "--endpoint",
            &endpoint,
        ]);
        command.output().unwrap()
    };
    let refused = error_of(&lost("http://another:2379"));
    assert!(
        refused.contains("the store follows http://127"),
        "{refused}"
    );
    let moved = lost(&pair.source.member.client_url());
    assert!(moved.status.success(), "{}", error_of(&moved));
    pair.target.kv().put(put()).await.unwrap();
    assert_eq!(pair.target.revision().await, revision + 1);
}

#[tokio::test]
async fn a_store_does_not_follow_a_source_that_clients_have_left() {
    let pair = Pair::new(Kind::Inkstone, 20).await;
    let mut follower = pair.follow();
    follower.wait_for_line("following from revision").unwrap();
    let moved = pair.cut_over();
    assert!(moved.status.success(), "{}", error_of(&moved));
    assert!(follower.wait_for_end().unwrap().success());
    let refused = error_of(&pair.verb("follow").output().unwrap());
    assert!(refused.contains("because of a cut-over"), "{refused}");
    pair.target.kv().put(put()).await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_no_copy_does_not_begin_to_follow() {
    let pair = Pair::new(Kind::Inkstone, 14).await;
    // A revision of its own, where the source has another.
    pair.target.kv().put(put()).await.unwrap();
    let refused = pair.verb("follow").output().unwrap();
    let error = error_of(&refused);
    assert!(!refused.status.success(), "{error}");
    assert!(
        error.contains("the histories differ at revision"),
        "{error}"
    );
    pair.target.kv().put(put()).await.unwrap();
}

#[tokio::test]
async fn a_cluster_does_not_follow_itself() {
    let pair = Pair::new(Kind::Inkstone, 15).await;
    let url = pair.target.member.client_url();
    let refused = inkstone()
        .args(["follow", &url, "--endpoint", &url])
        .output();
    let error = error_of(&refused.unwrap());
    assert!(error.contains("are the same cluster"), "{error}");
    pair.target.kv().put(put()).await.unwrap();
}

#[tokio::test]
async fn an_empty_store_says_how_it_is_filled() {
    let pair = Pair::new(Kind::Inkstone, 16).await;
    let empty = Store::start(Kind::Inkstone, config("empty", pair.folder.path())).await;
    let refused = inkstone()
        .args(["follow", &pair.source.member.client_url()])
        .args(["--endpoint", &empty.member.client_url()])
        .output();
    let error = error_of(&refused.unwrap());
    assert!(error.contains("inkstone snapshot save"), "{error}");
    empty.kv().put(put()).await.unwrap();
}

#[tokio::test]
async fn history_that_the_source_has_compacted_ends_the_following() {
    let mut pair = Pair::new(Kind::Inkstone, 17).await;
    let mut follower = pair.follow();
    follower.wait_for_line("following from revision").unwrap();
    drop(follower);
    pair.change().await;
    pair.source.compact().await;
    let ended = pair.verb("follow").output().unwrap();
    let error = error_of(&ended);
    assert!(!ended.status.success(), "{error}");
    assert!(error.contains("the source has compacted"), "{error}");
}
