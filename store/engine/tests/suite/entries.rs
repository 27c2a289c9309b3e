//! The log as Raft uses it: entries that are overruled, votes, commits, crashes.
//!
//! The model is the list of all frames ever appended. After a crash the log is
//! some beginning of that list, at least as long as what was flushed.

use crate::store;

use engine::{
    Appended, Applier, Batch, Change, Commitment, Engine, Entry, HardState, KeyChange, Options,
    Recovered, Revision, Worker,
};
use environment::randomness::Random;
use environment::simulated::{Restart, SimulatedDisk};
use std::path::Path;
use std::sync::Arc;
use store::encode;

#[derive(Clone, Debug)]
enum Frame {
    Entry(Batch, Option<HardState>),
    State(HardState),
}

/// What a list of frames stands for.
#[derive(Debug, Default)]
struct View {
    entries: Vec<Batch>,
    state: HardState,
}

fn view(frames: &[Frame]) -> View {
    let mut view = View::default();
    for frame in frames {
        match frame {
            Frame::Entry(batch, state) => {
                view.entries.truncate(batch.index as usize - 1);
                view.entries.push(batch.clone());
                view.state = state.unwrap_or(view.state);
            }
            Frame::State(state) => view.state = *state,
        }
    }
    view
}

struct Member {
    engine: Engine,
    applier: Applier,
    random: Random,
    frames: Vec<Frame>,
    /// Number of frames that are flushed.
    durable: usize,
    /// Appended and not applied.
    waiting: Vec<(Batch, Appended)>,
    applied: u64,
    state: HardState,
}

fn options(worker: Worker, commitment: Commitment) -> Options {
    Options {
        log: engine::LogOptions {
            worker,
            ..store::options().log
        },
        commitment,
        checkpoint_bytes: 48 << 10,
        ..store::options()
    }
}

fn open_with(disk: SimulatedDisk, options: Options) -> (Engine, Applier, Recovered) {
    let directory = Path::new(store::DIRECTORY);
    Engine::open(Arc::new(disk), directory, options, &mut |_| Ok(())).unwrap()
}

/// Opens the directory, after an opening of a copy with threads has found the same.
fn open(disk: &SimulatedDisk) -> (Engine, Applier, Recovered) {
    let open = |disk: SimulatedDisk, worker| open_with(disk, options(worker, Commitment::Quorum));
    let with_threads = open(disk.fork(), Worker::Threads).2;
    let opened = open(disk.clone(), Worker::Caller);
    assert_eq!(format!("{:?}", opened.2), format!("{with_threads:?}"));
    opened
}

impl Member {
    fn start(disk: &SimulatedDisk, random: Random, frames: Vec<Frame>) -> Member {
        let (engine, applier, recovered) = open(disk);
        let waiting = recovered.unapplied.iter();
        Member {
            engine,
            applier,
            random,
            durable: frames.len(),
            frames,
            waiting: waiting
                .map(|it| (it.batch.clone(), it.appended.clone()))
                .collect(),
            applied: recovered.applied_index,
            state: recovered.hard_state,
        }
    }

    fn last(&self) -> Batch {
        view(&self.frames)
            .entries
            .last()
            .cloned()
            .unwrap_or_default()
    }

    fn append(&mut self, index: u64, main: i64) {
        let changes = (0..self.random.below(4)).map(|sub| {
            let key = [b'k', self.random.below(30) as u8];
            let value = vec![self.state.term as u8; self.random.below(900) as usize];
            Change::Key(KeyChange {
                revision: Revision {
                    main,
                    sub: sub as i64,
                },
                tombstone: false,
                key: key.to_vec().into(),
                kv: encode(&key, &value),
                created: main,
                version: 1,
                lease: 0,
            })
        });
        // A key twice in one transaction is another test's business.
        let changes = changes.take(1).collect();
        let batch = Batch {
            term: self.state.term,
            index,
            changes,
        };
        let body = batch.encode().unwrap();
        let state = self.random.chance(1, 4).then_some(self.state);
        let appended = self.engine.append_entry(&batch, &body, state).unwrap();
        let entry = Entry {
            index,
            term: batch.term,
            start: appended.start,
            body_bytes: body.bytes().len() as u64,
        };
        self.waiting.push((batch.clone(), appended));
        self.frames.push(Frame::Entry(batch, state));
        if self.random.chance(1, 10) {
            self.flush();
            assert_eq!(self.engine.body(&entry).unwrap(), body);
        }
    }

    fn promise(&mut self) {
        self.engine.append_hard_state(self.state).unwrap();
        self.frames.push(Frame::State(self.state));
    }

