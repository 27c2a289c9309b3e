//! The load of a trial: clients that read and write, others with leases, and watchers.
//!
//! ```text
//!   work      reads, writes, comparisons over some keys  ┐
//!   leases    granted, renewed, revoked, left to expire  ├─ Caller ─► members
//!   watchers  follow all keys, glance at some, sulk      ┘     └────► recorder
//! ```

pub mod leases;
pub mod watchers;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use environment::randomness::Random;
use history::{Answer, Entry, Request, Restarts};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{caller::Caller, client, member::Member, process::Outcome, recorder::Recorder, values};

/// Most keys of a read of many.
const RANGE_KEYS_MAX: u64 = 100;
/// A read of the past looks back at most so far; what is older may be compacted.
const PAST_REVISIONS: i64 = 4_000;
/// Most keys that a transaction deletes.
const DELETES_MAX: u64 = 8;
/// A client that is later than this does not make up for it.
const LATE_MAX: Duration = Duration::from_millis(100);

/// The keys of a client, and the sizes of their values.
#[derive(Clone, Debug)]
pub struct Keys {
    pub prefix: String,
    pub many: u64,
    pub value_bytes: fn(&mut Random) -> u64,
    /// No other client writes them. Then the client only writes, and ends with its first
    /// failure, because it must know them all.
    pub are_own: bool,
}

impl Keys {
    fn any(&self, random: &mut Random) -> String {
        self.key(random.below(self.many))
    }

    fn key(&self, number: u64) -> String {
        format!("{}{number:05}", self.prefix)
    }

    /// First key and end of a range of at most [`RANGE_KEYS_MAX`].
    fn range(&self, random: &mut Random) -> (String, String) {
        let first = random.below(self.many.saturating_sub(RANGE_KEYS_MAX) + 1);
        (self.key(first), self.key(first + RANGE_KEYS_MAX))
    }
}

/// Random choices of one client, and what it has learned from the answers.
struct Load {
    client: u32,
    /// Numbers its values.
    counter: u64,
    keys: Keys,
    /// When each present key was last modified, as far as this client knows.
    modified: BTreeMap<String, i64>,
    newest: i64,
}

impl Load {
    /// The load of a client on a store that may have some of its keys already.
    fn new(client: u32, keys: Keys, store: &Restarts) -> Load {
        let own = store.keys().filter(|it| it.key.starts_with(&keys.prefix));
        Load {
            client,
            // So no value of an earlier life is written again.
            counter: store.newest().unsigned_abs() << 32,
            modified: own.map(|it| (it.key.clone(), it.modified)).collect(),
            keys,
            newest: 0,
        }
    }

    /// Uses these keys from now on.
    fn use_keys(&mut self, keys: Keys) {
        if keys.prefix != self.keys.prefix {
            self.keys = keys;
            self.modified.clear();
        }
    }

    /// The next request: a read, or a write, which takes at most one revision.
    fn draw(&mut self, random: &mut Random) -> Request {
        let key = self.keys.any(random);
        let draw = match self.keys.are_own {
            true => 42 + random.below(80),
            false => random.below(100),
        };
        match draw {
            0..=7 => {
                let (key, end) = self.keys.range(random);
                Request::Get {
                    key,
                    end,
                    revision: 0,
                    serializable: random.chance(1, 3),
                }
            }
            8..=10 => {
                let modified = self.modified.get(&key).copied();
                let recent = modified.filter(|it| self.newest - it < PAST_REVISIONS);
                client::read(&key, "", recent.unwrap_or(0))
            }
            11..=41 => Request::Get {
                key,
                end: String::new(),
                revision: 0,
                serializable: random.chance(1, 4),
            },
            42..=66 => Request::Put {
                key,
                value: self.value(random),
                lease: 0,
                previous: random.chance(1, 2),
            },
            67..=91 => self.swap(key, random),
            92..=99 => Request::Delete { key },
            _ => self.batch(key, random),
        }
    }

    /// A compare-and-swap, mostly with the revision that was last seen, sometimes as if the key did
    /// not exist.
    fn swap(&mut self, key: String, random: &mut Random) -> Request {
        let known = self.modified.get(&key).copied().unwrap_or(0);
        let expected = if random.chance(1, 10) { 0 } else { known };
        let puts = self.puts(&key, random);
        Request::Swap {
            key,
            expected,
            puts,
        }
    }

