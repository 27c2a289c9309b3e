//! Counters of calls by method: begun, ended, messages in each direction.

use super::Counter;
use super::histogram::{CALL_SECONDS, DISK_SECONDS, Histogram};
use crate::methods::Method;
use tonic::Code;

/// Number of gRPC's status codes.
const CODES: usize = 17;

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

    /// The codes, as gRPC's library for Go calls them, with the calls that ended with them.
    pub(super) fn each_handled(&self) -> impl Iterator<Item = (String, u64)> {
        self.handled.iter().enumerate().map(|(code, calls)| {
            let label = match Code::from(code as i32) {
                Code::Ok => "OK".to_owned(),
                Code::Cancelled => "Canceled".to_owned(),
                code => format!("{code:?}"),
            };
            (label, calls.get())
        })
    }
}

/// All calls' counters.
#[derive(Debug)]
pub(crate) struct GrpcMetrics(Vec<MethodMetrics>);

impl Default for GrpcMetrics {
    fn default() -> GrpcMetrics {
        let methods = Method::ALL.iter();
        GrpcMetrics(methods.map(|_| MethodMetrics::default()).collect())
    }
}

impl GrpcMetrics {
    /// The counters of a call.
    pub(crate) fn of(&self, method: Method) -> &MethodMetrics {
        &self.0[method as usize]
    }
}
