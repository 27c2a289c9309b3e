//! Clients and watches that are moved, and a judgement of what they saw on both sides.

use std::{
    fs::File,
    io::{BufWriter, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use environment::randomness::Random;
use etcd_api::etcdserverpb::WatchResponse;
use history::{Entry, History, Restarts};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use super::pair::{Pair, Programs};
use crate::{
    client::{self, END_KEY, FIRST_KEY, Stream},
    faults::cross_check::{self, Verdict},
    load::{Keys, Mix, join},
    member::{Member, Standing},
    options::until_interrupted,
    process::{Outcome, root},
    recorder::Recorder,
    report, values,
};

const CLIENTS: u32 = 8;
/// Operations per second of all clients.
const RATE: u32 = 200;
const KEYS: u64 = 5;
const AGE_SECONDS: u64 = 5;
/// Watches on one stream.
const WATCHES_EACH: usize = 50;
const CALLS_END: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);

/// Revisions in the order in which a watch got them, each with its number of events.
type Seen = Vec<(i64, usize)>;

pub fn run(programs: &Programs, seconds: u64, watches: usize, seed: u64) -> Outcome {
    let other = cross_check::prepare()?;
    let recorder = Arc::new(Recorder::new());
    let length = Duration::from_secs(seconds);
    let ledger = until_interrupted(perform(programs, &recorder, (length, watches, seed)));
    println!("\n{}", recorder.tables());
    let (operations, observed) = recorder.take();
    let history = History {
        operations,
        watches: observed,
        ledger: ledger?,
        ..History::default()
    };
    let folder = root().join("target/follow");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("history-{seed}.jsonl"));
    let mut file = BufWriter::new(File::create(&path)?);
    history::write(&history, &mut file)?;
    file.flush()?;
    println!("the history is in {}", path.display());
    let violations = report::judge(&history);
    let other = other.map(|it| cross_check::judge(&it, &path)).transpose()?;
    match (violations.is_empty(), other) {
        (false, _) => Err(format!("{} violations", violations.len()).into()),
        (_, Some(Verdict::Impossible)) => Err("porcupine: impossible".into()),
        _ => {
            println!("verdict: linearizable across the move");
            Ok(())
        }
    }
}

/// The keys of the present seconds, so that the history of a key stays small for porcupine.
fn keys(_: u32, recorder: &Recorder) -> Keys {
    Keys {
        prefix: format!("k{:05}/", recorder.elapsed().as_secs() / AGE_SECONDS),
        many: KEYS,
        value_bytes: values::mostly_small,
        are_own: false,
    }
}

async fn perform(
    programs: &Programs,
    recorder: &Arc<Recorder>,
    (length, watches, seed): (Duration, usize, u64),
) -> Outcome<Vec<Entry>> {
    let pair = Pair::begin(programs)?;
    let members = [Arc::clone(&pair.source), Arc::clone(&pair.target)];
    pair.target.set_standing(Standing::Absent);
    let mix = Mix {
        glancers: 2,
        followers: 2,
        leaseholders: 2,
        ..Mix::new(CLIENTS, Some(RATE), keys, |_| Duration::from_secs(2))
    };
    let mut random = Random::from_seed(seed);
    let load = mix.start(&members, recorder, &mut random, &Restarts::default());
    let (last, ends) = watch::channel(None);
    let mut streams = JoinSet::new();
    for _ in 0..watches.div_ceil(WATCHES_EACH) {
        let count = WATCHES_EACH.min(watches);
        streams.spawn(watch_on(members.clone(), count, ends.clone()));
    }
    sleep(length / 2).await;
    pair.fill()?;
    let mut follower = pair.follow()?;
    follower.wait_for_line("following from revision")?;
    sleep(length / 2).await;

    let began = Instant::now();
    let said = pair.cut_over()?;
    // The source still answers reads: it has to go before clients write to the store.
    pair.source.server().kill()?;
    pair.source.set_standing(Standing::Absent);
    pair.target.set_standing(Standing::Voter);
    let moved = began.elapsed();
    sleep(length).await;
    recorder.end();
    join(load.tasks, CALLS_END, "a client's call").await?;
    let newest = at_rest(&pair).await?;
    load.last.send_replace(Some(newest));
    join(load.followers, PATIENCE, "a watch").await?;
    last.send_replace(Some(newest));
    let ledger = client::revisions(pair.dial_target().await?, 2, newest).await?;
    let entry = |entry: &Entry| (entry.revision, entry.changes.len());
    let whole: Seen = ledger.iter().map(entry).collect();
    let mut compared = 0;
    while let Some(stream) = streams.join_next().await {
        for seen in stream?? {
            compare(&seen, &whole)?;
            compared += 1;
        }
    }
    println!("\n{said}");
    println!(
        "{} ms from the call of cut-over until clients were sent to the store; {compared} watches saw every \
         revision once",
        moved.as_millis()
    );
    Ok(ledger)
}