    /// A transaction that puts, deletes present keys, or does both.
    fn batch(&mut self, key: String, random: &mut Random) -> Request {
        let puts = self.puts(&key, random);
        let is_put = |it: &&String| puts.iter().any(|(key, _)| key == *it);
        let present = self.modified.keys().filter(|it| !is_put(it));
        let first = random.below(1 + self.modified.len() as u64) as usize;
        let many = random.below(1 + DELETES_MAX) as usize;
        let deletes: Vec<String> = present.skip(first).take(many).cloned().collect();
        let puts = match deletes.is_empty() || random.chance(3, 4) {
            true => puts,
            false => Vec::new(),
        };
        Request::Batch { puts, deletes }
    }

    /// A put of a key, and sometimes one of a second key.
    fn puts(&mut self, key: &str, random: &mut Random) -> Vec<(String, String)> {
        let mut puts = vec![(key.to_owned(), self.value(random))];
        let other = self.keys.any(random);
        if other != key && random.chance(1, 4) {
            puts.push((other, self.value(random)));
        }
        puts
    }

    fn value(&mut self, random: &mut Random) -> String {
        self.counter += 1;
        let bytes = (self.keys.value_bytes)(random);
        values::name(self.client, self.counter, bytes)
    }

    /// Learns the revisions of keys from an answer.
    fn learn(&mut self, request: &Request, answer: &Answer) {
        let written = |key: &String| (key.clone(), answer.revision);
        self.newest = self.newest.max(answer.revision);
        match request {
            Request::Put { key, .. } => self.modified.extend([written(key)]),
            Request::Swap { puts, .. } if answer.succeeded => {
                self.modified
                    .extend(puts.iter().map(|(key, _)| written(key)));
            }
            Request::Batch { puts, deletes } => {
                self.modified
                    .extend(puts.iter().map(|(key, _)| written(key)));
                self.modified.retain(|key, _| !deletes.contains(key));
            }
            Request::Delete { key } => drop(self.modified.remove(key)),
            _ => {
                let seen = answer.versions.iter();
                self.modified
                    .extend(seen.map(|it| (it.key.clone(), it.modified)));
            }
        }
    }
}

/// The tasks of a load, and how its clients behave.
#[derive(Clone, Copy)]
pub struct Mix {
    pub clients: u32,
    /// Mean time from one call of a client to its next; zero: the next follows the answer.
    pub interval: Duration,
    /// How long a client waits for an answer.
    pub patience: fn(&mut Random) -> Duration,
    /// It opens a new connection once in this many calls.
    pub calls_each: u64,
    /// The present keys of a client.
    pub keys: fn(u32, &Recorder) -> Keys,
    pub leaseholders: u32,
    pub glancers: u32,
    pub followers: u32,
    pub sulkers: u32,
}

/// A load that was started.
pub struct Running {
    /// Tasks that end with the recorder.
    pub tasks: JoinSet<Outcome>,
    /// Tasks that end when they have seen the revision that `last` gets.
    pub followers: JoinSet<Outcome>,
    pub last: tokio::sync::watch::Sender<Option<i64>>,
}

impl Mix {
    /// Clients and no other tasks, with a rate per second of all together, or as fast as answers
    /// come. They keep their connections.
    pub fn new(
        clients: u32,
        rate: Option<u32>,
        keys: fn(u32, &Recorder) -> Keys,
        patience: fn(&mut Random) -> Duration,
    ) -> Mix {
        let interval = |rate: u32| Duration::from_secs(1) * clients.max(1) / rate.max(1);
        Mix {
            clients,
            interval: rate.map_or(Duration::ZERO, interval),
            patience,
            calls_each: u64::MAX,
            keys,
            leaseholders: 0,
            glancers: 0,
            followers: 0,
            sulkers: 0,
        }
    }

    /// Starts the load on a store that has had other lives before.
    pub fn start(
        self,
        members: &[Arc<Member>],
        recorder: &Arc<Recorder>,
        random: &mut Random,
        store: &Restarts,
    ) -> Running {
        let (last, follow) = tokio::sync::watch::channel(None);
        let mut caller = |number| {
            let seed = random.next_u64();
            Caller::new(number, self.calls_each, members, recorder, seed)
        };
        let (mut tasks, mut followers) = (JoinSet::new(), JoinSet::new());
        for number in 0..self.clients {
            let load = Load::new(number, (self.keys)(number, recorder), store);
            tasks.spawn(work(caller(number), load, self));
        }
        for number in 0..self.leaseholders {
            tasks.spawn(leases::work(caller(100 + number)));
        }
        for number in 0..self.glancers {
            let caller = caller(200 + number);
            tasks.spawn(watchers::glance(caller, follow.clone(), self.keys));
        }
        for number in 0..self.followers {
            followers.spawn(watchers::follow(caller(300 + number), follow.clone()));
        }
        for number in 0..self.sulkers {
            tasks.spawn(watchers::sulk(caller(350 + number)));
        }
        Running {
            tasks,
            followers,
            last,
        }
    }
}

