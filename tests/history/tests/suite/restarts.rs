//! A store that keeps its promises over a restart, and for each promise one that breaks it.

use history::{
    Answer, Change, Entry, Operation, Outcome, Request, Restarts, Rule, Verdict, Version,
};

fn operation(called: u64, request: Request, outcome: Outcome) -> Operation {
    Operation {
        client: 1,
        member: 0,
        life: Some(1),
        called,
        returned: called + 1,
        request,
        outcome,
    }
}

fn batch(puts: &[(&str, &str)], deletes: &[&str]) -> Request {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Request::Batch {
        puts: puts.iter().map(owned).collect(),
        deletes: deletes.iter().map(|key| (*key).to_owned()).collect(),
    }
}

fn done(revision: i64, versions: &[Version]) -> Outcome {
    Outcome::Done(Answer {
        revision,
        succeeded: true,
        versions: versions.to_vec(),
        seconds: 0,
    })
}

fn version(key: &str, value: &str, modified: i64) -> Version {
    Version {
        key: key.to_owned(),
        value: value.to_owned(),
        created: modified,
        modified,
        version: 1,
        lease: 0,
    }
}

fn put(key: &str, value: &str, modified: i64) -> Change {
    Change::Put(version(key, value, modified))
}

fn gone(key: &str, modified: i64) -> Change {
    let key = key.to_owned();
    Change::Delete { key, modified }
}

fn entry(revision: i64, changes: &[Change]) -> Entry {
    let changes = changes.to_vec();
    Entry { revision, changes }
}

/// `a` and `b` put together at 2 and `a` deleted at 3, both acknowledged; `c` and `d` put
/// without an answer.
fn seen() -> Vec<Operation> {
    vec![
        operation(10, batch(&[("a", "1"), ("b", "1")], &[]), done(2, &[])),
        operation(20, batch(&[], &["a"]), done(3, &[])),
        operation(
            30,
            batch(&[("c", "2"), ("d", "2")], &[]),
            Outcome::unknown("killed"),
        ),
    ]
}

/// A store with the acknowledged writes and no other.
fn faithful() -> Vec<Entry> {
    vec![
        entry(2, &[put("a", "1", 2), put("b", "1", 2)]),
        entry(3, &[gone("a", 3)]),
    ]
}

/// A store with the unanswered write, too.
fn generous() -> Vec<Entry> {
    let late = entry(4, &[put("c", "2", 4), put("d", "2", 4)]);
    [faithful(), vec![late]].concat()
}

/// Reads all keys after the restart.
fn read(revision: i64, versions: &[Version]) -> Operation {
    let all = Request::Get {
        key: "a".to_owned(),
        end: "z".to_owned(),
        revision: 0,
        serializable: false,
    };
    operation(100, all, done(revision, versions))
}

fn judge(shown: Vec<Entry>) -> Verdict {
    Restarts::default().judge(seen(), shown)
}

