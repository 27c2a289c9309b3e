//! To JSON.

use serde_json::{Map, Value, json};

use super::LAYOUT;
use crate::{
    Answer, Change, Delivery, Entry, History, Operation, Outcome, Request, Version, Watch,
};

pub(super) fn head(history: &History) -> Value {
    json!({ "history": LAYOUT, "clock_error_percent": history.clock_error_percent })
}

pub(super) fn operation(operation: &Operation) -> Value {
    let mut line = request(&operation.request);
    line.extend([
        ("client".to_owned(), json!(operation.client)),
        ("member".to_owned(), json!(operation.member)),
        ("life".to_owned(), json!(operation.life)),
        ("called".to_owned(), json!(operation.called)),
        ("returned".to_owned(), json!(operation.returned)),
    ]);
    line.append(&mut outcome(&operation.outcome));
    Value::Object(line)
}

fn request(request: &Request) -> Map<String, Value> {
    object(match request {
        Request::Put {
            key,
            value,
            lease,
            previous,
        } => json!({ "operation": "put", "key": key, "value": value, "lease": lease,
                     "previous": previous }),
        Request::Delete { key } => json!({ "operation": "delete", "key": key }),
        Request::Get {
            key,
            end,
            revision,
            serializable,
        } => json!({ "operation": "get", "key": key, "end": end, "at": revision,
                     "serializable": serializable }),
        Request::Swap {
            key,
            expected,
            puts,
        } => json!({ "operation": "swap", "key": key, "expected": expected, "puts": puts }),
        Request::Grant { lease, seconds } => {
            json!({ "operation": "grant", "lease": lease, "asked_seconds": seconds })
        }
        Request::Revoke { lease } => json!({ "operation": "revoke", "lease": lease }),
        Request::Renew { lease } => json!({ "operation": "renew", "lease": lease }),
    })
}

fn outcome(outcome: &Outcome) -> Map<String, Value> {
    object(match outcome {
        Outcome::Done(Answer {
            revision,
            succeeded,
            versions,
            seconds,
        }) => {
            let versions: Vec<Value> = versions.iter().map(version).collect();
            json!({ "outcome": "done", "revision": revision, "succeeded": succeeded,
                    "versions": versions, "seconds": seconds })
        }
        Outcome::Unknown(reason) => json!({ "outcome": "unknown", "reason": reason }),
        Outcome::Refused(reason) => json!({ "outcome": "refused", "reason": reason }),
    })
}

fn version(version: &Version) -> Value {
    let Version {
        key,
        value,
        created,
        modified,
        version,
        lease,
    } = version;
    json!({ "key": key, "value": value, "created": created, "modified": modified,
            "version": version, "lease": lease })
}

pub(super) fn watch(watch: &Watch) -> Value {
    let deliveries: Vec<Value> = watch.deliveries.iter().map(delivery).collect();
    json!({ "watch": watch.client, "member": watch.member, "key": watch.key, "end": watch.end,
            "first": watch.first, "called": watch.called, "deliveries": deliveries })
}

fn delivery(delivery: &Delivery) -> Value {
    let changes: Vec<Value> = delivery.changes.iter().map(change).collect();
    json!({ "at": delivery.at, "revision": delivery.revision, "changes": changes })
}

fn change(change: &Change) -> Value {
    match change {
        Change::Put(put) => version(put),
        Change::Delete { key, modified } => json!({ "deleted": key, "modified": modified }),
    }
}

pub(super) fn entry(entry: &Entry) -> Value {
    let changes: Vec<Value> = entry.changes.iter().map(change).collect();
    json!({ "ledger": entry.revision, "changes": changes })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => unreachable!("{other} was written as an object"),
    }
}
