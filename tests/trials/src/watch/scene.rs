//! One random scene on both servers, and the comparison at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::watch_create_request::FilterType;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    CompactionRequest, TxnRequest, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest,
};
use harness::Member;
use tonic::transport::Channel;

use super::generate;
use super::range_stream;
use super::stream::{Change, History, Seen, Stream};
use crate::Outcome;
use crate::requests::{self, refusal};
use crate::servers::channel;

const STREAMS_MAX: usize = 3;
/// Most watches requested together, without waiting for an answer in between.
const WATCHES_TOGETHER_MAX: u64 = 5;
/// An id that belongs to no watch.
const UNKNOWN_ID: i64 = 7_777;

/// State of a scene.
pub struct Scene {
    random: Random,
    theirs: Side,
    ours: Side,
    watches: Vec<Watched>,
    /// Newest revision of both stores.
    newest: i64,
    pub compacted: i64,
    /// Counts of what the scene did, by name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// A client's connections to one server.
struct Side {
    kv: KvClient<Channel>,
    channel: Channel,
    streams: Vec<Stream>,
}

/// A watch that both servers have created.
struct Watched {
    stream: usize,
    /// Number among the stream's watches.
    number: usize,
    id: i64,
    create: WatchCreateRequest,
    /// Whether, at some moment, the watch had been sent all events.
    synced: bool,
    /// Whether it began below the compacted revision: each server cancels it some time later.
    doomed: bool,
    /// Whether history was compacted before the watch had caught up: each server may have
    /// sent the events or canceled the watch.
    loose: bool,
    /// Whether the client canceled it, perhaps before all events were sent.
    canceled: bool,
    /// Previous values of events up to this revision may be compacted.
    plain_until: i64,
}

impl Scene {
    /// Connects to both servers, which have compacted their history to this revision.
    pub async fn open(
        random: Random,
        theirs: &Member,
        ours: &Member,
        compacted: i64,
    ) -> Outcome<Scene> {
        Ok(Scene {
            random,
            theirs: Side::open(theirs).await?,
            ours: Side::open(ours).await?,
            watches: Vec::new(),
            newest: 1,
            compacted,
            counts: BTreeMap::new(),
        })
    }

    fn count(&mut self, name: &'static str, more: u64) {
        *self.counts.entry(name).or_default() += more;
    }

    /// The number of a random stream.
    fn stream(&mut self) -> usize {
        self.random.below(self.ours.streams.len() as u64) as usize
    }

    /// Does the same on both servers. Fails if the outcomes differ.
    async fn same<T: PartialEq + Debug>(
        &mut self,
        what: &impl Debug,
        act: impl AsyncFn(&mut Side) -> Outcome<T>,
    ) -> Outcome<T> {
        let expected = act(&mut self.theirs).await?;
        let found = act(&mut self.ours).await?;
        match expected == found {
            true => Ok(found),
            false => Err(format!("{what:?}\n  etcd: {expected:?}\n  ours: {found:?}").into()),
        }
    }

    /// Plays the scene and compares both servers.
    pub async fn play(&mut self) -> Outcome {
        self.count("scenes", 1);
        // The first write returns the newest revision.
        self.write(generate::touch(&Bytes::from_static(b"w/0"), false))
            .await?;
        self.open_stream();
        for _ in 0..15 + self.random.below(50) {
            self.step().await?;
        }
        self.catch_up().await?;
        self.compare()
    }

    async fn step(&mut self) -> Outcome {
        match self.random.below(20) {
            0..10 => {
                let write = generate::write(&mut self.random);
                self.write(write).await
            }
            10..13 => self.create().await,
            13 => self.cancel().await,
            14 => self.ask_for_progress(),
            15 => self.compact().await,
            16 if self.ours.streams.len() < STREAMS_MAX => {
                self.open_stream();
                Ok(())
            }
            16..19 => self.range_stream().await,
            _ => self.catch_up().await,
        }
    }

    fn open_stream(&mut self) {
        for side in [&mut self.theirs, &mut self.ours] {
            let stream = Stream::open(side.channel.clone());
            side.streams.push(stream);
        }
        self.count("streams of watches", 1);
    }

    async fn write(&mut self, txn: TxnRequest) -> Outcome {
        let write = async |side: &mut Side| Ok(side.write(txn.clone()).await);
        if let Ok(revision) = self.same(&txn, write).await? {
            self.newest = revision;
        }
        self.count("transactions", 1);
        Ok(())
    }

    async fn create(&mut self) -> Outcome {
        let stream = self.stream();
        let count = 1 + self.random.below(WATCHES_TOGETHER_MAX);
        let creates: Vec<WatchCreateRequest> = (0..count)
            .map(|_| generate::watch(&mut self.random, self.newest, self.compacted))
            .collect();
        let create = async |side: &mut Side| side.create(stream, &creates).await;
        let answers = self.same(&creates, create).await?;
        for (create, (id, refused, _)) in creates.iter().zip(answers) {
            if refused {
                self.count("watches refused", 1);
                continue;
            }
            self.count("watches", 1);
            let start = create.start_revision;
            let earlier = self.watches.iter().filter(|it| it.stream == stream);
            self.watches.push(Watched {
                stream,
                number: earlier.count(),
                id,
                synced: start == 0 || start > self.newest,
                doomed: 0 < start && start < self.compacted,
                create: create.clone(),
                loose: false,
                canceled: false,
                plain_until: self.compacted,
            });
        }
        Ok(())
    }