/// The revision at which the store stays: leases that are left end before.
async fn at_rest(pair: &Pair) -> Outcome<i64> {
    let deadline = Instant::now() + PATIENCE;
    while client::leases(pair.dial_target().await?).await? > 0 {
        if Instant::now() > deadline {
            return Err("leases do not end".into());
        }
        sleep(Duration::from_millis(200)).await;
    }
    // No client's call is left: this is the last revision.
    sleep(Duration::from_secs(3)).await;
    Ok(client::hash(pair.dial_target().await?, 0)
        .await?
        .header
        .unwrap_or_default()
        .revision)
}

/// Watches of all keys on one stream, from the first revision on; they go on at the store where they
/// broke at the source.
async fn watch_on(
    members: [Arc<Member>; 2],
    count: usize,
    last: watch::Receiver<Option<i64>>,
) -> Outcome<Vec<Seen>> {
    let mut seen: Vec<Seen> = vec![Vec::new(); count];
    loop {
        let present = members.iter().find(|it| it.standing() == Standing::Voter);
        if let Some(member) = present {
            // A stream that breaks is opened again.
            let _ = watch_once(member, &mut seen, &last).await;
        }
        let last = *last.borrow();
        let is_done = |seen: &Seen| last.is_some_and(|last| newest(seen) >= last);
        if seen.iter().all(is_done) {
            return Ok(seen);
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn watch_once(
    member: &Member,
    seen: &mut [Seen],
    last: &watch::Receiver<Option<i64>>,
) -> Outcome {
    let channel = client::dial(member.url()).await?;
    let ranges = seen
        .iter()
        .map(|seen| (FIRST_KEY, END_KEY, newest(seen) + 1));
    let ranges: Vec<_> = ranges.collect();
    let mut stream = Stream::open(channel, &ranges).await?;
    let (mut ids, mut quiet) = (Vec::new(), 0);
    while member.standing() == Standing::Voter && quiet < 2 {
        let answer = tokio::time::timeout(Duration::from_millis(200), stream.next()).await;
        let Ok(answer) = answer else {
            quiet += u32::from(last.borrow().is_some());
            continue;
        };
        take(answer?, &mut ids, seen)?;
    }
    Ok(())
}

fn take(answer: WatchResponse, ids: &mut Vec<i64>, seen: &mut [Seen]) -> Outcome {
    if answer.canceled {
        return Err(format!("canceled: {}", answer.cancel_reason).into());
    }
    if answer.created {
        ids.push(answer.watch_id);
    }
    let place = ids.iter().position(|id| *id == answer.watch_id);
    let seen = &mut seen[place.ok_or("an answer of no watch")?];
    for event in &answer.events {
        let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision());
        match seen.last_mut() {
            Some((last, events)) if *last == revision => *events += 1,
            _ => seen.push((revision, 1)),
        }
    }
    Ok(())
}

/// The newest revision that a watch has seen; the store is new at revision 1.
fn newest(seen: &Seen) -> i64 {
    seen.last().map_or(1, |(revision, _)| *revision)
}

/// A watch sees every revision once, in order.
fn compare(seen: &Seen, whole: &Seen) -> Outcome {
    match seen == whole {
        true => Ok(()),
        false => {
            let place = seen.iter().zip(whole).position(|(one, other)| one != other);
            let place = place.unwrap_or(seen.len().min(whole.len()));
            Err(format!(
                "a watch saw {:?} where {:?} is next ({} revisions of {})",
                seen.get(place),
                whole.get(place),
                seen.len(),
                whole.len()
            )
            .into())
        }
    }
}
