//! Children of a prefix against a naive model: a list of all keys, folded one by one.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest};
use etcd_api::inkstonepb::{Child, ChildrenRequest, ChildrenResponse};
use revisions::{Command, Error};

use crate::store::{Store, bytes, small};

/// Letters of random keys: few, so that names are often prefixes of others, and with both ends of the
/// alphabet of bytes.
const LETTERS: [u8; 5] = [0, b'/', b'0', b'a', u8::MAX];

fn random_key(random: &mut Random) -> Bytes {
    let letters = (0..=random.below(5)).map(|_| *random.pick(&LETTERS));
    letters.collect::<Vec<u8>>().into()
}

/// The start or the end of a range: none in half of the cases.
fn random_bound(random: &mut Random) -> Bytes {
    match random.chance(1, 2) {
        true => Bytes::new(),
        false => random_key(random),
    }
}

fn folder(prefix: impl Into<Bytes>) -> ChildrenRequest {
    ChildrenRequest {
        prefix: prefix.into(),
        ..ChildrenRequest::default()
    }
}

/// All children, page by page.
fn listed(store: &Store, request: &ChildrenRequest) -> (Vec<Child>, ChildrenResponse) {
    let (mut request, mut children) = (request.clone(), Vec::new());
    loop {
        let response = store.reader.children(&request).unwrap();
        children.extend(response.children.iter().cloned());
        if response.next.is_empty() {
            return (children, response);
        }
        assert!(response.next > request.from, "each page goes on");
        request.from = response.next.clone();
        request.revision = response.revision;
    }
}

/// The children according to the whole list of keys: for each name, whether it is a prefix, and the
/// number of its keys.
fn expected(
    keys: &BTreeSet<Bytes>,
    request: &ChildrenRequest,
    separator: &[u8],
) -> BTreeMap<(Bytes, bool), i64> {
    let (prefix, end) = (&request.prefix[..], &request.range_end);
    let is_open = matches!(end[..], [] | [0]);
    let is_within =
        |key: &&Bytes| key.starts_with(prefix) && **key >= request.key && (is_open || *key < end);
    let mut children = BTreeMap::new();
    for key in keys.iter().filter(is_within) {
        let rest = &key[prefix.len()..];
        let place = (0..rest.len()).find(|place| rest[*place..].starts_with(separator));
        let name = place.map(|place| key.slice(..prefix.len() + place + separator.len()));
        let child = name.map_or((key.clone(), false), |name| (name, true));
        *children.entry(child).or_insert(0) += 1;
    }
    children
}

fn folded(children: &[Child]) -> BTreeMap<(Bytes, bool), i64> {
    let count = |child: &Child| if child.is_prefix { child.count } else { 1 };
    let entries = children.iter();
    let entries = entries.map(|child| ((child.name.clone(), child.is_prefix), count(child)));
    entries.collect()
}

#[test]
fn children_are_those_of_the_whole_list_at_each_revision_and_page_size() {
    for seed in 0..8 {
        let mut random = Random::from_seed(seed);
        let mut store = Store::new();
        // The keys at each revision.
        let mut moments = vec![BTreeSet::new(), BTreeSet::new()];
        while moments.len() < 80 {
            let mut keys = moments.last().unwrap().clone();
            let key = random_key(&mut random);
            if random.chance(1, 4) {
                if !keys.remove(&key) {
                    continue;
                }
                let request = DeleteRangeRequest {
                    key,
                    ..DeleteRangeRequest::default()
                };
                store.run(Command::DeleteRange(request)).unwrap();
            } else {
                put(&mut store, &key, 10);
                keys.insert(key);
            }
            moments.push(keys);
        }
        if seed % 2 == 1 {
            store.compact(20).unwrap();
        }
        let first: i64 = if seed % 2 == 1 { 20 } else { 1 };
        for _ in 0..200 {
            let at = first + random.below(moments.len() as u64 - first as u64) as i64;
            let prefix = match random.chance(1, 3) {
                true => Bytes::new(),
                false => random_key(&mut random).slice(..1),
            };
            let separator = *random.pick(&["", "/", "0", "a/", "/0"]);
            let request = ChildrenRequest {
                separator: separator.to_owned(),
                revision: at,
                limit: random.below(4) as i64,
                key: random_bound(&mut random),
                range_end: random_bound(&mut random),
                ..folder(prefix)
            };
            let (children, last) = listed(&store, &request);
            let separator = if separator.is_empty() { "/" } else { separator };
            let expected = expected(&moments[at as usize], &request, separator.as_bytes());
            assert_eq!(folded(&children), expected, "{request:?}");
            assert!(
                children.is_sorted_by(|one, other| one.name < other.name),
                "{request:?}"
            );
            assert_eq!(last.total_count, expected.values().sum::<i64>());
            assert_eq!(last.revision, at);
            let is_exact = |child: &Child| !child.count_at_least && !child.bytes_estimated;
            assert!(children.iter().all(is_exact) && !last.total_at_least);
        }
    }
}