    async fn cancel(&mut self) -> Outcome {
        if self.random.chance(1, 2) {
            self.catch_up().await?;
        }
        let stream = self.stream();
        let unknown = RequestUnion::CancelRequest(WatchCancelRequest {
            watch_id: UNKNOWN_ID,
        });
        self.send(stream, &unknown)?;
        let compacted = self.compacted;
        let cancelable = |watched: &&mut Watched| {
            let start = watched.create.start_revision;
            !watched.canceled && !watched.loose && (start == 0 || start > compacted)
        };
        let mut candidates: Vec<_> = self.watches.iter_mut().filter(cancelable).collect();
        if candidates.is_empty() {
            return Ok(());
        }
        let chosen = self.random.below(candidates.len() as u64) as usize;
        let watched = &mut candidates[chosen];
        watched.canceled = true;
        let watch_id = watched.id;
        let place = (watched.stream, watched.number);
        let cancel = RequestUnion::CancelRequest(WatchCancelRequest { watch_id });
        self.send(place.0, &cancel)?;
        for side in [&self.theirs, &self.ours] {
            let canceled = |history: &History| history.canceled.is_some();
            side.until(place, "a watch is canceled", canceled).await?;
        }
        self.count("watches canceled", 1);
        Ok(())
    }

    fn ask_for_progress(&mut self) -> Outcome {
        let stream = self.stream();
        let request = RequestUnion::ProgressRequest(WatchProgressRequest {});
        self.send(stream, &request)?;
        self.count("questions for progress", 1);
        Ok(())
    }

    fn send(&self, stream: usize, request: &RequestUnion) -> Outcome {
        self.theirs.streams[stream].send(request.clone())?;
        self.ours.streams[stream].send(request.clone())
    }

    async fn compact(&mut self) -> Outcome {
        let caught_up = self.random.chance(1, 2);
        if caught_up {
            self.catch_up().await?;
        }
        let room = (self.newest - self.compacted) as u64;
        let revision = self.compacted + 1 + self.random.below(room.max(1)) as i64;
        let request = CompactionRequest {
            revision,
            physical: self.random.chance(1, 2),
        };
        let compact = async |side: &mut Side| Ok(side.compact(request).await);
        if self.same(&request, compact).await?.is_ok() {
            self.compacted = revision;
            for watched in &mut self.watches {
                watched.loose |= !watched.synced;
                if !caught_up {
                    watched.plain_until = revision;
                }
            }
        }
        self.count("compactions", 1);
        Ok(())
    }

    async fn range_stream(&mut self) -> Outcome {
        let range = generate::range(&mut self.random, self.newest, self.compacted);
        let gather =
            async |side: &mut Side| Ok(range_stream::gather(&mut side.kv, range.clone()).await);
        self.same(&range, gather).await?;
        self.count("ranges as streams", 1);
        Ok(())
    }

    /// Writes to a key of each watch, and waits until both servers have sent the event.
    async fn catch_up(&mut self) -> Outcome {
        let mut touched: BTreeMap<Bytes, (i64, i64)> = BTreeMap::new();
        let keys: BTreeSet<Bytes> = self.watches.iter().map(Watched::own_key).collect();
        for key in keys {
            self.write(generate::touch(&key, false)).await?;
            let put = self.newest;
            self.write(generate::touch(&key, true)).await?;
            touched.insert(key, (put, self.newest));
        }
        for watched in &mut self.watches {
            let seen = touched.iter().filter(|(key, _)| watched.watches(key));
            let last = seen.filter_map(|(_, (put, deleted))| watched.last_of(*put, *deleted));
            let wanted = match watched.doomed {
                true => Some(i64::MAX),
                false => last.max(),
            };
            let Some(wanted) = wanted else {
                continue;
            };
            for side in [&self.theirs, &self.ours] {
                side.wait_for(watched, wanted).await?;
            }
            watched.synced |= !watched.doomed;
        }
        Ok(())
    }

    fn compare(&mut self) -> Outcome {
        for watched in &self.watches {
            let [theirs, ours] = [&self.theirs, &self.ours].map(|side| {
                let seen = side.streams[watched.stream].seen();
                seen.watches
                    .get(watched.number)
                    .cloned()
                    .unwrap_or_default()
            });
            watched.compare(&theirs, &ours)?;
            *self.counts.entry("events").or_default() += ours.changes.len() as u64;
        }
        for number in 0..self.ours.streams.len() {
            let [theirs, ours] = [&self.theirs, &self.ours].map(|side| {
                let seen = side.streams[number].seen();
                (seen.fragments, seen.progress_answers, seen.faults.clone())
            });
            if !ours.2.is_empty() {
                let (faults, odd) = (ours.2, theirs.2);
                return Err(
                    format!("ours alone is wrong: {faults:#?}; etcd alone: {odd:#?}").into(),
                );
            }
            self.count("etcd's parts of answers", theirs.0);
            self.count("our parts of answers", ours.0);
            self.count("etcd's answers of progress", theirs.1);
            self.count("our answers of progress", ours.1);
            self.count("etcd alone is wrong", theirs.2.len() as u64);
        }
        Ok(())
    }
}

impl Side {
    async fn open(server: &Member) -> Outcome<Side> {
        let channel = channel(server).await?;
        Ok(Side {
            kv: KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            channel,
            streams: Vec::new(),
        })
    }

