//! Counters of calls by method: begun, ended, messages in each direction.

use super::Counter;
use super::histogram::{CALL_SECONDS, DISK_SECONDS, Histogram};
use crate::methods::Method;
use tonic::Code;

/// Number of gRPC's status codes.
const CODES: usize = 17;

/// Labels of the codes; the index is the code's number.
pub(super) const CODE_LABELS: [&str; CODES] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// One call's counters.
#[derive(Debug)]
pub(crate) struct MethodMetrics {
    /// Calls begun.
    pub(crate) started: Counter,
    /// Messages from clients.
    pub(crate) received: Counter,
    /// Messages to clients.
    pub(crate) sent: Counter,
    handled: [Counter; CODES],
    /// Time from request to answer of unary calls that succeeded.
    pub(crate) succeeded: Histogram,
    /// The same of those that failed.
    pub(crate) failed: Histogram,
    /// Time from request to the end of the call, streams included; measured
    /// with `--metrics=extensive` alone.
    pub(crate) handling: Histogram,
}

impl Default for MethodMetrics {
    fn default() -> MethodMetrics {
        MethodMetrics {
            started: Counter::default(),
            received: Counter::default(),
            sent: Counter::default(),
            handled: Default::default(),
            succeeded: Histogram::new(DISK_SECONDS),
            failed: Histogram::new(DISK_SECONDS),
            handling: Histogram::new(CALL_SECONDS),
        }
    }
}

impl MethodMetrics {
    /// Calls ended with a code.
    pub(crate) fn handled(&self, code: Code) -> &Counter {
        &self.handled[code as usize]
    }

    /// Labels of the codes with the calls that ended with them.
    pub(super) fn each_handled(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CODE_LABELS
            .into_iter()
            .zip(self.handled.iter().map(Counter::get))
    }
}

/// All calls' counters.
#[derive(Debug)]
pub(crate) struct GrpcMetrics(Vec<MethodMetrics>);

impl Default for GrpcMetrics {
    fn default() -> GrpcMetrics {
        GrpcMetrics(
            Method::ALL
                .iter()
                .map(|_| MethodMetrics::default())
                .collect(),
        )
    }
}

impl GrpcMetrics {
    /// The counters of a call.
    pub(crate) fn of(&self, method: Method) -> &MethodMetrics {
        &self.0[method as usize]
    }
}
