//! Watches under load: slow readers, restarts of readers, many streams.

use environment::randomness::Random;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use revisions::{Options, WatchOptions, WatchStream};
use tokio::runtime::Runtime;

use crate::script::soon;
use crate::store::{Store, bytes, small};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

fn request(key: &str, end: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: bytes(key),
        range_end: bytes(end),
        start_revision,
        ..WatchCreateRequest::default()
    }
}

/// A store with very small limits of its streams.
fn tight() -> Store {
    let watch = WatchOptions {
        queue_bytes_max: 600,
        catch_up_bytes: 500,
        ..WatchOptions::default()
    };
    Store::with(Options { watch, ..small() })
}

fn drain(runtime: &Runtime, stream: &WatchStream, most: usize) -> Vec<WatchResponse> {
    let mut responses = Vec::new();
    while responses.len() < most
        && let Some(response) = runtime.block_on(soon(stream))
    {
        responses.push(response);
    }
    responses
}

/// Revision and key of every event of a watch.
fn events(responses: &[WatchResponse], id: i64) -> Vec<(i64, String)> {
    let of_watch = responses.iter().filter(|response| response.watch_id == id);
    let kvs = of_watch
        .flat_map(|response| &response.events)
        .map(|event| event.kv.as_ref().unwrap());
    kvs.map(|kv| {
        (
            kv.mod_revision(),
            String::from_utf8(kv.key().to_vec()).unwrap(),
        )
    })
    .collect()
}

/// One revision's events of a watch come in one response.
fn assert_revisions_whole(responses: &[WatchResponse], id: i64) {
    let mut last = 0;
    for response in responses
        .iter()
        .filter(|response| response.watch_id == id && !response.events.is_empty())
    {
        let revisions: Vec<_> = response
            .events
            .iter()
            .map(|event| event.kv.as_ref().unwrap().mod_revision())
            .collect();
        assert!(
            last < revisions[0],
            "revision {last} goes on in another response"
        );
        assert!(revisions.is_sorted());
        last = *revisions.last().unwrap();
        assert!(response.header.as_ref().unwrap().revision >= last);
    }
}

#[test]
fn watchers_of_any_pace_see_everything_once_and_in_order() {
    let runtime = runtime();
    for seed in 0..25 {
        let mut random = Random::from_seed(seed);
        let mut store = tight();
        let mut happened: Vec<(i64, String)> = Vec::new();
        let mut streams: Vec<(WatchStream, i64, Vec<WatchResponse>)> = Vec::new();
        for step in 0..200 {
            let key = format!("k{}", random.below(5));
            let revision = if random.chance(1, 4) {
                let answer = store.delete(&key, "l");
                let revision = answer.header.unwrap().revision;
                happened.extend(
                    answer
                        .prev_kvs
                        .iter()
                        .map(|kv| (revision, String::from_utf8(kv.key().to_vec()).unwrap())),
                );
                revision
            } else {
                let revision = store
                    .put(&key, &"x".repeat(random.below(80) as usize))
                    .header
                    .unwrap()
                    .revision;
                happened.push((revision, key));
                revision
            };
            if step % 20 == 0 {
                let stream = store.reader.watch_hub().subscribe();
                let start = 1 + random.below(revision as u64 + 3) as i64;
                stream.create(request("k1", "k4", start));
                stream.create(request("k2", "", start));
                streams.push((stream, start, Vec::new()));
            }
            for (stream, _, seen) in &mut streams {
                if random.chance(1, 5) {
                    seen.extend(drain(&runtime, stream, random.below(4) as usize));
                }
            }
        }
        for (stream, start, mut seen) in streams {
            seen.extend(drain(&runtime, &stream, usize::MAX));
            let of = |wanted: &dyn Fn(&str) -> bool| {
                let meant = happened
                    .iter()
                    .filter(|(revision, key)| *revision >= start && wanted(key));
                meant.cloned().collect::<Vec<_>>()
            };
            assert_eq!(
                events(&seen, 0),
                of(&|key| ("k1".."k4").contains(&key)),
                "seed {seed}, from {start}"
            );
            assert_eq!(
                events(&seen, 1),
                of(&|key| key == "k2"),
                "seed {seed}, from {start}"
            );
            assert_revisions_whole(&seen, 0);
        }
    }
}

