//! `inkstone backup` against servers of the test: every revision is restored as the server had it, or not at
//! all, whatever happens to the process that makes the backup.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts processes, waits for them and writes files"
)]

mod changes;
mod process;

use std::path::{Path, PathBuf};
use std::time::Duration;

use backup::Error;
use environment::randomness::Random;
use etcd_snapshot::FileState;
use tempfile::TempDir;

use changes::{Kind, Store};
use process::{Runner, inkstone, output, text};

/// Changes of one run; the variable INKSTONE_BACKUP_OPERATIONS sets another number.
const OPERATIONS: u64 = 400;
/// Revisions that are restored; the variable INKSTONE_BACKUP_REVISIONS sets another number.
const REVISIONS: u64 = 12;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Restores a revision, and compares it with what the server said; false if it is refused.
fn is_restored(store: &Store, place: &Path, revision: i64, folder: &TempDir) -> bool {
    is_restored_from(store, place, revision, folder, &[])
}

/// The same, with more words.
fn is_restored_from(
    store: &Store,
    place: &Path,
    revision: i64,
    folder: &TempDir,
    more: &[&str],
) -> bool {
    let file = folder.path().join("restored.db");
    let at = format!("--at-revision={revision}");
    let words = ["backup", "restore", file.to_str().unwrap(), &at, "--from"];
    let restored = output(inkstone().args(words).arg(place).args(more));
    let complaint = text(&restored.stderr);
    if !restored.status.success() {
        println!("revision {revision}: {complaint}");
        return false;
    }
    let opened = etcd_snapshot::open(&file, false, |_, _| ()).unwrap();
    let newest = etcd_snapshot::hash(&opened, 0, |_| ()).unwrap();
    assert_eq!(newest.hash_revision, revision);
    let said = store.said[&revision];
    let asked = said.compacted.max(newest.compact_revision);
    assert_eq!(asked, said.compacted, "at {revision}");
    let hash = etcd_snapshot::hash_as_compacted(&opened, revision, asked, |_| ()).unwrap();
    assert!(hash.is_none_or(|hash| hash == said.hash), "at {revision}");
    true
}

