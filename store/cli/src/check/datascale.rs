//! `inkstone check datascale`: the memory that a server needs for a number of keys.

use std::io::Write;

use super::load::{CleaningWords, LoadModel, Plan, PutLoad};
use crate::client::signals::EndSignals;
use crate::client::{ConnectionArguments, Endpoints};
use crate::failure::{FAILED, Failure};

const KEY_BYTES: usize = 512;
const VALUE_BYTES: usize = 512;
const MEMORY: &str = "process_resident_memory_bytes ";

/// Check how much memory the first endpoint needs for a number of keys
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Loads, in pairs of 1 KiB and clients: s 10000 and 50, m 100000 and 200, l 1000000 and 500,
xl 3000000 and 1000. The keys are deleted afterwards. The memory is what the page /metrics of
the first endpoint says before and after.

Examples:
  inkstone check datascale
  inkstone check datascale --load m --auto-compact --auto-defrag")]
pub(crate) struct DatascaleArguments {
    /// The size of the load
    #[arg(long, value_enum, default_value_t = LoadModel::Small, value_name = "s|m|l|xl")]
    load: LoadModel,
    /// Prefix of the keys; there must be none below it
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "/etcdctl-check-datascale/"
    )]
    prefix: String,
    #[command(flatten)]
    cleaning: CleaningWords,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Pairs, and clients.
fn size_of(load: LoadModel) -> (u64, usize) {
    match load {
        LoadModel::Small => (10_000, 50),
        LoadModel::Medium => (100_000, 200),
        LoadModel::Large => (1_000_000, 500),
        LoadModel::ExtraLarge => (3_000_000, 1000),
    }
}

pub(crate) async fn run(arguments: DatascaleArguments) -> Result<(), Failure> {
    let (pairs, clients) = size_of(arguments.load);
    let endpoints = Endpoints::new(arguments.connection)?;
    let before = memory(&endpoints).await?;
    let sizes = (KEY_BYTES, VALUE_BYTES);
    let load = PutLoad::begin(&endpoints, clients, &arguments.prefix, sizes).await?;
    let mut say = |line: String| Ok(writeln!(std::io::stdout(), "{line}")?);
    let pair_bytes = KEY_BYTES + VALUE_BYTES;
    say(format!(
        "Start data scale check for work load [{pairs} key-value pairs, {pair_bytes} bytes per \
         key-value, {clients} concurrent clients]."
    ))?;
    let mut signals = EndSignals::catch()?;
    let plan = Plan::Counted(pairs);
    let results = tokio::select! {
        results = load.run(&plan) => results,
        _ = signals.next_is_terminate() => {
            load.delete().await?;
            return Err(Failure::failed("interrupted; the keys are deleted", ""));
        }
    };
    let after = memory(&endpoints).await;
    load.clean(&endpoints, &arguments.cleaning, &mut say)
        .await?;
    if !results.errors.is_empty() {
        say("FAIL: too many errors".to_owned())?;
        results.error_lines().into_iter().try_for_each(say)?;
        return Err(Failure::Reported { exit: FAILED });
    }
    let used = (after? - before) / f64::from(1 << 20);
    say(format!(
        "PASS: Approximate system memory used : {used:.2} MB."
    ))
}

/// Resident memory of the first endpoint, in bytes.
async fn memory(endpoints: &Endpoints) -> Result<f64, Failure> {
    let first = endpoints
        .iter()
        .next()
        .expect("a list of endpoints has one");
    let page = endpoints.page(first, "/metrics").await;
    let page = page.map_err(|reason| {
        let what = format_args!("cannot read {}/metrics: {reason}", first.name);
        Failure::failed(what, "The check needs the memory that this page shows.")
    })?;
    let value = page.lines().find_map(|line| line.strip_prefix(MEMORY));
    let value = value.and_then(|text| text.trim().parse().ok());
    value.ok_or_else(|| {
        let what = format_args!("{}/metrics lacks {}", first.name, MEMORY.trim());
        Failure::failed(what, "")
    })
}