    /// Writes; returns the revision, or the refusal.
    async fn write(&mut self, txn: TxnRequest) -> Result<i64, String> {
        let answer = self.kv.txn(txn).await;
        let answer = answer.map_err(|status| refusal(&status))?;
        Ok(answer.into_inner().header.unwrap_or_default().revision)
    }

    async fn compact(&mut self, request: CompactionRequest) -> Result<(), String> {
        let answer = self.kv.compact(request).await;
        answer.map(drop).map_err(|status| refusal(&status))?;
        // After a read that follows it, watches see the compaction.
        let read = self.kv.range(requests::range("w/0")).await;
        read.map(drop).map_err(|status| refusal(&status))
    }

    /// Requests all watches at once; each answer is the id, whether it was refused, and why.
    async fn create(
        &self,
        stream: usize,
        creates: &[WatchCreateRequest],
    ) -> Outcome<Vec<(i64, bool, String)>> {
        let stream = &self.streams[stream];
        let before = stream.seen().created.len();
        for create in creates {
            stream.send(RequestUnion::CreateRequest(create.clone()))?;
        }
        let wanted = before + creates.len();
        stream
            .until("watches are answered", |seen| seen.created.len() >= wanted)
            .await?;
        Ok(stream.seen().created[before..wanted].to_vec())
    }

    /// Waits until the watch has been sent the events of that revision, or has ended.
    async fn wait_for(&self, watched: &Watched, revision: i64) -> Outcome {
        let what = format!("{:?} has revision {revision}", watched.create);
        let has = |history: &History| {
            let last = history.changes.last();
            history.canceled.is_some() || last.is_some_and(|last| last.revision >= revision)
        };
        self.until((watched.stream, watched.number), &what, has)
            .await
    }

    /// Waits until something is true of a watch, which is named by the number of its stream and
    /// its own.
    async fn until(
        &self,
        (stream, number): (usize, usize),
        what: &str,
        holds: impl Fn(&History) -> bool,
    ) -> Outcome {
        let holds = |seen: &Seen| seen.watches.get(number).is_some_and(&holds);
        self.streams[stream].until(what, holds).await
    }
}

impl Watched {
    /// A key in the watch's range.
    fn own_key(&self) -> Bytes {
        match self.create.key.is_empty() {
            true => Bytes::from_static(b"w/0"),
            false => self.create.key.clone(),
        }
    }

    fn watches(&self, key: &Bytes) -> bool {
        let end = &self.create.range_end;
        match &end[..] {
            [] => *key == self.own_key(),
            [0] => *key >= self.create.key,
            _ => *key >= self.create.key && key < end,
        }
    }

    /// The later revision of a put and a deletion of its key that the watch is sent; `None`
    /// if its filters drop both.
    fn last_of(&self, put: i64, deleted: i64) -> Option<i64> {
        let leaves_out = |filter: FilterType| self.create.filters.contains(&(filter as i32));
        let deleted = Some(deleted).filter(|_| !leaves_out(FilterType::Nodelete));
        let put = Some(put).filter(|_| !leaves_out(FilterType::Noput));
        let last = deleted.or(put);
        last.filter(|last| self.create.start_revision <= *last)
    }

    fn compare(&self, theirs: &History, ours: &History) -> Outcome {
        let changes = |history: &History| -> Vec<Change> {
            let changes = history.changes.iter().cloned();
            let plain = |mut change: Change| {
                if change.revision <= self.plain_until {
                    change.before.clear();
                }
                change
            };
            changes.map(plain).collect()
        };
        let (mut expected, mut found) = (changes(theirs), changes(ours));
        let open_end = self.loose || self.canceled;
        if open_end {
            let shorter = expected.len().min(found.len());
            expected.truncate(shorter);
            found.truncate(shorter);
        }
        let mut numbers = 0..expected.len().max(found.len());
        let first = numbers.find(|&number| expected.get(number) != found.get(number));
        if let Some(first) = first {
            return Err(format!(
                "{:?}: change {first} differs\n  etcd: {:?}\n  ours: {:?}\n  of {} and {} changes",
                self.create,
                expected.get(first),
                found.get(first),
                expected.len(),
                found.len()
            )
            .into());
        }
        if !self.loose && theirs.canceled != ours.canceled {
            return Err(format!(
                "{:?}: its end differs\n  etcd: {:?}\n  ours: {:?}",
                self.create, theirs.canceled, ours.canceled
            )
            .into());
        }
        Ok(())
    }
}
