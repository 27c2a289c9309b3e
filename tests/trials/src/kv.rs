//! Runs the same random operations on Inkstone and on etcd: keys, transactions,
//! leases, compactions and hashes; every answer must be equal.
//!
//! A round begins with fresh servers and a seed of its own. The comparison leaves out what
//! may differ: ids, terms, the remaining time of a lease,
//! the order of equal sort keys, and hashes while a compaction is not
//! finished (`docs/decisions/0005-hashkv-of-compacted-revisions.md`). When
//! answers differ, the list of operations is shortened to one that still differs.

mod crooked;
mod generate;
mod operation;
mod shorten;

use std::collections::BTreeMap;
use std::time::Instant;

use environment::randomness::Random;
use generate::Generator;
use operation::{Answer, Operation, Peer};

use crate::servers::Servers;
use crate::{Length, Outcome, Report, Subject};

/// Most operations of a round. Each round begins with empty directories.
const OPERATIONS_MAX: usize = 12_000;
/// Operations that an error message prints at most.
const PRINTED_MAX: usize = 40;
/// Operations between two comparisons of HashKV.
const HASH_EVERY: usize = 250;

/// Runs rounds until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let begun = Instant::now();
    let mut totals = Totals::default();
    let mut seed = length.seed;
    loop {
        let limit = match length.operations {
            Some(operations) => Limit::Operations(operations),
            None => Limit::Deadline(begun + length.lasting),
        };
        let round = Round::play(subject, seed, limit).await?;
        totals.add(&round);
        if let Some(difference) = &round.difference {
            return Err(explain(subject, seed, &round.done, difference).await);
        }
        if length.operations.is_some() || begun.elapsed() >= length.lasting {
            return Ok(totals.report());
        }
        seed = seed.wrapping_add(1);
    }
}

/// Totals of all rounds.
#[derive(Default)]
struct Totals {
    rounds: u64,
    operations: usize,
    refused: usize,
    /// Rounds in which etcd's process ended.
    etcd_ended: u64,
    by_name: BTreeMap<&'static str, u64>,
}

impl Totals {
    fn add(&mut self, round: &Round) {
        self.rounds += 1;
        self.operations += round.done.len();
        self.refused += round.refused;
        self.etcd_ended += u64::from(round.etcd_ended);
        for operation in &round.done {
            *self.by_name.entry(operation.name()).or_default() += 1;
        }
    }

    fn report(&self) -> Report {
        let mut report = Report::default();
        report.add("rounds", self.rounds);
        report.add("operations", self.operations);
        for (name, count) in &self.by_name {
            report.add(name, count);
        }
        report.add("refused by both", self.refused);
        report.add("etcd ended", self.etcd_ended);
        report.add("differences", 0);
        report
    }
}

/// When a round ends.
enum Limit {
    /// After this many operations.
    Operations(usize),
    /// At this time, or after [`OPERATIONS_MAX`] operations.
    Deadline(Instant),
}

impl Limit {
    fn is_reached(&self, done: usize) -> bool {
        match self {
            Limit::Operations(operations) => done >= *operations,
            Limit::Deadline(deadline) => done >= OPERATIONS_MAX || Instant::now() >= *deadline,
        }
    }
}

/// The result of one seed on fresh servers.
#[derive(Default)]
struct Round {
    done: Vec<Operation>,
    refused: usize,
    etcd_ended: bool,
    /// The difference between the answers to the last operation, if they differ.
    difference: Option<Difference>,
}

/// Two different answers to one operation.
struct Difference {
    expected: Answer,
    found: Answer,
}

impl Round {
    async fn play(subject: &Subject, seed: u64, limit: Limit) -> Outcome<Round> {
        let mut pair = Pair::start(subject).await?;
        let mut generator = Generator::new(Random::from_seed(seed));
        let mut round = Round::default();
        while !limit.is_reached(round.done.len()) {
            let mut next = vec![generator.operation()];
            if (round.done.len() + 1).is_multiple_of(HASH_EVERY) {
                let hashes = generator.revisions_to_hash();
                next.extend(hashes.into_iter().map(Operation::HashKv));
            }
            for operation in next {
                let (expected, found) = match pair.run(&operation).await? {
                    Some(answers) => answers,
                    None => {
                        round.etcd_ended = true;
                        return Ok(round);
                    }
                };
                generator.learn(&expected);
                round.refused += usize::from(expected.revision.is_none());
                round.done.push(operation);
                if expected != found {
                    round.difference = Some(Difference { expected, found });
                    return Ok(round);
                }
            }
        }
        pair.ours_alive()?;
        Ok(round)
    }
}

/// An Inkstone server and an etcd.
struct Pair {
    _their_servers: Servers,
    our_servers: Servers,
    theirs: Peer,
    ours: Peer,
}

impl Pair {
    async fn start(subject: &Subject) -> Outcome<Pair> {
        let flags = ["--log-level=error"];
        let their_servers = Servers::start(subject.etcd()?, 1, &flags)?;
        let our_servers = Servers::start(&subject.inkstone, 1, &flags)?;
        Ok(Pair {
            theirs: Peer::connect("etcd", their_servers.first()).await?,
            ours: Peer::connect("inkstone", our_servers.first()).await?,
            _their_servers: their_servers,
            our_servers,
        })
    }

    /// Both answers, etcd's first; `None` if etcd's process ended.
    async fn run(&mut self, operation: &Operation) -> Outcome<Option<(Answer, Answer)>> {
        let Ok(expected) = self.theirs.run(operation).await else {
            eprintln!("etcd ended at {operation:?}");
            return Ok(None);
        };
        let found = match self.ours.run(operation).await {
            Ok(found) => found,
            Err(error) => {
                self.ours_alive()?;
                return Err(format!("{error}, at {operation:?}").into());
            }
        };
        Ok(Some((expected, found)))
    }

    fn ours_alive(&mut self) -> Outcome {
        self.our_servers.check()
    }
}

/// The error message, with the shortest list of operations that was found.
async fn explain(
    subject: &Subject,
    seed: u64,
    done: &[Operation],
    difference: &Difference,
) -> Box<dyn std::error::Error + Send + Sync> {
    let mut text = format!(
        "operation {} of seed {seed} is answered differently: {:?}\n  etcd: {:?}\n  ours: {:?}\n\
         again: cargo trials fuzz kv --seed {seed} --operations {}\n",
        done.len(),
        done.last(),
        difference.expected,
        difference.found,
        done.len(),
    );
    let fewer = shorten::shorten(subject, done).await;
    text += &format!("{} of these operations differ as well", fewer.len());
    if fewer.len() <= PRINTED_MAX {
        let lines = fewer.iter().map(|operation| format!("\n  {operation:?}"));
        text += &format!(":{}", lines.collect::<String>());
    }
    text.into()
}
