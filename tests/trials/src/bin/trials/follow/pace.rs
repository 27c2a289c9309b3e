//! How late a store is that follows, through restarts of the follower and of the source.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use etcd_api::etcdserverpb::{CompactionRequest, kv_client::KvClient};
use harness::Signal;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use super::pair::{Pair, Programs};
use crate::{
    client::{self, END_KEY, FIRST_KEY, Stream},
    live_line::Progress,
    process::Outcome,
    report::{quantile, table},
    requests,
};

const WRITERS: u32 = 32;
const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 256;
/// Times after an event that count as its consequences.
const AFTERMATH: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);
/// Revisions that the compaction keeps.
const KEPT: i64 = 10_000;
/// Time limit for the store to have everything.
const PATIENCE: Duration = Duration::from_secs(60);

/// When each revision was acknowledged at the source, and when it came to a watch of the store.
#[derive(Default)]
struct Journal {
    acknowledged: Mutex<Vec<(i64, Instant)>>,
    arrived: Mutex<Vec<(i64, Instant)>>,
    written: AtomicU64,
    ended: AtomicBool,
}

impl Journal {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

pub async fn run(programs: &Programs, minutes: u64, rate: u32) -> Outcome {
    let pair = Pair::begin(programs)?;
    let journal = Arc::new(Journal::default());
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        tasks.spawn(write(pair.source.url(), writer, rate, Arc::clone(&journal)));
    }
    sleep(Duration::from_secs(5)).await;
    pair.fill()?;
    let first = newest(&pair.target.url()).await? + 1;
    tasks.spawn(watch(pair.target.url(), first, Arc::clone(&journal)));
    let mut follower = pair.follow()?;
    follower.wait_for_line("following from revision")?;
    caught_up(&pair).await?;

    let began = Instant::now();
    let quarter = Duration::from_secs(60 * minutes) / 4;
    let mut events = Vec::new();
    let mut progress = Progress::begin();
    for event in [
        "follower killed",
        "source killed",
        "source compacted",
        "end",
    ] {
        let until = Instant::now() + quarter;
        while Instant::now() < until {
            sleep(Duration::from_secs(1)).await;
            follower.check_healthy()?;
            let written = journal.written.load(Ordering::Relaxed);
            progress.show(&format!(
                "{written} writes, {} comparisons",
                equal(&pair.log())?
            ));
        }
        events.push((event, Instant::now()));
        match event {
            "follower killed" => {
                follower.signal(Signal::KILL)?;
                follower.wait_for_end()?;
                follower = pair.follow()?;
            }
            "source killed" => {
                pair.source.server().kill()?;
                pair.source.start_and_wait()?;
            }
            "source compacted" => {
                let revision = newest(&pair.source.url()).await? - KEPT;
                let request = CompactionRequest {
                    revision,
                    physical: true,
                };
                KvClient::new(pair.dial_source().await?)
                    .compact(request)
                    .await?;
            }
            _ => {}
        }
    }
    let took = began.elapsed();
    let moved = pair.cut_over();
    journal.ended.store(true, Ordering::SeqCst);
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    println!("{}", lags(&journal, began, &events));
    println!("\n{}", moved?);
    let ended = follower.wait_for_end()?;
    if !ended.success() {
        return Err(format!("the follower ended with {ended}").into());
    }
    let comparisons = equal(&pair.log())?;
    println!(
        "{} writes in {:.0} s; HashKV was equal at {comparisons} revisions",
        journal.written.load(Ordering::Relaxed),
        took.as_secs_f64()
    );
    match comparisons {
        0 => Err("HashKV was never compared".into()),
        _ => same_hash(&pair).await,
    }
}

