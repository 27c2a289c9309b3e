//! The end of this side's own certificate, which is looked at with each handshake.
//!
//! etcd serves with an expired certificate, and so does this; the other side refuses it.

use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Throttle};
use rustls::sign::CertifiedKey;
use tracing::warn;

use crate::facts::Facts;
use crate::files::NamedFile;

/// Shortest time between two lines about the same certificate.
const LINE_EVERY: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Expiry {
    /// Seconds since 1970; `None` if the certificate does not say.
    not_after: Option<i64>,
    lines: Throttle,
}

impl Expiry {
    pub(crate) fn of(certified: &CertifiedKey) -> Expiry {
        let first = certified.cert.first();
        let facts = first.and_then(|first| Facts::of(first).ok());
        Expiry {
            not_after: facts.map(|facts| facts.not_after),
            lines: Throttle::new(LINE_EVERY),
        }
    }

    pub(crate) fn not_after(&self) -> Option<i64> {
        self.not_after
    }

    /// Logs that the certificate has expired: when that is seen first, and once an hour.
    pub(crate) fn warn_if_past(&mut self, file: &NamedFile) {
        let now = i64::try_from(RealClock.unix_time().as_secs()).unwrap_or(i64::MAX);
        let Some(not_after) = self.not_after.filter(|not_after| *not_after < now) else {
            return;
        };
        if self.lines.note(RealClock.now(), 1).is_some() {
            warn!(
                file = %file.path.display(),
                expired_seconds_ago = now - not_after,
                "the certificate of --{} has expired, and the other side will refuse it: write a \
                 new one with its key to its files, which are read again without a restart",
                file.option
            );
        }
    }
}
