//! One event as one line.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value};
use tracing::{Event, Level};
use tracing_serde::fields::AsMap;

use super::time::rfc3339;

/// The parts of an event.
pub(super) struct Line {
    level: &'static str,
    time: String,
    /// Crate, file and line.
    caller: String,
    message: String,
    /// By name.
    fields: Map<String, Value>,
}

impl Line {
    pub(super) fn of(event: &Event<'_>, unix: Duration) -> Line {
        let metadata = event.metadata();
        let Ok(Value::Object(mut fields)) = serde_json::to_value(event.field_map()) else {
            unreachable!("a map of fields is a JSON object");
        };
        let message = match fields.remove("message") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        Line {
            level: level(*metadata.level()),
            time: rfc3339(unix),
            caller: caller(metadata.file().unwrap_or("?"), metadata.line().unwrap_or(0)),
            message,
            fields,
        }
    }

    /// One JSON object.
    pub(super) fn json(self) -> String {
        let mut object = format!(
            r#"{{"level":"{}","ts":"{}","caller":{},"msg":{}"#,
            self.level,
            self.time,
            Value::String(self.caller),
            Value::String(self.message)
        );
        for (name, value) in self.fields {
            let _ = write!(object, ",{}:{value}", Value::String(name));
        }
        let mut text = String::with_capacity(object.len() + 2);
        push_visible(&mut text, &object);
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
        let mut text = format!("{time}\t{level}\t{caller}\t");
        push_visible(&mut text, &message);
        if !fields.is_empty() {
            text.push('\t');
            push_visible(&mut text, &Value::Object(fields).to_string());
        }
        text.push('\n');
        text
    }
}

/// Adds a part of a line. A message or a field may hold text that a client has sent, so
/// characters that end a line, move a terminal's cursor or change the direction of the text
/// are escaped as in JSON.
fn push_visible(line: &mut String, part: &str) {
    for letter in part.chars() {
        if !is_hidden(letter) {
            line.push(letter);
            continue;
        }
        match letter {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            // Every hidden character is one unit of UTF-16.
            _ => drop(write!(line, "\\u{:04x}", u32::from(letter))),
        }
    }
}

/// Whether the character is a control character (C0, DEL, C1), a separator of lines or
/// paragraphs, or changes the direction of the text.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

/// `store/server/src/run.rs` is `server/run.rs`; of a library only the last
/// two steps are shown.
fn caller(file: &str, line: u32) -> String {
    let short = match file.strip_prefix("store/") {
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

    /// Text that a client sent must not look like another line or control a terminal.
    #[test]
    fn control_characters_of_sent_text_are_escaped() {
        let hostile = "a\nb\r\tc\u{1b}[31m\u{7f}\u{9b}2J\u{2028}\u{202e}\0z\u{e9}";
        let escaped = "a\\nb\\r\\tc\\u001b[31m\\u007f\\u009b2J\\u2028\\u202e\\u0000z\u{e9}";
        let hostile_line = || {
            let mut line = line();
            line.message = hostile.to_owned();
            line.fields.insert("text".into(), hostile.into());
            line
        };
        for text in [hostile_line().json(), hostile_line().console()] {
            let (body, end) = text.split_at(text.len() - 1);
            assert_eq!(end, "\n");
            let columns = body.replace('\t', " ");
            assert!(!columns.chars().any(is_hidden), "{text:?}");
            assert_eq!(text.matches(escaped).count(), 2, "{text}");
        }
        assert_eq!(hostile_line().console().matches('\t').count(), 4);
        let value: Value = serde_json::from_str(&hostile_line().json()).unwrap();
        assert_eq!(value["msg"], hostile);
        assert_eq!(value["text"], hostile);
    }

    #[test]
    fn callers_are_short() {
        assert_eq!(
            caller("store/server/src/http/health.rs", 3),
            "server/http/health.rs:3"
        );
        assert_eq!(
            caller("/home/x/registry/src/h2-0.4.1/src/frame.rs", 9),
            "src/frame.rs:9"
        );
    }
}
