//! `--durability` and the flags that belong to it.

use std::time::Duration;

use cluster::Durability;

use super::error::Error;
use super::gather::Gathered;
use super::values;

const ENTRIES: &str = "flush-entries-max";
const INTERVAL: &str = "flush-interval";
/// A longer interval is taken for a mistake of units.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Reads `--durability`, `--unsafe-no-fsync` and the flags of flushing.
pub(super) fn read(gathered: &mut Gathered) -> Result<Durability, Error> {
    let asked = match gathered.text("durability") {
        "durable" => Durability::Durable,
        "majority-memory" => majority_memory(gathered)?,
        "os" => Durability::Os,
        text => {
            let remedy = "write durable, majority-memory or os";
            return Err(Error::bad("durability", text, remedy));
        }
    };
    let no_fsync = values::boolean("unsafe-no-fsync", gathered.text("unsafe-no-fsync"))?;
    if no_fsync && asked != Durability::Os && gathered.is_given("durability") {
        let text = gathered.text("durability");
        return Err(Error::Conflict(format!(
            "--unsafe-no-fsync and --durability={text} contradict each other: leave one out"
        )));
    }
    let answer = if no_fsync { Durability::Os } else { asked };
    let is_given = |flag: &&str| gathered.is_given(flag);
    let flushing = [ENTRIES, INTERVAL].into_iter().find(is_given);
    // They have no effect on another durability.
    if let Some(flag) = flushing.filter(|_| !matches!(answer, Durability::MajorityMemory { .. })) {
        return Err(Error::Conflict(format!(
            "--{flag} goes with --durability=majority-memory: write that, or leave it out"
        )));
    }
    match answer {
        Durability::Durable => {}
        Durability::MajorityMemory {
            entries_max,
            interval,
        } => gathered.warn(format!(
            "writes are answered before they are on the device, and flushed after {entries_max} \
             entries or {interval:?}: where a majority loses power at once, what was answered \
             within that may be lost"
        )),
        Durability::Os => gathered.warn(
            "writes are answered before they are on the device: a power cut loses them".into(),
        ),
    }
    Ok(answer)
}

fn majority_memory(gathered: &Gathered) -> Result<Durability, Error> {
    let text = gathered.text(ENTRIES);
    let entries_max = values::unsigned(ENTRIES, text)?;
    if entries_max == 0 {
        return Err(Error::bad(ENTRIES, text, "write 1 or more"));
    }
    let text = gathered.text(INTERVAL);
    let interval = values::duration(INTERVAL, text)?;
    if interval.is_zero() || interval > INTERVAL_MAX {
        let remedy = "write more than 0 and at most 60s, as in 100ms";
        return Err(Error::bad(INTERVAL, text, remedy));
    }
    Ok(Durability::MajorityMemory {
        entries_max,
        interval,
    })
}