/// Puts at its part of the rate, until the source refuses writes after the end.
async fn write(url: String, writer: u32, rate: u32, journal: Arc<Journal>) {
    let mut ticks = interval(Duration::from_secs(1) * WRITERS / rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut number = u64::from(writer);
    let mut connection = None;
    while !journal.has_ended() {
        let Some(kv) = &mut connection else {
            match client::dial(url.clone()).await {
                Ok(channel) => connection = Some(KvClient::new(channel)),
                Err(_) => sleep(PAUSE).await,
            }
            continue;
        };
        ticks.tick().await;
        // Every key is written by one writer, and in another order each time.
        number = (number + 7 * u64::from(WRITERS)) % KEYS;
        let put = requests::put(format!("k/{number:06}"), vec![b'v'; VALUE_BYTES]);
        match kv.put(put).await {
            Ok(answer) => {
                let header = answer.into_inner().header.unwrap_or_default();
                journal.written.fetch_add(1, Ordering::Relaxed);
                let mut acknowledged = journal.acknowledged.lock().expect("no holder panics");
                acknowledged.push((header.revision, Instant::now()));
            }
            Err(_) => {
                connection = None;
                ticks.reset();
                sleep(PAUSE).await;
            }
        }
    }
}

/// Notes when each revision comes to a watch of the store.
async fn watch(url: String, first: i64, journal: Arc<Journal>) {
    let mut next = first;
    while !journal.has_ended() {
        if let Err(_lost) = watch_once(&url, &mut next, &journal).await {
            sleep(PAUSE).await;
        }
    }
}

async fn watch_once(url: &str, next: &mut i64, journal: &Journal) -> Outcome {
    let channel = client::dial(url.to_owned()).await?;
    let mut stream = Stream::open(channel, &[(FIRST_KEY, END_KEY, *next)]).await?;
    while !journal.has_ended() {
        let Ok(answer) = tokio::time::timeout(Duration::from_millis(200), stream.next()).await
        else {
            continue;
        };
        let answer = answer?;
        let now = Instant::now();
        let mut arrived = journal.arrived.lock().expect("no holder panics");
        for event in &answer.events {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision());
            if revision >= *next {
                *next = revision + 1;
                arrived.push((revision, now));
            }
        }
    }
    Ok(())
}

async fn newest(url: &str) -> Outcome<i64> {
    let channel = client::dial(url.to_owned()).await?;
    let range = requests::range("none".to_owned());
    let answer = KvClient::new(channel).range(range).await?.into_inner();
    Ok(answer.header.unwrap_or_default().revision)
}

/// Waits until the store has the source's revision of now.
async fn caught_up(pair: &Pair) -> Outcome {
    let last = newest(&pair.source.url()).await?;
    let deadline = Instant::now() + PATIENCE;
    while newest(&pair.target.url()).await? < last {
        if Instant::now() > deadline {
            return Err("the store does not catch up".into());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Number of comparisons that found equal histories.
fn equal(log: &Path) -> Outcome<usize> {
    let log = std::fs::read_to_string(log)?;
    Ok(log.matches("histories are equal at revision").count())
}

/// Quantiles of the lag: of all revisions, and of those that no event has delayed.
fn lags(journal: &Journal, began: Instant, events: &[(&str, Instant)]) -> String {
    let arrived = journal.arrived.lock().expect("no holder panics");
    let arrived: HashMap<i64, Instant> = arrived.iter().copied().collect();
    let acknowledged = journal.acknowledged.lock().expect("no holder panics");
    let (mut all, mut quiet, mut lost) = (Vec::new(), Vec::new(), 0);
    for (revision, moment) in acknowledged.iter().filter(|(_, moment)| *moment >= began) {
        let Some(arrival) = arrived.get(revision) else {
            lost += 1;
            continue;
        };
        let lag = arrival.saturating_duration_since(*moment);
        all.push(lag);
        let is_after = |(_, event): &(&str, Instant)| {
            *moment + Duration::from_secs(1) >= *event && *moment < *event + AFTERMATH
        };
        if !events.iter().any(is_after) {
            quiet.push(lag);
        }
    }
    let row = |name: &str, lags: &[Duration]| {
        let shown = [50, 90, 99, 100]
            .map(|percent| format!("{:.1}", quantile(lags, percent).as_secs_f64() * 1e3));
        let mut cells = vec![name.to_owned(), lags.len().to_string()];
        cells.extend(shown);
        cells
    };
    let rows = [
        row("all", &all),
        row("not within 15 s of a restart or compaction", &quiet),
    ];
    let heads = ["lag, ms", "revisions", "p50", "p90", "p99", "most"];
    format!(
        "{}\n{lost} acknowledged revisions were not seen at the store",
        table(&heads, rows)
    )
}

/// Both sides end at the same hash.
async fn same_hash(pair: &Pair) -> Outcome {
    let last = newest(&pair.source.url()).await?;
    let theirs = client::hash(pair.dial_source().await?, last).await?;
    let ours = client::hash(pair.dial_target().await?, last).await?;
    match theirs.hash == ours.hash && theirs.compact_revision == ours.compact_revision {
        true => {
            println!(
                "HashKV at the last revision, {last}: {:08x} on both sides",
                ours.hash
            );
            Ok(())
        }
        false => Err(format!("HashKV at {last}: {theirs:?} and {ours:?}").into()),
    }
}