#[test]
fn a_stream_that_is_not_read_queues_a_bounded_amount_and_loses_nothing() {
    let runtime = runtime();
    let mut store = tight();
    let lazy = store.reader.watch_hub().subscribe();
    lazy.create(request("a", "\0", 0));
    let eager = store.reader.watch_hub().subscribe();
    eager.create(request("a", "\0", 0));
    let mut prompt = Vec::new();
    for number in 0..300 {
        store.put(&format!("key{number}"), &"x".repeat(50));
        prompt.extend(drain(&runtime, &eager, usize::MAX));
    }
    let statistics = store.reader.watch_hub().statistics();
    assert_eq!(
        (statistics.streams, statistics.watchers, statistics.behind),
        (2, 2, 1)
    );
    assert!(statistics.queued_events < 20, "{statistics:?}");
    assert_eq!(events(&prompt, 0).len(), 300);
    assert_eq!(
        events(&drain(&runtime, &lazy, usize::MAX), 0),
        events(&prompt, 0)
    );
    assert_eq!(store.reader.watch_hub().statistics().behind, 0);
}

#[test]
fn a_watcher_behind_a_compaction_is_canceled_with_its_revision() {
    let runtime = runtime();
    let mut store = tight();
    let stream = store.reader.watch_hub().subscribe();
    stream.create(request("a", "\0", 0));
    for number in 0..100 {
        store.put(&format!("key{number}"), &"x".repeat(50));
    }
    store.compact(90).unwrap();
    let seen = drain(&runtime, &stream, usize::MAX);
    let last = seen.last().unwrap();
    assert!(last.canceled && last.compact_revision == 90);
    assert!(
        !events(&seen, 0).is_empty(),
        "what was queued is delivered first"
    );
}

#[test]
fn a_large_transaction_comes_whole_unless_fragments_are_wanted() {
    let runtime = runtime();
    let watch = WatchOptions {
        response_bytes_max: 1_000,
        ..WatchOptions::default()
    };
    let mut store = Store::with(Options { watch, ..small() });
    let stream = store.reader.watch_hub().subscribe();
    stream.create(request("a", "\0", 0));
    stream.create(WatchCreateRequest {
        fragment: true,
        ..request("a", "\0", 0)
    });
    for number in 0..20 {
        store.put(&format!("key{number:02}"), &"x".repeat(100));
    }
    drain(&runtime, &stream, usize::MAX);
    store.delete("a", "\0");
    // Now everything again, in one revision, through history.
    stream.create(WatchCreateRequest {
        fragment: true,
        prev_kv: true,
        ..request("a", "\0", 22)
    });
    let seen = drain(&runtime, &stream, usize::MAX);
    let parts = |id| {
        seen.iter()
            .filter(|response| response.watch_id == id && !response.events.is_empty())
            .collect::<Vec<_>>()
    };
    assert_eq!(parts(0).len(), 1);
    assert_eq!(parts(1).len(), 1, "deletions without values are small");
    let large = parts(2);
    assert!(large.len() > 2);
    assert!(
        large[..large.len() - 1].iter().all(|part| part.fragment)
            && !large[large.len() - 1].fragment
    );
    assert_eq!(events(&seen, 2).len(), 20);
}

#[test]
fn only_streams_with_a_match_are_woken() {
    let mut store = Store::new();
    let runtime = runtime();
    let hub = store.reader.watch_hub().clone();
    let streams: Vec<_> = (0..50).map(|_| hub.subscribe()).collect();
    for (number, stream) in streams.iter().enumerate() {
        stream.create(request(
            &format!("tenant{number:02}/"),
            &format!("tenant{number:02}0"),
            0,
        ));
        drain(&runtime, stream, usize::MAX);
    }
    store.put("tenant07/x", "1");
    assert_eq!(hub.statistics().queued_events, 1);
    assert_eq!(drain(&runtime, &streams[7], usize::MAX).len(), 1);
}

