//! One right history, and for each rule changes that break it.

use history::{
    Answer, Change, Delivery, Entry, History, Operation, Outcome, Request, Rule, Version, Watch,
    check,
};

const SECOND: u64 = 1_000_000_000;

/// Builds histories step by step; each operation takes a second of its own.
#[derive(Default)]
struct Story {
    history: History,
    now: u64,
}

impl Story {
    fn operation(&mut self, request: Request, outcome: Outcome) -> &mut Operation {
        self.now += SECOND;
        self.history.operations.push(Operation {
            client: 1,
            member: 0,
            life: Some(1),
            called: self.now,
            returned: self.now + SECOND / 2,
            request,
            outcome,
        });
        self.history.operations.last_mut().expect("it was pushed")
    }

    fn done(&mut self, request: Request, revision: i64, versions: &[Version]) -> &mut Operation {
        let answer = Answer {
            revision,
            succeeded: true,
            versions: versions.to_vec(),
            seconds: 0,
        };
        self.operation(request, Outcome::Done(answer))
    }

    fn failed(&mut self, request: Request, revision: i64, versions: &[Version]) {
        let answer = Answer {
            revision,
            succeeded: false,
            versions: versions.to_vec(),
            seconds: 0,
        };
        self.operation(request, Outcome::Done(answer));
    }

    fn granted(&mut self, request: Request, revision: i64, seconds: i64) {
        let answer = Answer {
            revision,
            succeeded: true,
            versions: Vec::new(),
            seconds,
        };
        self.operation(request, Outcome::Done(answer));
    }

    fn unknown(&mut self, request: Request) {
        self.operation(request, Outcome::unknown("no answer"));
    }

    fn enter(&mut self, changes: &[Change]) {
        self.history.ledger.push(Entry {
            revision: self.history.ledger.len() as i64 + 2,
            changes: changes.to_vec(),
        });
    }

    fn watch(&mut self, first: i64, deliveries: &[(i64, &[Change])]) -> &mut Watch {
        self.now += SECOND;
        let deliveries = deliveries.iter().map(|(revision, changes)| Delivery {
            at: self.now,
            revision: *revision,
            changes: changes.to_vec(),
        });
        self.history.watches.push(Watch {
            client: 2,
            member: 0,
            key: "a".to_owned(),
            end: "z".to_owned(),
            first,
            called: self.now,
            deliveries: deliveries.collect(),
        });
        self.history.watches.last_mut().expect("it was pushed")
    }

    /// The rules that are broken, each once.
    fn broken(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = check(&self.history).iter().map(|it| it.rule).collect();
        rules.dedup();
        rules
    }
}

fn version(key: &str, value: &str, created: i64, modified: i64, version: i64) -> Version {
    Version {
        key: key.to_owned(),
        value: value.to_owned(),
        created,
        modified,
        version,
        lease: 0,
    }
}

fn leased(key: &str, value: &str, revision: i64, lease: i64) -> Version {
    Version {
        lease,
        ..version(key, value, revision, revision, 1)
    }
}

fn gone(key: &str, modified: i64) -> Change {
    Change::Delete {
        key: key.to_owned(),
        modified,
    }
}

fn put(key: &str, value: &str) -> Request {
    Request::Put {
        key: key.to_owned(),
        value: value.to_owned(),
        lease: 0,
        previous: false,
    }
}

fn attach(key: &str, value: &str, lease: i64) -> Request {
    Request::Put {
        key: key.to_owned(),
        value: value.to_owned(),
        lease,
        previous: false,
    }
}

fn delete(key: &str) -> Request {
    Request::Delete {
        key: key.to_owned(),
    }
}

fn get(key: &str) -> Request {
    Request::Get {
        key: key.to_owned(),
        end: String::new(),
        revision: 0,
        serializable: false,
    }
}

fn serializable(key: &str) -> Request {
    Request::Get {
        key: key.to_owned(),
        end: String::new(),
        revision: 0,
        serializable: true,
    }
}

fn swap(key: &str, expected: i64, value: &str) -> Request {
    Request::Swap {
        key: key.to_owned(),
        expected,
        puts: vec![(key.to_owned(), value.to_owned())],
    }
}