    /// Another leader: entries behind the committed ones are overruled.
    fn change_term(&mut self) {
        self.state.term += 1;
        self.state.vote = self.random.below(3);
        self.promise();
        let last = self.last().index;
        let kept = self.state.commit + self.random.below(last - self.state.commit + 1);
        if kept == last {
            return;
        }
        let dropped = self
            .waiting
            .partition_point(|(batch, _)| batch.index <= kept);
        let dropped = self.waiting.split_off(dropped);
        let entry = |(batch, appended): &(Batch, Appended)| Entry {
            index: batch.index,
            term: batch.term,
            start: appended.start,
            body_bytes: 0,
        };
        let (first, last) = (entry(&dropped[0]), entry(dropped.last().unwrap()));
        self.engine.overrule(&first, &last);
        let main = dropped
            .iter()
            .find_map(|(batch, _)| Some(batch.mains()?.0))
            .unwrap_or_else(|| self.next_main());
        self.append(kept + 1, main);
    }

    fn next_main(&self) -> i64 {
        let entries = view(&self.frames).entries;
        let last = entries.iter().rev().find_map(Batch::mains);
        last.map_or(2, |(_, last)| last + 1)
    }

    fn flush(&mut self) {
        self.engine.work();
        self.durable = self.frames.len();
    }

    fn commit(&mut self) {
        self.flush();
        let last = self.last().index;
        self.state.commit += self.random.below(last - self.state.commit + 1);
        if self.random.chance(2, 3) {
            self.promise();
        }
        while self.applied < self.state.commit {
            let (batch, appended) = self.waiting.remove(0);
            self.applier.apply(&batch, &appended);
            self.applied = batch.index;
        }
        self.applier.maintain(&mut Vec::new).unwrap();
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0 => self.change_term(),
            1..=6 => self.append(self.last().index + 1, self.next_main()),
            7 => self.flush(),
            _ => self.commit(),
        }
    }

    /// All that is applied, by a walk along the history.
    fn check_history(&self) {
        let entries = view(&self.frames).entries;
        check_history(&self.engine, &entries[..self.applied as usize]);
    }
}

fn check_history(engine: &Engine, applied: &[Batch]) {
    let changes = applied.iter().flat_map(Batch::keys);
    let expected: Vec<_> = changes
        .map(|change| (change.revision, change.kv.clone()))
        .collect();
    let history = engine.history(2).unwrap();
    let found: Vec<_> = history
        .flat_map(|changes| changes.unwrap().versions)
        .map(|stored| (stored.revision, stored.kv))
        .collect();
    assert_eq!(found, expected);
}

/// Where no other voter is left, all entries are committed that the log ends with, and none
/// that another has overruled.
fn check_sole_voter(disk: &SimulatedDisk, entries: &[Batch]) {
    let options = options(Worker::Caller, Commitment::SoleVoter);
    let (engine, _applier, recovered) = open_with(disk.fork(), options);
    assert!(recovered.unapplied.is_empty());
    check_history(&engine, entries);
}

/// The number of frames that the log has kept.
fn kept(recovered: &Recovered, member: &Member, story: &str) -> usize {
    let fits = |count: &usize| {
        let view = view(&member.frames[..*count]);
        let index = |number: usize| view.entries.get(number).map_or(0, |entry| entry.index);
        let entries = &recovered.entries;
        let same = entries.iter().all(|entry| {
            let known = view.entries.get(entry.index as usize - 1);
            known.is_some_and(|batch| batch.term == entry.term)
        });
        let state = recovered.hard_state;
        let last = recovered.base.0 + entries.len() as u64;
        same && last == index(view.entries.len().wrapping_sub(1))
            && (state.term, state.vote) == (view.state.term, view.state.vote)
            && state.commit >= view.state.commit
    };
    let all = member.durable..=member.frames.len();
    all.rev()
        .find(fits)
        .unwrap_or_else(|| panic!("{story}: {recovered:?} is none of {:?}", member.frames))
}

fn run(seed: u64) {
    let mut disk = SimulatedDisk::new(seed);
    let mut member = Member::start(&disk, Random::from_seed(seed), Vec::new());
    for life in 0..6 {
        for _ in 0..member.random.below(120) {
            member.step();
        }
        member.check_history();
        let restarts = [
            Restart::ProcessCrash,
            Restart::power_loss(),
            Restart::nothing_kept(),
            Restart::everything_kept(),
        ];
        let restart = restarts[member.random.below(4) as usize];
        disk.crash();
        let story = format!("seed {seed}, life {life}");
        let applied = member.applied;
        let after = disk.restart(restart);
        let (engine, applier, recovered) = open(&after);
        let count = kept(&recovered, &member, &story);
        assert!(recovered.applied_index <= applied, "{story}: {recovered:?}");
        drop((engine, applier));
        let frames = member.frames[..count].to_vec();
        check_sole_voter(&after, &view(&frames).entries);
        member = Member::start(&after, member.random.clone(), frames);
        member.check_history();
        disk = after;
    }
}

#[test]
fn flushed_frames_survive_a_crash_and_overruled_ones_stay_so() {
    for seed in 0..60 {
        run(seed);
    }
}
