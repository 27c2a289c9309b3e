//! `/health`, `/livez` and `/readyz`.
//!
//! `/health` is the older page with one answer. The other two run named
//! checks, each of which also has a path of its own, and with `?verbose` list the outcome
//! of each. `?exclude=` leaves out an alarm or a check.

use std::fmt::Write;
use std::sync::Arc;

use etcd_api::etcdserverpb::{AlarmMember, AlarmType, RangeRequest};
use tonic::body::Body;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{Method, Response, StatusCode};
use tracing::warn;

use super::page::{method_not_allowed, no_sniffing, plain, refusal};
use crate::backend::Backend;

/// A named check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    DataCorruption,
    SerializableRead,
    LinearizableRead,
    NonLearner,
}

const LIVE: &[Check] = &[Check::SerializableRead];
const READY: &[Check] = &[
    Check::DataCorruption,
    Check::SerializableRead,
    Check::LinearizableRead,
    Check::NonLearner,
];

/// The answer to one of the three pages, or `None` for another path.
pub(super) async fn answer(backend: &Arc<Backend>, parts: &Parts) -> Option<Response<Body>> {
    let path = parts.uri.path().strip_prefix('/')?;
    let (root, one) = path
        .split_once('/')
        .map_or((path, None), |(root, name)| (root, Some(name)));
    let checks = match (root, one) {
        ("health", None) => &[],
        ("livez", _) => LIVE,
        ("readyz", _) => READY,
        _ => return None,
    };
    let checks: Vec<Check> = match one {
        None => checks.to_vec(),
        Some(name) => vec![*checks.iter().find(|check| check.name() == name)?],
    };
    if parts.method != Method::GET {
        return Some(method_not_allowed());
    }
    let query = parts.uri.query().unwrap_or_default();
    Some(match root {
        "health" => health(backend, query).await,
        _ => run(backend, root, &checks, query, one.is_none()).await,
    })
}

/// Values of a key in a query.
fn values<'a>(query: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    query.split('&').filter_map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == key).then_some(value)
    })
}

async fn health(backend: &Arc<Backend>, query: &str) -> Response<Body> {
    let serializable = values(query, "serializable").next() == Some("true");
    let reason = unhealthy(backend, query, serializable).await;
    let metrics = &backend.metrics;
    match reason {
        None => {
            metrics.health.passed.add(1);
            let text = r#"{"health":"true","reason":""}"#;
            plain(StatusCode::OK, text.to_owned())
        }
        Some(reason) => {
            metrics.health.failed.add(1);
            let reason = serde_json::Value::String(reason);
            let text = format!(r#"{{"health":"false","reason":{reason}}}"#);
            warn!(output = text, "/health error");
            refusal(StatusCode::SERVICE_UNAVAILABLE, &text)
        }
    }
}

async fn unhealthy(backend: &Arc<Backend>, query: &str, serializable: bool) -> Option<String> {
    for alarm in backend.reader().alarms() {
        let kind = AlarmType::try_from(alarm.alarm).unwrap_or(AlarmType::None);
        if values(query, "exclude").any(|name| name == kind.as_str_name()) {
            continue;
        }
        return Some(match kind {
            AlarmType::None => "ALARM UNKNOWN".to_owned(),
            kind => format!("ALARM {}", kind.as_str_name()),
        });
    }
    if !serializable && backend.leader() == 0 {
        return Some("RAFT NO LEADER".to_owned());
    }
    let failed = read(backend, serializable).await.err();
    failed.map(|error| format!("RANGE ERROR:{error}"))
}

/// Reads a key that does not exist.
async fn read(backend: &Arc<Backend>, serializable: bool) -> Result<(), String> {
    if !serializable {
        let confirmed = backend.confirm_reads().await;
        confirmed.map_err(|status| status.message().to_owned())?;
    }
    let request = RangeRequest {
        keys_only: true,
        limit: 1,
        ..RangeRequest::default()
    };
    let read = backend.reader().range(&request);
    read.map(drop).map_err(|error| error.to_string())
}

async fn run(
    backend: &Arc<Backend>,
    root: &str,
    checks: &[Check],
    query: &str,
    all: bool,
) -> Response<Body> {
    let mut report = String::new();
    let mut healthy = true;
    for check in checks {
        if all && values(query, "exclude").any(|name| name == check.name()) {
            continue;
        }
        let outcome = check.run(backend).await;
        let (checks, name) = (&backend.metrics.checks, check.name());
        checks.count(root, name, outcome.is_ok());
        healthy &= outcome.is_ok();
        let _ = match outcome {
            Ok(()) => writeln!(report, "[+]{name} ok"),
            Err(reason) => writeln!(report, "[-]{name} failed: {reason}"),
        };
    }
    if !healthy {
        warn!(path = root, reason = report, "health check error");
        return refusal(StatusCode::SERVICE_UNAVAILABLE, &report);
    }
    if values(query, "verbose").next().is_none() {
        report.clear();
    }
    let mut response = plain(StatusCode::OK, report + "ok\n");
    no_sniffing(&mut response);
    response
}

impl Check {
    /// The name in a path or a query.
    fn name(self) -> &'static str {
        match self {
            Check::DataCorruption => "data_corruption",
            Check::SerializableRead => "serializable_read",
            Check::LinearizableRead => "linearizable_read",
            Check::NonLearner => "non_learner",
        }
    }

    async fn run(self, backend: &Arc<Backend>) -> Result<(), String> {
        match self {
            Check::DataCorruption => {
                let alarms = backend.reader().alarms();
                let is_corrupt = |alarm: &AlarmMember| alarm.alarm == AlarmType::Corrupt as i32;
                match alarms.iter().any(is_corrupt) {
                    true => Err("alarm activated: CORRUPT".to_owned()),
                    false => Ok(()),
                }
            }
            Check::SerializableRead => read(backend, true).await,
            Check::LinearizableRead => {
                if backend.leader() == 0 {
                    return Err("there is no leader".to_owned());
                }
                read(backend, false).await
            }
            Check::NonLearner if backend.node.is_learner() => {
                Err("this member is a learner".to_owned())
            }
            Check::NonLearner => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_may_hold_a_key_many_times() {
        let query = "exclude=a&verbose&exclude=b";
        assert_eq!(values(query, "exclude").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(values(query, "verbose").next(), Some(""));
        assert_eq!(values("", "verbose").next(), None);
    }
}