/// `x`: put at 2, swapped at 3, deleted at 4; `y`: put at 5.
fn right() -> Story {
    let mut story = Story::default();
    let (first, second) = (version("x", "1", 2, 2, 1), version("x", "2", 2, 3, 2));
    story.done(put("x", "1"), 2, &[]);
    story.done(get("x"), 2, std::slice::from_ref(&first));
    story.done(swap("x", 2, "2"), 3, &[]);
    story.failed(swap("x", 2, "3"), 3, std::slice::from_ref(&second));
    story.done(serializable("x"), 3, std::slice::from_ref(&second));
    story.done(delete("x"), 4, std::slice::from_ref(&second));
    story.failed(delete("x"), 4, &[]);
    story.unknown(put("y", "4"));
    story.unknown(put("y", "5"));
    let last = version("y", "4", 5, 5, 1);
    story.done(get("y"), 5, std::slice::from_ref(&last));
    let changes = [
        Change::Put(first),
        Change::Put(second),
        gone("x", 4),
        Change::Put(last),
    ];
    for change in &changes {
        story.enter(std::slice::from_ref(change));
    }
    story.watch(2, &[(3, &changes[..2]), (3, &[]), (5, &changes[2..])]);
    story
}

/// A lease of ten seconds from the first second on, with two keys. It ended at
/// revision 4, which was known a second and a half after `seen_after`.
fn with_a_lease(seen_after: u64) -> Story {
    let mut story = Story::default();
    story.granted(
        Request::Grant {
            lease: 7,
            seconds: 10,
        },
        1,
        10,
    );
    story.done(attach("x", "1", 7), 2, &[]);
    story.done(attach("y", "2", 7), 3, &[]);
    story.enter(&[Change::Put(leased("x", "1", 2, 7))]);
    story.enter(&[Change::Put(leased("y", "2", 3, 7))]);
    story.enter(&[gone("x", 4), gone("y", 4)]);
    story.now = seen_after;
    story.done(get("x"), 4, &[]);
    story
}

#[test]
fn a_right_history_breaks_no_rule() {
    assert_eq!(check(&right().history), []);
}

#[test]
fn ledger_a_gap_is_found() {
    let mut story = right();
    story.history.ledger[3].revision = 6;
    assert!(story.broken().contains(&Rule::Ledger));
}

#[test]
fn ledger_a_wrong_version_is_found() {
    let mut story = right();
    story.history.ledger[1].changes = vec![Change::Put(version("x", "2", 2, 3, 3))];
    assert!(story.broken().contains(&Rule::Ledger));
}

#[test]
fn lost_an_acknowledged_write_is_missed() {
    let mut story = right();
    story.done(put("z", "6"), 6, &[]);
    assert_eq!(story.broken(), [Rule::Lost]);
}

#[test]
fn lost_one_revision_for_two_writes_is_found() {
    let mut story = right();
    let again = story.done(put("y", "4"), 5, &[]);
    (again.called, again.returned) = (0, 100 * SECOND);
    let again = story.done(put("y", "9"), 5, &[]);
    (again.called, again.returned) = (0, 100 * SECOND);
    assert_eq!(story.broken(), [Rule::Lost]);
}

#[test]
fn origin_a_change_without_a_writer_is_found() {
    let mut story = right();
    story.enter(&[Change::Put(version("z", "7", 6, 6, 1))]);
    assert_eq!(story.broken(), [Rule::Origin]);
}

#[test]
fn origin_a_refused_write_that_happened_is_found() {
    let mut story = right();
    story.operation(put("z", "7"), Outcome::refused("no space"));
    story.enter(&[Change::Put(version("z", "7", 6, 6, 1))]);
    assert_eq!(story.broken(), [Rule::Origin]);
}

#[test]
fn origin_an_unknown_write_does_not_happen_before_it_is_called() {
    let mut story = Story::default();
    story.done(put("x", "2"), 3, &[]);
    story.unknown(put("y", "1"));
    story.enter(&[Change::Put(version("y", "1", 2, 2, 1))]);
    story.enter(&[Change::Put(version("x", "2", 3, 3, 1))]);
    assert_eq!(story.broken(), [Rule::Origin]);
}

#[test]
fn origin_an_unknown_deletion_happens_once() {
    let mut story = Story::default();
    story.done(put("x", "1"), 2, &[]);
    story.unknown(delete("x"));
    story.unknown(put("x", "2"));
    story.enter(&[Change::Put(version("x", "1", 2, 2, 1))]);
    story.enter(&[gone("x", 3)]);
    story.enter(&[Change::Put(version("x", "2", 4, 4, 1))]);
    assert_eq!(check(&story.history), []);
    story.enter(&[gone("x", 5)]);
    assert_eq!(story.broken(), [Rule::Origin]);
}