/// Sends requests over the present keys until the end.
async fn work(mut caller: Caller, mut load: Load, mix: Mix) -> Outcome {
    let mut due = Instant::now();
    while !caller.recorder.has_ended() {
        load.use_keys((mix.keys)(caller.client, &caller.recorder));
        let part = caller.random.below(2_000) as u32;
        due = due.max(Instant::now() - LATE_MAX) + mix.interval * part / 1_000;
        let request = load.draw(&mut caller.random);
        let patience = (mix.patience)(&mut caller.random);
        let called = caller.call(request, patience).await;
        match called.as_ref().and_then(|it| Some((it, it.answer()?))) {
            Some((operation, answer)) => load.learn(&operation.request, answer),
            None if load.keys.are_own => break,
            // A member that is away is not asked again at once.
            None => {
                let rest = caller.random.below(300);
                caller.recorder.rest(Duration::from_millis(rest)).await;
            }
        }
        if !mix.interval.is_zero() {
            sleep_until(due).await;
        }
    }
    Ok(())
}

/// Waits for tasks; an error if one fails or they take longer than `patience`.
pub async fn join(mut tasks: JoinSet<Outcome>, patience: Duration, what: &str) -> Outcome {
    let ends = async {
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(())
    };
    match tokio::time::timeout(patience, ends).await {
        Ok(ended) => ended,
        Err(_) => Err(format!("{what} has not come to its end in {} s", patience.as_secs()).into()),
    }
}

/// Every revision from the first write to `newest`. Fails unless all members show the same.
pub async fn history_of_all(
    members: impl IntoIterator<Item = &Arc<Member>>,
    newest: i64,
) -> Outcome<Vec<Entry>> {
    let mut known: Option<(&str, Vec<Entry>)> = None;
    for member in members {
        let name = &member.name;
        let shown = client::revisions(client::dial(member.url()).await?, 2, newest).await;
        let shown = shown.map_err(|error| format!("member {name}: {error}"))?;
        match &known {
            Some((first, history)) if *history != shown => {
                return Err(format!("members {first} and {name} have different histories").into());
            }
            Some(_) => {}
            None => known = Some((name, shown)),
        }
    }
    Ok(known.map(|(_, history)| history).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_keys_of_its_own_writes_at_most_one_revision_and_deletes_present_keys() {
        let keys = Keys {
            prefix: "k/".to_owned(),
            many: 50,
            value_bytes: |random| random.below(9),
            are_own: true,
        };
        let mut random = Random::from_seed(1);
        let mut load = Load::new(1, keys, &Restarts::default());
        let mut kinds = std::collections::BTreeSet::new();
        for revision in 2..5_000 {
            let request = load.draw(&mut random);
            let (puts, deletes) = match &request {
                Request::Put { key, .. } => (vec![key], &[][..]),
                Request::Delete { key } => (Vec::new(), std::slice::from_ref(key)),
                Request::Swap { puts, .. } => (puts.iter().map(|it| &it.0).collect(), &[][..]),
                Request::Batch { puts, deletes } => {
                    let is_present = |key| load.modified.contains_key(key);
                    assert!(deletes.iter().all(is_present), "deletes what is not there");
                    (puts.iter().map(|it| &it.0).collect(), &deletes[..])
                }
                other => panic!("{other:?}"),
            };
            kinds.insert((puts.len(), deletes.len()));
            let all: std::collections::BTreeSet<_> = puts.iter().copied().chain(deletes).collect();
            assert_eq!(all.len(), puts.len() + deletes.len(), "a key twice");
            assert!(!all.is_empty(), "nothing to do");
            let answer = Answer {
                revision,
                succeeded: true,
                ..Answer::default()
            };
            load.learn(&request, &answer);
        }
        assert!(kinds.contains(&(0, DELETES_MAX as usize)), "{kinds:?}");
        assert!(kinds.contains(&(2, 1)), "{kinds:?}");
    }
}