fn put(store: &mut Store, key: &[u8], value_bytes: usize) {
    let request = PutRequest {
        key: Bytes::copy_from_slice(key),
        value: vec![7; value_bytes].into(),
        ..PutRequest::default()
    };
    store.try_put(request).unwrap();
}

#[test]
fn bytes_of_a_prefix_are_those_of_its_records() {
    let mut store = Store::new();
    for (key, value_bytes) in [("a", 100), ("b/1", 1000), ("b/2", 2000)] {
        put(&mut store, key.as_bytes(), value_bytes);
    }
    let (children, _) = listed(&store, &folder(""));
    let sizes: Vec<i64> = children.iter().map(|child| child.bytes).collect();
    assert!(
        (100..200).contains(&sizes[0]) && (3000..3200).contains(&sizes[1]),
        "{sizes:?}"
    );
    assert_eq!(children[0].mod_revision, 2);
    assert_eq!(children[1].mod_revision, 0);
    let all = RangeRequest {
        key: bytes("b/"),
        range_end: bytes("b0"),
        ..RangeRequest::default()
    };
    let found = store.reader.find_range(&all).unwrap();
    assert_eq!(sizes[1], found.log_bytes() as i64);
}

#[test]
fn revisions_are_refused_as_in_a_range() {
    let mut store = Store::new();
    for _ in 0..9 {
        put(&mut store, b"a", 1);
    }
    store.compact(5).unwrap();
    let at = |revision| ChildrenRequest {
        revision,
        ..folder("")
    };
    for revision in [4, 11] {
        let range = RangeRequest {
            revision,
            ..crate::store::range("a", "b")
        };
        let refused = store.reader.children(&at(revision)).unwrap_err();
        let of_range = store.reader.range(&range).unwrap_err();
        assert_eq!(refused.to_string(), of_range.to_string());
        assert!(matches!(
            refused,
            Error::Etcd(Refusal::Compacted | Refusal::FutureRevision)
        ));
    }
    assert_eq!(store.reader.children(&at(5)).unwrap().total_count, 1);
}

/// As many children as there are keys, and long names: an answer ends at a bound, and the next one
/// goes on behind it.
#[test]
fn long_names_end_an_answer_before_its_limit() {
    let mut options = small();
    options.engine.log.segment_bytes = 4 << 20;
    let mut store = Store::with(options);
    for number in 0..8 {
        let name = vec![b'a' + number; 100_000];
        put(&mut store, &[&name[..], b"/1"].concat(), 1);
    }
    let first = store.reader.children(&folder("")).unwrap();
    assert_eq!(first.children.len(), 3, "a name may exceed the bound");
    let (children, _) = listed(&store, &folder(""));
    assert_eq!(children.len(), 8);
    assert!(
        children
            .iter()
            .all(|child| child.count == 1 && child.is_prefix)
    );
}

#[test]
fn an_answer_has_at_most_a_thousand_children_and_by_default_two_hundred() {
    let mut store = Store::new();
    for number in 0..1200 {
        put(&mut store, format!("{number:04}/x").as_bytes(), 1);
    }
    for (limit, expected) in [(0, 200), (-1, 200), (7, 7), (1000, 1000), (5000, 1000)] {
        let request = ChildrenRequest {
            limit,
            ..folder("")
        };
        let response = store.reader.children(&request).unwrap();
        assert_eq!(response.children.len(), expected, "limit {limit}");
        assert_eq!(response.next, format!("{expected:04}/x"));
        assert_eq!(response.total_count, 1200);
    }
    let exact = ChildrenRequest {
        limit: 10,
        ..folder("119")
    };
    let response = store.reader.children(&exact).unwrap();
    assert_eq!(
        (response.children.len(), &response.next[..]),
        (10, &b""[..])
    );
}

#[test]
fn a_beginning_outside_of_the_prefix_shows_no_other_key() {
    let mut store = Store::new();
    for key in ["a/1", "b/1", "b/2", "c/1"] {
        put(&mut store, key.as_bytes(), 1);
    }
    for (from, names) in [
        ("a", vec!["b/1", "b/2"]),
        ("b/2", vec!["b/2"]),
        ("b0", vec![]),
        ("c/", vec![]),
    ] {
        let request = ChildrenRequest {
            from: bytes(from),
            ..folder("b/")
        };
        let response = store.reader.children(&request).unwrap();
        let found: Vec<&[u8]> = response
            .children
            .iter()
            .map(|child| &child.name[..])
            .collect();
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        assert_eq!(found, names, "from {from}");
        assert_eq!(response.total_count, 2);
    }
}