#[test]
fn origin_an_unknown_swap_happens_only_if_its_comparison_held() {
    let mut story = Story::default();
    story.done(put("x", "1"), 2, &[]);
    story.unknown(swap("x", 9, "2"));
    story.enter(&[Change::Put(version("x", "1", 2, 2, 1))]);
    story.enter(&[Change::Put(version("x", "2", 2, 3, 2))]);
    assert_eq!(story.broken(), [Rule::Origin]);
}

#[test]
fn order_a_read_behind_an_acknowledged_write_is_found() {
    let mut story = right();
    story.done(get("y"), 4, &[]);
    assert_eq!(story.broken(), [Rule::Order]);
}

#[test]
fn order_a_read_behind_a_delivery_is_found() {
    let mut story = right();
    story.history.operations.pop();
    story.done(get("y"), 4, &[]);
    assert_eq!(story.broken(), [Rule::Order]);
}

#[test]
fn order_of_concurrent_operations_is_free() {
    let mut story = right();
    let late = story.done(get("y"), 4, &[]);
    late.called = 0;
    assert_eq!(check(&story.history), []);
}

#[test]
fn contents_a_wrong_value_or_field_is_found() {
    for wrong in [version("y", "5", 5, 5, 1), version("y", "4", 5, 5, 2)] {
        let mut story = right();
        story.done(get("y"), 5, &[wrong]);
        assert_eq!(story.broken(), [Rule::Contents]);
    }
}

#[test]
fn contents_a_swap_that_should_have_failed_is_found() {
    let mut story = right();
    story.done(swap("y", 4, "6"), 6, &[]);
    story.enter(&[Change::Put(version("y", "6", 5, 6, 2))]);
    assert_eq!(story.broken(), [Rule::Contents]);
}

#[test]
fn contents_a_swap_that_should_have_succeeded_is_found() {
    let mut story = right();
    story.failed(swap("y", 5, "6"), 5, &[version("y", "4", 5, 5, 1)]);
    assert_eq!(story.broken(), [Rule::Contents]);
}

#[test]
fn contents_a_deletion_of_something_that_found_nothing_is_found() {
    let mut story = right();
    story.failed(delete("y"), 5, &[]);
    assert_eq!(story.broken(), [Rule::Contents]);
}

#[test]
fn contents_a_read_of_the_past_is_held_against_the_past() {
    let past = |versions: &[Version]| {
        let mut story = right();
        let mut request = get("x");
        if let Request::Get { revision, .. } = &mut request {
            *revision = 2;
        }
        story.done(request, 5, versions);
        story.broken()
    };
    assert_eq!(past(&[version("x", "1", 2, 2, 1)]), []);
    assert_eq!(past(&[]), [Rule::Contents]);
}

#[test]
fn backwards_a_member_that_forgets_is_found_within_one_life() {
    let mut story = right();
    story.done(serializable("x"), 3, &[version("x", "2", 2, 3, 2)]);
    assert_eq!(story.broken(), [Rule::Backwards]);
    let last = story.history.operations.last_mut().unwrap();
    last.life = Some(2);
    assert_eq!(check(&story.history), []);
}

#[test]
fn future_a_revision_that_never_was_is_found() {
    let mut story = right();
    story.done(serializable("y"), 9, &[version("y", "4", 5, 5, 1)]);
    assert_eq!(story.broken(), [Rule::Future]);
}