fn rules(verdict: &Verdict) -> Vec<Rule> {
    let mut rules: Vec<Rule> = verdict.violations.iter().map(|it| it.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn an_unanswered_write_may_be_present_or_absent() {
    let verdict = judge(faithful());
    assert_eq!(rules(&verdict), []);
    let counts = (verdict.acknowledged, verdict.survived, verdict.absent);
    assert_eq!(counts, (2, 0, 1));
    let verdict = judge(generous());
    assert_eq!(rules(&verdict), []);
    assert_eq!((verdict.survived, verdict.absent), (1, 0));
}

#[test]
fn a_lost_write_is_reported_with_its_key_and_revision() {
    let verdict = judge(faithful()[..1].to_vec());
    assert_eq!(verdict.lost, 1);
    let text = verdict.violations[0].to_string();
    assert!(
        text.contains("revision 3") && text.contains("\"a\""),
        "{text}"
    );
}

#[test]
fn a_wrong_value_is_a_loss() {
    let mut shown = faithful();
    shown[0].changes[1] = put("b", "9", 2);
    assert_eq!(judge(shown).lost, 1);
}

#[test]
fn half_a_transaction_is_found() {
    let mut shown = generous();
    shown[2].changes.pop();
    assert_eq!(rules(&judge(shown)), [Rule::Origin]);
    let mut shown = faithful();
    shown[0].changes.pop();
    assert_eq!(rules(&judge(shown)), [Rule::Lost]);
}

#[test]
fn an_unanswered_write_happens_once() {
    let again = |change: &Change| match change.clone() {
        Change::Put(version) => Change::Put(Version {
            modified: 5,
            version: 2,
            ..version
        }),
        delete => delete,
    };
    let mut shown = generous();
    let changes: Vec<Change> = shown[2].changes.iter().map(again).collect();
    shown.push(entry(5, &changes));
    assert_eq!(rules(&judge(shown)), [Rule::Origin]);
}

#[test]
fn a_gap_is_found() {
    let mut shown = generous();
    shown.remove(1);
    assert!(rules(&judge(shown)).contains(&Rule::Ledger));
}

#[test]
fn keys_that_differ_from_the_history_are_found() {
    let read_after = |revision, versions: &[Version]| {
        let mut operations = seen();
        operations.push(read(revision, versions));
        rules(&Restarts::default().judge(operations, faithful()))
    };
    let b = version("b", "1", 2);
    assert_eq!(read_after(3, std::slice::from_ref(&b)), []);
    assert_eq!(read_after(3, &[]), [Rule::Contents]);
    let extra = [version("a", "1", 2), b.clone()];
    assert_eq!(read_after(3, &extra), [Rule::Contents]);
    assert_eq!(read_after(3, &[version("b", "1", 3)]), [Rule::Contents]);
    assert_eq!(read_after(4, &[b]), [Rule::Future]);
}

#[test]
fn a_judged_revision_stays_until_it_is_compacted() {
    let mut restarts = Restarts::default();
    assert_eq!(rules(&restarts.judge(seen(), faithful())), []);
    assert_eq!(restarts.newest(), 3);
    let keys = restarts.keys().map(|it| &it.key[..]);
    assert_eq!(keys.collect::<Vec<_>>(), ["b"]);
    let mut shown = faithful();
    shown[0].changes[0] = gone("z", 2);
    assert_eq!(rules(&restarts.judge(Vec::new(), shown)), [Rule::Ledger]);
    let older = faithful()[..1].to_vec();
    assert_eq!(rules(&restarts.judge(Vec::new(), older)), [Rule::Ledger]);
    restarts.may_be_compacted(2);
    let rest = faithful().split_off(1);
    assert_eq!(rules(&restarts.judge(Vec::new(), rest)), []);
}

#[test]
fn a_write_of_an_earlier_life_does_not_happen_later() {
    let mut restarts = Restarts::default();
    assert_eq!(rules(&restarts.judge(seen(), faithful())), []);
    let verdict = restarts.judge(Vec::new(), generous());
    assert_eq!(rules(&verdict), [Rule::Origin]);
}

#[test]
fn deletions_of_several_keys_without_an_answer_are_recognised() {
    let mut restarts = Restarts::default();
    let first = operation(10, batch(&[("a", "1"), ("b", "1")], &[]), done(2, &[]));
    assert_eq!(
        rules(&restarts.judge(vec![first], faithful()[..1].to_vec())),
        []
    );
    let lost = operation(20, batch(&[], &["a", "b"]), Outcome::unknown("killed"));
    let both = entry(3, &[gone("a", 3), gone("b", 3)]);
    let shown = [faithful()[..1].to_vec(), vec![both]].concat();
    let verdict = restarts.judge(vec![lost], shown);
    assert_eq!((rules(&verdict), verdict.survived), (vec![], 1));
}

#[test]
fn one_revision_for_two_writes_is_found() {
    let mut operations = seen();
    operations[1].outcome = done(2, &[]);
    let verdict = Restarts::default().judge(operations, faithful());
    assert!(rules(&verdict).contains(&Rule::Lost), "{verdict:?}");
}