#[test]
fn a_dropped_stream_leaves_nothing_behind() {
    let mut store = Store::new();
    let hub = store.reader.watch_hub().clone();
    for _ in 0..10 {
        let stream = hub.subscribe();
        stream.create(request("a", "", 0));
        stream.create(request("a", "z", 0));
        stream.create(request("b", "\0", 0));
    }
    store.put("b", "1");
    assert_eq!(hub.statistics(), Default::default());
}

#[test]
fn a_client_that_does_not_read_is_not_asked_for_more() {
    let watch = WatchOptions {
        control_responses_max: 3,
        ..WatchOptions::default()
    };
    let store = Store::with(Options { watch, ..small() });
    let stream = store.reader.watch_hub().subscribe();
    let runtime = runtime();
    let accepts = |stream: &WatchStream| {
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = stream.accepts_requests() => true,
                () = tokio::task::yield_now() => false,
            }
        })
    };
    for _ in 0..3 {
        assert!(accepts(&stream));
        stream.create(request("a", "", 0));
    }
    assert!(!accepts(&stream));
    drain(&runtime, &stream, 1);
    assert!(accepts(&stream));
}

#[test]
fn a_progress_request_is_answered_behind_the_events() {
    let runtime = runtime();
    let mut store = tight();
    for number in 0..50 {
        store.put(&format!("key{number}"), "x");
    }
    let stream = store.reader.watch_hub().subscribe();
    stream.create(request("key", "kez", 1));
    stream.request_progress();
    let seen = drain(&runtime, &stream, usize::MAX);
    let notice = seen.last().unwrap();
    assert_eq!(
        (notice.watch_id, notice.header.as_ref().unwrap().revision),
        (-1, 51)
    );
    assert_eq!(events(&seen, 0).len(), 50);
}

#[test]
fn a_closed_hub_ends_its_streams_after_what_is_queued() {
    let mut store = Store::new();
    let stream = store.reader.watch_hub().subscribe();
    stream.create(request("a", "", 0));
    store.put("a", "1");
    store.reader.watch_hub().close();
    let runtime = runtime();
    assert!(runtime.block_on(stream.next()).unwrap().created);
    assert_eq!(runtime.block_on(stream.next()).unwrap().events.len(), 1);
    assert!(runtime.block_on(stream.next()).is_none());
}

#[test]
fn streams_on_other_threads_miss_nothing_while_the_machine_runs() {
    const REVISIONS: i64 = 1_500;
    let mut store = tight();
    let reads: Vec<_> = (0..4)
        .map(|number: i64| {
            let stream = store.reader.watch_hub().subscribe();
            stream.create(request("k", "l", number % 2));
            let read = move || {
                runtime().block_on(async {
                    let mut seen = Vec::new();
                    while events(&seen, 0)
                        .last()
                        .is_none_or(|last| last.0 < REVISIONS)
                    {
                        seen.push(stream.next().await.unwrap());
                    }
                    events(&seen, 0)
                })
            };
            environment::threads::spawn("watcher", read).unwrap()
        })
        .collect();
    for revision in 2..=REVISIONS {
        store.put(&format!("k{}", revision % 7), "x");
    }
    let expected: Vec<_> = (2..=REVISIONS)
        .map(|main| (main, format!("k{}", main % 7)))
        .collect();
    for read in reads {
        assert_eq!(read.join().unwrap(), expected);
    }
}

#[test]
fn a_watch_from_revision_1_of_an_empty_store_is_synced_and_gets_progress() {
    let runtime = runtime();
    let mut store = Store::with(small());
    let stream = store.reader.watch_hub().subscribe();
    stream.create(request("a", "\0", 1));
    let seen = drain(&runtime, &stream, usize::MAX);
    assert!(seen[0].created, "{seen:?}");
    assert_eq!(store.reader.watch_hub().statistics().behind, 0);
    stream.request_progress();
    let seen = drain(&runtime, &stream, usize::MAX);
    let revision = seen[0].header.as_ref().unwrap().revision;
    assert_eq!((seen[0].watch_id, revision), (-1, 1));
    store.put("a", "1");
    let seen = drain(&runtime, &stream, usize::MAX);
    assert_eq!(events(&seen, 0), [(2, "a".to_owned())]);
}

