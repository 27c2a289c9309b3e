//! What names alone say: gaps, and histories that have a revision.

use std::sync::Arc;

use backup::{BackupPlace, Catalog, Moment, ObjectKind, ObjectName, Selection, StoredObject};
use object_store::memory::InMemory;
use object_store::path::Path;

fn object(history: u64, first: i64, last: i64, kind: ObjectKind) -> StoredObject {
    let name = ObjectName {
        cluster: 1,
        history,
        nonce: 3,
        first,
        last,
        time_ms: 4,
        kind,
    };
    StoredObject { name, bytes: 5 }
}

fn base(history: u64, revision: i64) -> StoredObject {
    object(history, revision, revision, ObjectKind::Base)
}

fn changes(history: u64, first: i64, last: i64) -> StoredObject {
    let (level, plain_bytes) = (0, 6);
    let kind = ObjectKind::Changes { level, plain_bytes };
    object(history, first, last, kind)
}

fn gaps(objects: Vec<StoredObject>) -> Vec<(i64, i64)> {
    Catalog::of(objects).histories[0].gaps()
}

#[test]
fn a_hole_between_a_base_and_the_first_change_is_a_gap() {
    let objects = vec![base(1, 990), changes(1, 1_001, 1_100)];
    assert_eq!(gaps(objects), [(991, 1_000)]);
}

#[test]
fn holes_behind_the_last_base_are_gaps() {
    let objects = vec![
        base(1, 10),
        changes(1, 11, 20),
        changes(1, 31, 40),
        changes(1, 35, 50),
        changes(1, 61, 60),
        changes(1, 71, 80),
    ];
    assert_eq!(gaps(objects), [(21, 30), (51, 70)]);
}

#[test]
fn a_history_without_a_hole_has_no_gap() {
    let objects = vec![
        base(1, 10),
        changes(1, 5, 20),
        base(1, 25),
        changes(1, 21, 30),
    ];
    assert_eq!(gaps(objects), []);
}

#[tokio::test]
async fn only_histories_that_have_a_revision_are_named() {
    let catalog = Catalog::of(vec![
        base(0xa, 10),
        changes(0xa, 11, 20),
        base(0xb, 10),
        changes(0xb, 11, 20),
        base(0xc, 100),
    ]);
    let place = BackupPlace::new(Arc::new(InMemory::new()), Path::default());
    let found = catalog.find(&place, Selection::default(), Moment::Revision(15));
    let text = found.await.unwrap_err().to_string();
    assert!(text.contains("histories, a, b, possibly"), "{text}");
}
