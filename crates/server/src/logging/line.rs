//! One event as one line.

use std::fmt::{Debug, Write};
use std::time::Duration;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::time::rfc3339;

/// An event, taken apart.
pub(super) struct Line {
    level: &'static str,
    time: String,
    /// Crate, file and line.
    caller: String,
    message: String,
    /// In the order in which they were written down.
    fields: Map<String, Value>,
}

impl Line {
    /// Takes an event apart.
    pub(super) fn of(event: &Event<'_>, unix: Duration) -> Line {
        let metadata = event.metadata();
        let mut line = Line {
            level: level(*metadata.level()),
            time: rfc3339(unix),
            caller: caller(metadata.file().unwrap_or("?"), metadata.line().unwrap_or(0)),
            message: String::new(),
            fields: Map::new(),
        };
        event.record(&mut line);
        line
    }

    /// One JSON object.
    pub(super) fn json(self) -> String {
        let mut text = format!(
            r#"{{"level":"{}","ts":"{}","caller":{},"msg":{}"#,
            self.level,
            self.time,
            Value::String(self.caller),
            Value::String(self.message)
        );
        for (name, value) in self.fields {
            let _ = write!(text, ",{}:{value}", Value::String(name));
        }
        text.push_str("}\n");
        text
    }

    /// Columns separated by tabs.
    pub(super) fn console(self) -> String {
        let Line {
            level,
            time,
            caller,
            message,
            fields,
        } = self;
        let mut text = format!("{time}\t{level}\t{caller}\t{message}");
        if !fields.is_empty() {
            let _ = write!(text, "\t{}", Value::Object(fields));
        }
        text.push('\n');
        text
    }

    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => drop(self.fields.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

/// `crates/server/src/run.rs` is `server/run.rs`; of a library only the last
/// two steps are shown.
fn caller(file: &str, line: u32) -> String {
    let short = match file.strip_prefix("crates/") {
        Some(own) => own.replacen("/src/", "/", 1),
        None => {
            let steps: Vec<&str> = file.rsplit('/').take(2).collect();
            steps.into_iter().rev().collect::<Vec<_>>().join("/")
        }
    };
    format!("{short}:{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let mut fields = Map::new();
        fields.insert("bytes".into(), 7.into());
        fields.insert("path".into(), "a \"b\"".into());
        Line {
            level: "info",
            time: "T".into(),
            caller: "server/run.rs:1".into(),
            message: "said\n\"so\"".into(),
            fields,
        }
    }

    #[test]
    fn json_is_one_object_on_one_line() {
        let text = line().json();
        assert!(
            text.ends_with('\n') && text.matches('\n').count() == 1,
            "{text}"
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["level"], "info");
        assert_eq!(value["msg"], "said\n\"so\"");
        assert_eq!(value["bytes"], 7);
        assert_eq!(value["path"], "a \"b\"");
    }

    #[test]
    fn console_is_columns() {
        let text = line().console();
        assert!(text.starts_with("T\tinfo\tserver/run.rs:1\tsaid"), "{text}");
    }

    #[test]
    fn callers_are_short() {
        assert_eq!(
            caller("crates/server/src/http/health.rs", 3),
            "server/http/health.rs:3"
        );
        assert_eq!(
            caller("/home/x/registry/src/h2-0.4.1/src/frame.rs", 9),
            "src/frame.rs:9"
        );
    }
}