#[test]
fn watch_a_missed_repeated_or_split_delivery_is_found() {
    let (one, two) = (version("x", "1", 2, 2, 1), version("y", "1", 2, 2, 1));
    let later = version("x", "2", 2, 3, 2);
    let base = || {
        let mut story = Story::default();
        let puts = [("x", "1"), ("y", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let both = Request::Swap {
            key: "x".to_owned(),
            expected: 0,
            puts: puts.to_vec(),
        };
        story.done(both, 2, &[]);
        story.done(put("x", "2"), 3, &[]);
        story.enter(&[Change::Put(one.clone()), Change::Put(two.clone())]);
        story.enter(&[Change::Put(later.clone())]);
        story
    };
    let both = [Change::Put(one.clone()), Change::Put(two.clone())];
    let last = [Change::Put(later.clone())];
    let all = [both.to_vec(), last.to_vec()].concat();
    let broken = |deliveries: &[(i64, &[Change])]| {
        let mut story = base();
        story.watch(2, deliveries);
        story.broken()
    };
    assert_eq!(broken(&[(3, &all)]), []);
    assert_eq!(broken(&[(2, &both), (3, &last), (3, &[])]), []);
    assert_eq!(broken(&[(3, &last)]), [Rule::Watch], "missed");
    assert_eq!(broken(&[(2, &both[..1])]), [Rule::Watch], "split");
    assert_eq!(broken(&[(3, &all), (3, &last)]), [Rule::Watch], "repeated");
    assert_eq!(broken(&[(3, &[])]), [Rule::Watch], "progress without");
    let invented = [Change::Put(version("z", "1", 4, 4, 1))];
    assert_eq!(broken(&[(3, &all), (4, &invented)]), [Rule::Watch]);
}

#[test]
fn watch_of_a_key_waits_for_nothing_else() {
    let mut story = right();
    let last = [Change::Put(version("y", "4", 5, 5, 1))];
    let watch = story.watch(2, &[(4, &[]), (5, &last)]);
    (watch.key, watch.end) = ("y".to_owned(), String::new());
    assert_eq!(check(&story.history), []);
}

#[test]
fn order_a_delivery_before_the_write_began_is_found() {
    let mut story = Story::default();
    let change = Change::Put(version("x", "1", 2, 2, 1));
    story.enter(std::slice::from_ref(&change));
    story.watch(2, &[(2, &[change])]);
    story.done(put("x", "1"), 2, &[]);
    assert_eq!(story.broken(), [Rule::Order]);
}

#[test]
fn lease_keys_go_after_their_time_or_when_revoked() {
    assert_eq!(check(&with_a_lease(11 * SECOND).history), []);
    let early = with_a_lease(3 * SECOND);
    assert_eq!(early.broken(), [Rule::Lease]);
    let mut revoked = with_a_lease(3 * SECOND);
    revoked.unknown(Request::Revoke { lease: 7 });
    revoked.history.operations.last_mut().unwrap().called = SECOND;
    assert_eq!(check(&revoked.history), []);
}

#[test]
fn lease_a_fast_clock_is_allowed_for() {
    let mut story = with_a_lease(6 * SECOND);
    assert_eq!(story.broken(), [Rule::Lease]);
    story.history.clock_error_percent = 100;
    assert_eq!(check(&story.history), []);
}

#[test]
fn lease_a_renewal_after_the_end_is_found() {
    let mut story = with_a_lease(11 * SECOND);
    story.granted(Request::Renew { lease: 7 }, 4, 2);
    assert_eq!(story.broken(), [Rule::Lease]);
}

#[test]
fn lease_a_renewed_lease_that_ends_early_is_found() {
    let mut story = with_a_lease(11 * SECOND);
    let read = story.history.operations.pop().unwrap();
    story.now = read.called - SECOND - SECOND / 10;
    story.granted(Request::Renew { lease: 7 }, 3, 2);
    story.history.operations.push(read);
    assert_eq!(story.broken(), [Rule::Lease]);
}

#[test]
fn lease_keys_that_outlive_a_revocation_are_found() {
    let mut story = with_a_lease(11 * SECOND);
    story.history.ledger.pop();
    story.history.operations.pop();
    story.granted(Request::Revoke { lease: 7 }, 3, 0);
    assert_eq!(story.broken(), [Rule::Lease]);
}

#[test]
fn origin_half_of_a_lease_is_no_end_of_it() {
    let mut story = with_a_lease(11 * SECOND);
    story.history.ledger[2].changes.pop();
    assert_eq!(story.broken(), [Rule::Origin]);
}

#[test]
fn lease_a_key_attached_after_the_end_is_found() {
    let mut story = with_a_lease(11 * SECOND);
    story.done(attach("z", "3", 7), 5, &[]);
    story.enter(&[Change::Put(leased("z", "3", 5, 7))]);
    assert_eq!(story.broken(), [Rule::Lease]);
}

#[test]
fn a_violation_names_what_and_when() {
    let mut story = right();
    story.done(get("y"), 4, &[]);
    let text = check(&story.history)[0].to_string();
    assert!(text.contains("Order: revision 4"), "{text}");
    assert!(text.contains("12.000000 s"), "{text}");
    assert!(text.contains("client 1 at member 0: Get"), "{text}");
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    let mut story = right();
    story.granted(Request::Renew { lease: 7 }, 5, 2);
    story.operation(delete("y"), Outcome::refused("why"));
    story.history.clock_error_percent = 25;
    story.history.operations[0].life = None;
    let mut bytes = Vec::new();
    history::write(&story.history, &mut bytes).unwrap();
    assert_eq!(history::read(&bytes[..]).unwrap(), story.history);
    let wrong = String::from_utf8(bytes).unwrap().replace("swap", "swop");
    let error = history::read(wrong.as_bytes()).unwrap_err().to_string();
    assert!(
        error.contains("line 4") && error.contains("swop"),
        "{error}"
    );
}