#[test]
fn a_large_revision_is_read_from_the_log_by_the_watchers_it_concerns() {
    let runtime = runtime();
    let watch = WatchOptions {
        large_revision_changes: 10,
        ..WatchOptions::default()
    };
    let mut store = Store::with(Options { watch, ..small() });
    let (concerned, other) = (
        store.reader.watch_hub().subscribe(),
        store.reader.watch_hub().subscribe(),
    );
    concerned.create(request("a", "b", 0));
    concerned.create(request("a05", "", 0));
    other.create(request("z", "", 0));
    for number in 0..20 {
        store.put(&format!("a{number:02}"), "1");
    }
    drain(&runtime, &concerned, usize::MAX);
    store.delete("a", "b");
    assert_eq!(store.reader.watch_hub().statistics().behind, 2);
    store.put("a05", "2");
    let seen = drain(&runtime, &concerned, usize::MAX);
    let all = events(&seen, 0);
    assert_eq!(all.len(), 21);
    assert!(all[..20].iter().all(|(revision, _)| *revision == 22));
    assert_eq!(all[20], (23, "a05".to_owned()));
    assert_revisions_whole(&seen, 0);
    assert_eq!(
        events(&seen, 1),
        [(22, "a05".to_owned()), (23, "a05".to_owned())]
    );
    assert_eq!(store.reader.watch_hub().statistics().behind, 0);
    assert!(drain(&runtime, &other, usize::MAX)[1..].is_empty());
}

#[test]
fn streams_that_are_not_read_share_one_bound_and_lose_nothing() {
    let runtime = runtime();
    let watch = WatchOptions {
        queue_bytes_max: 160_000,
        total_queue_bytes_max: 200_000,
        ..WatchOptions::default()
    };
    let mut store = Store::with(Options { watch, ..small() });
    let streams: Vec<WatchStream> = (0..30)
        .map(|_| {
            let stream = store.reader.watch_hub().subscribe();
            stream.create(request("a", "\0", 0));
            stream
        })
        .collect();
    for number in 0..400 {
        store.put(&format!("key{number:03}"), &"x".repeat(100));
    }
    let statistics = store.reader.watch_hub().statistics();
    // Beyond 200,000 bytes each stream may queue a sixteenth of its own bound.
    assert!(
        statistics.queued_events * 100 < 2 * 200_000 + 30 * 10_000,
        "{statistics:?}"
    );
    assert!(statistics.behind > 20, "{statistics:?}");
    for stream in &streams {
        assert_eq!(events(&drain(&runtime, stream, usize::MAX), 0).len(), 400);
    }
    drop(streams);
    let again = store.reader.watch_hub().subscribe();
    again.create(request("a", "\0", 2));
    assert_eq!(events(&drain(&runtime, &again, usize::MAX), 0).len(), 400);
}

/// A pass of catching up finds a bounded number of events for all its watches together, however
/// many watch the same keys.
#[test]
fn many_watches_that_catch_up_on_one_stream_queue_one_revision_each_at_most() {
    let runtime = runtime();
    let mut store = tight();
    let (puts, watches) = (40, 50);
    for _ in 0..puts {
        store.put("k", &"x".repeat(100));
    }
    let hub = store.reader.watch_hub().clone();
    let stream = hub.subscribe();
    for _ in 0..watches {
        stream.create(request("k", "", 2));
    }
    let (mut responses, mut queued_most) = (Vec::new(), 0);
    while let Some(response) = runtime.block_on(soon(&stream)) {
        responses.push(response);
        queued_most = queued_most.max(hub.statistics().queued_events);
    }
    for id in 0..watches {
        assert_eq!(events(&responses, id).len(), puts, "watch {id}");
    }
    assert!(queued_most > 0);
    assert!(queued_most <= watches as usize, "{queued_most} were queued");
}
