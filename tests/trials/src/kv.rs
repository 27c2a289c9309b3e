//! Runs the same random operations on Inkstone and on etcd: keys, transactions,
//! leases, compactions and hashes; every answer must be equal.
//!
//! A round begins with fresh servers and a seed of its own. The comparison leaves out what
//! may differ: ids, terms, the remaining time of a lease,
//! the order of equal sort keys, and hashes while a compaction is not
//! finished (`docs/decisions/0005-hashkv-of-compacted-revisions.md`). When
//! answers differ, the list of operations is shortened to one that still differs.

mod crooked;
pub(crate) mod generate;
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
    let deadline = Instant::now() + length.lasting;
    let (mut seed, mut rounds) = (length.seed, 0);
    let (mut counts, mut names) = (Counts::default(), BTreeMap::new());
    loop {
        let mut done = Vec::new();
        let is_over = |done: usize| match length.operations {
            Some(operations) => done >= operations,
            None => done >= OPERATIONS_MAX || Instant::now() >= deadline,
        };
        let difference = play(subject, seed, is_over, &mut done, &mut counts).await?;
        if let Some(difference) = difference {
            return Err(explain(subject, seed, &done, &difference).await);
        }
        rounds += 1;
        for operation in &done {
            *names.entry(operation.call().0).or_default() += 1;
        }
        if length.operations.is_some() || Instant::now() >= deadline {
            break;
        }
        seed = seed.wrapping_add(1);
    }
    let mut report = Report::default();
    report.add("rounds", rounds);
    report.add("operations", names.values().sum::<u64>());
    for (name, count) in names {
        report.add(name, count);
    }
    report.add("refused by both", counts.refused);
    report.add("etcd ended", counts.etcd_ended);
    report.add("differences", 0);
    Ok(report)
}

/// Counts of all rounds.
#[derive(Default)]
struct Counts {
    refused: u64,
    /// Rounds in which etcd's process ended.
    etcd_ended: u64,
}

/// The answers of etcd and of Inkstone to one operation.
type Answers = (Answer, Answer);

/// One seed on fresh servers, until it is over for the number of operations that are done.
/// Returns the answers to the last operation if they differ.
async fn play(
    subject: &Subject,
    seed: u64,
    is_over: impl Fn(usize) -> bool,
    done: &mut Vec<Operation>,
    counts: &mut Counts,
) -> Outcome<Option<Answers>> {
    let mut pair = Pair::start(subject).await?;
    let mut generator = Generator::new(Random::from_seed(seed));
    while !is_over(done.len()) {
        let mut next = vec![generator.operation()];
        if (done.len() + 1).is_multiple_of(HASH_EVERY) {
            next.extend(generator.hashes());
        }
        for operation in next {
            let Some((expected, found)) = pair.run(&operation).await? else {
                counts.etcd_ended += 1;
                return Ok(None);
            };
            generator.learn(&expected);
            counts.refused += u64::from(expected.revision.is_none());
            done.push(operation);
            if expected != found {
                return Ok(Some((expected, found)));
            }
        }
    }
    pair.our_servers.check()?;
    Ok(None)
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
        let (their_servers, our_servers) = Servers::pair(subject)?;
        Ok(Pair {
            theirs: Peer::connect("etcd", their_servers.first()).await?,
            ours: Peer::connect("inkstone", our_servers.first()).await?,
            _their_servers: their_servers,
            our_servers,
        })
    }

    /// Both answers, etcd's first; `None` if etcd's process ended.
    async fn run(&mut self, operation: &Operation) -> Outcome<Option<Answers>> {
        let Ok(expected) = self.theirs.run(operation).await else {
            eprintln!("etcd ended at {operation:?}");
            return Ok(None);
        };
        match self.ours.run(operation).await {
            Ok(found) => Ok(Some((expected, found))),
            Err(error) => {
                self.our_servers.check()?;
                Err(format!("{error}, at {operation:?}").into())
            }
        }
    }
}

/// The error message, with the shortest list of operations that was found.
async fn explain(
    subject: &Subject,
    seed: u64,
    done: &[Operation],
    (expected, found): &Answers,
) -> Box<dyn std::error::Error + Send + Sync> {
    let mut text = format!(
        "operation {} of seed {seed} is answered differently: {:?}\n  \
         etcd: {expected:?}\n  ours: {found:?}\n\
         again: cargo trials fuzz kv --seed {seed} --operations {}\n",
        done.len(),
        done.last(),
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
