//! The flags of distributed tracing.

use super::configuration::Traces;
use super::error::Error;
use super::gather::Gathered;
use super::values;

const ENABLE: &str = "enable-distributed-tracing";
const RATE: &str = "distributed-tracing-sampling-rate";
const INSTANCE: &str = "distributed-tracing-instance-id";
const RATE_MAX: i64 = 1_000_000;

/// Reads the flags; `None` if nothing is recorded.
pub(super) fn read(gathered: &mut Gathered) -> Result<Option<Traces>, Error> {
    let own = [
        "distributed-tracing-address",
        "distributed-tracing-service-name",
        INSTANCE,
        RATE,
    ];
    if !values::boolean(ENABLE, gathered.text(ENABLE))? {
        for flag in own {
            if gathered.is_changed(flag)? {
                gathered.warn(format!("--{flag} has no effect without --{ENABLE}"));
            }
        }
        return Ok(None);
    }
    let rate = values::signed(RATE, gathered.text(RATE))?;
    let per_million = Some(rate).filter(|rate| (0..=RATE_MAX).contains(rate));
    let per_million = per_million.and_then(|rate| u32::try_from(rate).ok());
    let text = |flag: &'static str| gathered.text(flag).to_owned();
    Ok(Some(Traces {
        address: text(own[0]),
        service: text(own[1]),
        instance: text(INSTANCE),
        per_million: per_million.ok_or_else(|| {
            let remedy = format!("write recorded requests of a million: 0 to {RATE_MAX}");
            Error::bad(RATE, gathered.text(RATE), remedy)
        })?,
    }))
}