async fn every_revision_has_its_hash(kind: Kind, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(kind, folder.path(), seed).await;
    let mut random = Random::from_seed(seed);
    let mut runner = Runner::start(&store, &place);
    store.put_one().await;
    process::wait_until_stored(&place, store.revision().await);
    let first = store.revision().await;
    for _ in 0..number("INKSTONE_BACKUP_OPERATIONS", OPERATIONS) {
        store.change().await;
        if random.chance(1, 80) {
            let revision = store.revision().await - 50;
            // What the backup does not have yet would be lost to it.
            process::wait_until_stored(&place, revision);
            store.compact(revision).await;
        }
        if random.chance(1, 60) {
            println!("killed at revision {}", runner.kill(&store).await);
            runner = Runner::start(&store, &place);
        }
    }
    let newest = store.revision().await;
    process::wait_until_stored(&place, newest);
    let leases = store.leases().await;
    runner.wait_for_leases(&place, &leases, &folder);
    let (status, said) = runner.interrupt();
    assert!(status.success(), "{said}");
    // It stores the hash of the newest revision, too.
    process::once(&store, &place);
    let (mut restored, wanted) = (0, number("INKSTONE_BACKUP_REVISIONS", REVISIONS));
    assert!(is_restored(&store, &place, newest, &folder));
    let known: Vec<i64> = store.said.range(first..).map(|(key, _)| *key).collect();
    for _ in 0..wanted {
        let revision = *random.pick(&known);
        restored += u64::from(is_restored(&store, &place, revision, &folder));
    }
    println!("{restored} of {wanted} revisions were restored");
    assert_eq!(restored, wanted);
    let verified = output(inkstone().args(["backup", "verify", "--from"]).arg(&place));
    let printed = text(&verified.stdout);
    assert!(verified.status.success(), "{printed}");
    assert!(printed.contains("can be restored: "), "{printed}");
    assert!(printed.contains(" is the cluster's"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_revision_of_inkstone_has_its_hash() {
    every_revision_has_its_hash(Kind::Inkstone, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_revision_of_etcd_has_its_hash() {
    if changes::etcd().is_none() {
        eprintln!("SKIPPED: there is no etcd to back up; `cargo xtask etcd` builds one");
        return;
    }
    every_revision_has_its_hash(Kind::Etcd, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_in_one_place_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(Kind::Inkstone, folder.path(), 3).await;
    let runners = [(); 2].map(|()| Runner::start(&store, &place));
    for _ in 0..100 {
        store.change().await;
    }
    let newest = store.revision().await;
    process::wait_until_stored(&place, newest);
    for runner in runners {
        let (status, said) = runner.interrupt();
        assert!(status.success(), "{said}");
    }
    // Each has begun a history of its own, if both were the first.
    let histories = process::list(&place);
    let mut restored = 0;
    for history in &histories {
        let file = folder.path().join("restored.db");
        let id = history["history"].as_str().unwrap();
        let words = ["backup", "restore", file.to_str().unwrap(), "--history", id];
        let output = output(inkstone().args(words).arg("--from").arg(&place));
        assert!(output.status.success(), "{}", text(&output.stderr));
        restored += 1;
    }
    assert!(restored > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_cluster_begins_another_history() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(Kind::Inkstone, folder.path(), 4).await;
    store.put_one().await;
    process::once(&store, &place);
    for _ in 0..20 {
        store.change().await;
    }
    let early = folder.path().join("early.db");
    store.save(&early);
    for _ in 0..20 {
        store.change().await;
    }
    let shared = *store.said.keys().nth_back(5).unwrap();
    let before = store.said[&shared];
    process::once(&store, &place);
    store.go_back_to(&early).await;
    let said = process::once(&store, &place);
    assert!(said.contains("A new history begins"), "{said}");
    while store.revision().await <= shared {
        store.put_one().await;
    }
    process::once(&store, &place);
    let histories = process::list(&place);
    assert_eq!(histories.len(), 2, "{histories:?}");
    let id = |number: usize| histories[number]["history"].as_str().unwrap();
    let newest = store.revision().await;
    let second = ["--history", id(1)];
    assert!(is_restored_from(&store, &place, newest, &folder, &second));
    let target = folder.path().join("old.db");
    let restore = |more: &[&str]| {
        let at = format!("--at-revision={shared}");
        let words = ["backup", "restore", target.to_str().unwrap(), &at, "--from"];
        output(inkstone().args(words).arg(&place).args(more))
    };
    let restored = restore(&["--history", id(0)]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let opened = etcd_snapshot::open(&target, false, |_, _| ()).unwrap();
    let hash = etcd_snapshot::hash(&opened, shared, |_| ()).unwrap();
    assert_eq!(hash.hash, before.hash);
    let ambiguous = restore(&[]);
    assert_eq!(ambiguous.status.code(), Some(1));
    assert!(text(&ambiguous.stderr).contains("--history"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_of_what_is_missing_is_shown_as_another_history() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(Kind::Inkstone, folder.path(), 5).await;
    store.put_one().await;
    process::once(&store, &place);
    for _ in 0..20 {
        store.change().await;
    }
    let newest = store.revision().await;
    store.compact(newest).await;
    store.put_one().await;
    let said = process::once(&store, &place);
    assert!(said.contains("has compacted revisions up to"), "{said}");
    assert_eq!(process::list(&place).len(), 2);
    assert!(!is_restored(&store, &place, newest - 1, &folder));
    assert!(is_restored(&store, &place, newest + 1, &folder));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_in_the_next_base() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(Kind::Inkstone, folder.path(), 6).await;
    store.change().await;
    process::once(&store, &place);
    store.add_user("ada").await;
    store.change().await;
    // The process is asked for a base by its first poll.
    let runner = Runner::start(&store, &place);
    let bases = || process::list(&place)[0]["bases"].as_array().unwrap().len();
    while bases() < 2 {}
    let (status, said) = runner.interrupt();
    assert!(status.success(), "{said}");
    let file = folder.path().join("restored.db");
    let words = ["backup", "restore", file.to_str().unwrap(), "--from"];
    let restored = output(inkstone().args(words).arg(&place));
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let opened = etcd_snapshot::open(&file, false, |_, _| ()).unwrap();
    let state = FileState::read(&opened).unwrap();
    assert_eq!(state.users.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_by_itself_stores_changed_users() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(Kind::Inkstone, folder.path(), 9).await;
    store.put_one().await;
    process::once(&store, &place);
    let bases = || process::list(&place)[0]["bases"].as_array().unwrap().len();
    process::once(&store, &place);
    assert_eq!(bases(), 1);
    store.add_user("ada").await;
    process::once(&store, &place);
    assert_eq!(bases(), 2);
}

/// A place that takes no changes: below a file no object can be written.
struct StuckPlace {
    changes: PathBuf,
    aside: PathBuf,
}

impl StuckPlace {
    fn new(place: &Path, folder: &TempDir) -> StuckPlace {
        let base = process::list(place)[0]["bases"][0]["object"].clone();
        let base = place.join(base.as_str().unwrap());
        let changes = base.ancestors().nth(2).unwrap().join("changes");
        let aside = folder.path().join("changes");
        std::fs::rename(&changes, &aside).unwrap();
        std::fs::write(&changes, "").unwrap();
        StuckPlace { changes, aside }
    }

    fn release(self) {
        std::fs::remove_file(&self.changes).unwrap();
        std::fs::rename(&self.aside, &self.changes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_received_before_a_break_is_stored_when_the_place_takes_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(Kind::Inkstone, folder.path(), 11).await;
    store.put_one().await;
    process::once(&store, &place);
    let early = folder.path().join("early.db");
    store.save(&early);
    let mut runner = Runner::start(&store, &place);
    runner.wait_for("continuing history");
    let stuck = StuckPlace::new(&place, &folder);
    store.put_one().await;
    let newest = store.revision().await;
    runner.wait_for("; trying again");
    store.go_back_to(&early).await;
    // Longer than a signal would leave it.
    std::thread::sleep(Duration::from_secs(12));
    stuck.release();
    runner.wait_for("A new history begins");
    let first = process::list(&place)[0]["revisions"].clone();
    assert_eq!(first.as_array().unwrap().last().unwrap()[1], newest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_while_the_place_takes_nothing_is_a_failure_that_names_the_revisions() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(Kind::Inkstone, folder.path(), 10).await;
    store.put_one().await;
    process::once(&store, &place);
    let mut runner = Runner::start(&store, &place);
    runner.wait_for("continuing history");
    let _stuck = StuckPlace::new(&place, &folder);
    store.put_one().await;
    runner.wait_for("; trying again");
    let newest = store.revision().await;
    let (status, said) = runner.interrupt();
    assert_eq!(status.code(), Some(1), "{said}");
    let expected = format!("revisions {newest} to {newest} are not stored");
    assert!(said.contains(&expected), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let mut store = Store::start(Kind::Inkstone, folder.path(), 7).await;
    store.change().await;
    process::once(&store, &place);
    store.change().await;
    process::once(&store, &place);
    let base = process::list(&place)[0]["bases"][0]["object"].clone();
    let path = place.join(base.as_str().unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let file = folder.path().join("restored.db");
    let words = ["backup", "restore", file.to_str().unwrap(), "--from"];
    let refused = output(inkstone().args(words).arg(&place));
    let complaint = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains(base.as_str().unwrap()), "{complaint}");
    assert!(!file.exists());
    let verified = output(inkstone().args(["backup", "verify", "--from"]).arg(&place));
    assert_eq!(verified.status.code(), Some(1));
    let damaged = Error::Damaged {
        object: base.as_str().unwrap().to_owned(),
        problem: "its SHA-256 does not fit its bytes".to_owned(),
    };
    let object = damaged.to_string();
    let object = object.split(':').next().unwrap();
    assert!(text(&verified.stderr).contains(object));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_cannot_be_used_ends_the_process_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start(Kind::Inkstone, folder.path(), 8).await;
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    for place in [file.to_str().unwrap(), "ftp://a/b", "s3://"] {
        let words = ["backup", "run", "--once", "--to", place];
        let refused = output(inkstone().args(words).arg(store.endpoint()));
        assert!(!refused.status.success(), "{place}");
        assert!(text(&refused.stderr).starts_with("error: "), "{place}");
    }
}
