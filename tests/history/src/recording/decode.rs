//! From JSON.

use serde_json::Value;

use super::LAYOUT;
use crate::{
    Answer, Change, Delivery, Entry, History, Operation, Outcome, Request, Version, Watch,
};

type Read<T> = Result<T, String>;

pub(super) fn line(history: &mut History, is_first: bool, line: &Value) -> Read<()> {
    if is_first {
        let layout = unsigned(line, "history")?;
        if layout != LAYOUT {
            return Err(format!("layout {layout}; this program reads {LAYOUT}"));
        }
        history.clock_error_percent = unsigned(line, "clock_error_percent")?;
    } else if line.get("operation").is_some() {
        history.operations.push(operation(line)?);
    } else if line.get("watch").is_some() {
        history.watches.push(watch(line)?);
    } else {
        history.ledger.push(Entry {
            revision: number(line, "ledger")?,
            changes: list(line, "changes", change)?,
        });
    }
    Ok(())
}

fn operation(line: &Value) -> Read<Operation> {
    let life = match field(line, "life")? {
        Value::Null => None,
        _ => Some(small(line, "life")?),
    };
    Ok(Operation {
        client: small(line, "client")?,
        member: small(line, "member")?,
        life,
        called: unsigned(line, "called")?,
        returned: unsigned(line, "returned")?,
        request: request(line)?,
        outcome: outcome(line)?,
    })
}

fn request(line: &Value) -> Read<Request> {
    let lease = || number(line, "lease");
    Ok(match &text(line, "operation")?[..] {
        "put" => Request::Put {
            key: text(line, "key")?,
            value: text(line, "value")?,
            lease: lease()?,
            previous: truth(line, "previous")?,
        },
        "delete" => Request::Delete {
            key: text(line, "key")?,
        },
        "get" => Request::Get {
            key: text(line, "key")?,
            end: text(line, "end")?,
            revision: number(line, "at")?,
            serializable: truth(line, "serializable")?,
        },
        "swap" => Request::Swap {
            key: text(line, "key")?,
            expected: number(line, "expected")?,
            puts: list(line, "puts", pair)?,
        },
        "grant" => Request::Grant {
            lease: lease()?,
            seconds: number(line, "asked_seconds")?,
        },
        "revoke" => Request::Revoke { lease: lease()? },
        "renew" => Request::Renew { lease: lease()? },
        other => return Err(format!("no operation is called {other:?}")),
    })
}

fn pair(value: &Value) -> Read<(String, String)> {
    match value.as_array().map(Vec::as_slice) {
        Some([Value::String(key), Value::String(value)]) => Ok((key.clone(), value.clone())),
        _ => Err(format!("{value} is no key with a value")),
    }
}

fn outcome(line: &Value) -> Read<Outcome> {
    Ok(match &text(line, "outcome")?[..] {
        "done" => Outcome::Done(Answer {
            revision: number(line, "revision")?,
            succeeded: truth(line, "succeeded")?,
            versions: list(line, "versions", version)?,
            seconds: number(line, "seconds")?,
        }),
        "unknown" => Outcome::Unknown(text(line, "reason")?),
        "refused" => Outcome::Refused(text(line, "reason")?),
        other => return Err(format!("no outcome is called {other:?}")),
    })
}

fn version(value: &Value) -> Read<Version> {
    Ok(Version {
        key: text(value, "key")?,
        value: text(value, "value")?,
        created: number(value, "created")?,
        modified: number(value, "modified")?,
        version: number(value, "version")?,
        lease: number(value, "lease")?,
    })
}

fn watch(line: &Value) -> Read<Watch> {
    Ok(Watch {
        client: small(line, "watch")?,
        member: small(line, "member")?,
        key: text(line, "key")?,
        end: text(line, "end")?,
        first: number(line, "first")?,
        called: unsigned(line, "called")?,
        deliveries: list(line, "deliveries", delivery)?,
    })
}

fn delivery(value: &Value) -> Read<Delivery> {
    Ok(Delivery {
        at: unsigned(value, "at")?,
        revision: number(value, "revision")?,
        changes: list(value, "changes", change)?,
    })
}

fn change(value: &Value) -> Read<Change> {
    if value.get("deleted").is_none() {
        return version(value).map(Change::Put);
    }
    Ok(Change::Delete {
        key: text(value, "deleted")?,
        modified: number(value, "modified")?,
    })
}

fn field<'a>(value: &'a Value, name: &str) -> Read<&'a Value> {
    value
        .get(name)
        .ok_or_else(|| format!("{name:?} is missing"))
}

fn wrong(name: &str) -> String {
    format!("{name:?} is of the wrong kind")
}

fn text(value: &Value, name: &str) -> Read<String> {
    let text = field(value, name)?.as_str();
    text.map(str::to_owned).ok_or_else(|| wrong(name))
}

fn number(value: &Value, name: &str) -> Read<i64> {
    field(value, name)?.as_i64().ok_or_else(|| wrong(name))
}

fn unsigned(value: &Value, name: &str) -> Read<u64> {
    field(value, name)?.as_u64().ok_or_else(|| wrong(name))
}

fn small(value: &Value, name: &str) -> Read<u32> {
    u32::try_from(unsigned(value, name)?).map_err(|_| wrong(name))
}

fn truth(value: &Value, name: &str) -> Read<bool> {
    field(value, name)?.as_bool().ok_or_else(|| wrong(name))
}

fn list<T>(value: &Value, name: &str, one: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    let all = field(value, name)?.as_array().ok_or_else(|| wrong(name))?;
    all.iter().map(one).collect()
}
