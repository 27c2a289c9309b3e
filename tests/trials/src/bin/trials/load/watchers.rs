//! Watchers: some on all keys, which continue where they broke, some on the present keys,
//! which begin at any revision, and some that never read.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use etcd_api::etcdserverpb::{
    WatchCancelRequest, WatchProgressRequest, WatchResponse, watch_request::RequestUnion,
};
use history::{Change, Delivery, Watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Keys, PAST_REVISIONS};
use crate::{
    caller::Caller,
    client::{self, END_KEY, FIRST_KEY, Stream},
    process::Outcome,
    recorder::Recorder,
};

/// A watcher without a message for this long changes to another member.
const SILENCE: Duration = Duration::from_secs(6);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
/// Most watches on one stream.
const WATCHES_MAX: u64 = 4;
const GLANCE_MILLISECONDS_MAX: u64 = 4_000;
const SULKING_MILLISECONDS_MAX: u64 = 15_000;

/// The last revision of all, once it is known.
pub type Last = tokio::sync::watch::Receiver<Option<i64>>;

/// Watches on one stream.
struct Observer {
    caller: Caller,
    watches: Vec<Watch>,
    /// Ids of the watches that were created, in their order.
    ids: Vec<i64>,
    last: Last,
}

/// Watches all keys from the first revision on, at any member, until it has
/// seen the revision that `last` gets at the end.
pub async fn follow(caller: Caller, last: Last) -> Outcome {
    let mut observer = Observer::new(caller, last);
    let mut first = 2;
    while observer.last.borrow().is_none_or(|last| first <= last) {
        let range = (FIRST_KEY.to_owned(), END_KEY.to_owned(), first);
        let life = Duration::from_secs(5 + observer.caller.random.below(60));
        observer.observe(vec![range], life, false).await;
        first = observer.watches[0].first;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Watches some of the present keys, from now or from a moment ago, for some seconds;
/// again and again until the end.
pub async fn glance(caller: Caller, last: Last, keys: fn(u32, &Recorder) -> Keys) -> Outcome {
    let mut observer = Observer::new(caller, last);
    while !observer.caller.recorder.has_ended() {
        let Caller {
            client,
            recorder,
            random,
            ..
        } = &mut observer.caller;
        let keys = keys(*client, recorder);
        let newest = recorder.revision.load(Ordering::Relaxed);
        let many = 1 + random.below(WATCHES_MAX);
        let range = |_| {
            let (key, end) = match random.below(3) {
                0 => (keys.any(random), String::new()),
                1 => keys.range(random),
                _ => (keys.prefix.clone(), keys.prefix.replace('/', "0")),
            };
            let past = newest - random.below(PAST_REVISIONS as u64) as i64;
            let first = if random.chance(1, 2) { 0 } else { past.max(2) };
            (key, end, first)
        };
        let ranges = (0..many).map(range).collect();
        let life = Duration::from_millis(200 + random.below(GLANCE_MILLISECONDS_MAX));
        let cancels = random.chance(1, 2);
        observer.observe(ranges, life, cancels).await;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Opens streams on all keys that are never read, until the end; each has its own connection so
/// that it delays no other watcher.
pub async fn sulk(mut caller: Caller) -> Outcome {
    let recorder = Arc::clone(&caller.recorder);
    while !recorder.has_ended() {
        let Some((_, channel)) = caller.dial().await else {
            continue;
        };
        match Stream::open(channel, &[(FIRST_KEY, END_KEY, 0)]).await {
            Ok(_unread) => {
                recorder.count("watch", "never read");
                recorder.streams_open.fetch_add(1, Ordering::Relaxed);
                let sulking = caller.random.below(SULKING_MILLISECONDS_MAX);
                recorder.rest(Duration::from_millis(sulking)).await;
                recorder.streams_open.fetch_sub(1, Ordering::Relaxed);
            }
            Err(error) => recorder.complain("unread watch", error),
        }
    }
    Ok(())
}

impl Observer {
    fn new(caller: Caller, last: Last) -> Observer {
        Observer {
            caller,
            watches: Vec::new(),
            ids: Vec::new(),
            last,
        }
    }

    /// Watches the ranges on one stream until it breaks or its time is over, and records that;
    /// perhaps it cancels the first watch before. Afterwards the watches have their next
    /// revisions.
    async fn observe(&mut self, ranges: Vec<(String, String, i64)>, life: Duration, cancels: bool) {
        let watch = |(key, end, first)| Watch {
            client: self.caller.client,
            member: 0,
            key,
            end,
            first,
            called: self.caller.recorder.moment(),
            deliveries: Vec::new(),
        };
        self.watches = ranges.into_iter().map(watch).collect();
        self.ids.clear();
        let opened = timeout(SILENCE, self.open()).await;
        let mut stream = match opened {
            Ok(Some(stream)) => stream,
            _ => return,
        };
        let recorder = Arc::clone(&self.caller.recorder);
        recorder.streams_open.fetch_add(1, Ordering::Relaxed);
        let mut ended = self.read(&mut stream, life).await;
        if cancels && ended.is_ok() {
            let watch_id = self.ids.first().copied().unwrap_or(0);
            let cancel = WatchCancelRequest { watch_id };
            stream.ask(RequestUnion::CancelRequest(cancel));
            ended = self.read(&mut stream, life / 4).await;
        }
        if let Err(error) = ended {
            recorder.complain("watch", error);
        }
        recorder.streams_open.fetch_sub(1, Ordering::Relaxed);
        for watch in &mut self.watches[..self.ids.len()] {
            let next = next_of(watch);
            recorder.record_watch(watch.clone());
            watch.deliveries.clear();
            watch.first = next;
        }
    }

    async fn open(&mut self) -> Option<Stream> {
        let (member, channel) = self.caller.dial().await?;
        let watches = self.watches.iter_mut();
        watches.for_each(|watch| watch.member = member as u32);
        let ranges = self.watches.iter();
        let ranges: Vec<_> = ranges
            .map(|it| (&it.key[..], &it.end[..], it.first))
            .collect();
        let opened = Stream::open(channel, &ranges).await;
        let complain = |error| self.caller.recorder.complain("watch", error);
        opened.map_err(complain).ok()
    }

    /// Reads until the time is over, or no watch is left, or all that there will be has come. An
    /// error if the stream breaks.
    async fn read(&mut self, stream: &mut Stream, life: Duration) -> Outcome {
        let until = Instant::now() + life;
        let mut progress = tokio::time::interval(PROGRESS_INTERVAL);
        let mut is_over = false;
        loop {
            let last = *self.last.borrow_and_update();
            is_over |= last.is_some_and(|last| self.watches.iter().all(|it| next_of(it) > last));
            if is_over {
                return Ok(());
            }
            tokio::select! {
                answer = timeout(SILENCE, stream.next()) => is_over = !self.take(answer??),
                _ = progress.tick() => {
                    stream.ask(RequestUnion::ProgressRequest(WatchProgressRequest {}));
                }
                () = sleep_until(until) => is_over = true,
                _ = self.last.changed() => {}
            }
        }
    }

    /// Notes an answer. Returns whether a watch continues.
    fn take(&mut self, answer: WatchResponse) -> bool {
        let at = self.caller.recorder.moment();
        let revision = answer.header.map_or(0, |header| header.revision);
        if answer.created {
            let watch = &mut self.watches[self.ids.len()];
            if watch.first == 0 {
                watch.first = revision + 1;
            }
            self.ids.push(answer.watch_id);
        }
        if answer.canceled {
            // A watch from a compacted revision is rightly cancelled, too.
            let place = self.ids.iter().position(|it| *it == answer.watch_id);
            place.into_iter().for_each(|it| self.ids[it] = CANCELLED);
            return self.ids.iter().any(|it| *it != CANCELLED);
        }
        let changes: Vec<Change> = answer.events.iter().map(client::change).collect();
        let events = changes.len() as u64;
        let recorder = &self.caller.recorder;
        recorder.events.fetch_add(events, Ordering::Relaxed);
        // A notice of progress may be for all watches of the stream.
        let is_for = |id: i64| id == answer.watch_id || answer.watch_id == ALL && id != CANCELLED;
        let delivery = Delivery {
            at,
            revision,
            changes,
        };
        let watches = self.watches.iter_mut().zip(&self.ids);
        for (watch, _) in watches.filter(|(_, id)| !answer.created && is_for(**id)) {
            watch.deliveries.push(delivery.clone());
        }
        true
    }
}

/// Id of all watches of a stream, and what stands in place of a cancelled one's.
const ALL: i64 = -1;
const CANCELLED: i64 = -2;

/// The revision after the last change that was delivered.
fn next_of(watch: &Watch) -> i64 {
    let changes = watch.deliveries.iter().rev();
    let mut changes = changes.flat_map(|it| it.changes.last());
    changes
        .next()
        .map_or(watch.first, |change| change.modified() + 1)
}
