//! A profile of the processors' time, in the format that `go tool pprof` reads
//! (github.com/google/pprof, proto/profile.proto).
//!
//! A signal interrupts whichever thread runs, 100 times in a second of processor time, and its
//! stack is noted. Only one profile is taken at a time, as in Go.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use pprof::{ProfilerGuard, ProfilerGuardBuilder, Report, Symbol};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Response, StatusCode, header};
use tracing::warn;

use super::page::refusal;
use crate::backend::{Backend, stopped};

/// Samples in a second of processor time, as Go takes them.
const FREQUENCY: i32 = 100;
const SECONDS_DEFAULT: u64 = 30;
const SECONDS_MAX: u64 = 600;
/// Stacks that begin in these libraries are left out: unwinding them inside a signal's handler
/// can wait for a lock that the interrupted thread holds.
const NOT_UNWOUND: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Takes a profile and answers with it.
pub(super) async fn answer(backend: &Arc<Backend>, query: Option<&str>) -> Response<Body> {
    let Some(seconds) = seconds(query.unwrap_or_default()) else {
        let text = format!("seconds: write a whole number from 1 to {SECONDS_MAX}");
        return refusal(StatusCode::BAD_REQUEST, &text);
    };
    let builder = ProfilerGuardBuilder::default();
    let Ok(guard) = builder.frequency(FREQUENCY).blocklist(&NOT_UNWOUND).build() else {
        let text = "Could not enable CPU profiling: cpu profiling already in use";
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, text);
    };
    let mut stopping = backend.stopping.clone();
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
        () = stopped(&mut stopping) => {}
    }
    // Finding the names of functions takes long.
    match backend.aside(move |_| encode(&guard)).await {
        Ok(bytes) => download(bytes),
        Err(status) => refusal(StatusCode::INTERNAL_SERVER_ERROR, status.message()),
    }
}

/// The parameter `seconds`; `None` if it is no usable number.
fn seconds(query: &str) -> Option<u64> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    match pairs.find(|(name, _)| *name == "seconds") {
        None => Some(SECONDS_DEFAULT),
        Some((_, text)) => text
            .parse()
            .ok()
            .filter(|it| (1..=SECONDS_MAX).contains(it)),
    }
}

fn download(bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(bytes))));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    let name = HeaderValue::from_static("attachment; filename=\"profile\"");
    headers.insert(header::CONTENT_DISPOSITION, name);
    response
}

fn encode(guard: &ProfilerGuard<'_>) -> Result<Vec<u8>, Status> {
    let failed = |error: &dyn std::fmt::Display| {
        warn!(%error, "a profile could not be made");
        Status::internal(format!("the profile could not be made: {error}"))
    };
    let report = guard.report().build().map_err(|error| failed(&error))?;
    let profile = Builder::default().profile(&report).encode_to_vec();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&profile).and_then(|()| encoder.finish());
    written.map_err(|error| failed(&error))
}

/// Texts, functions and stacks of a profile; ids are places in its tables.
#[derive(Default)]
struct Builder {
    texts: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    profile: format::Profile,
}

impl Builder {
    fn profile(mut self, report: &Report) -> format::Profile {
        self.text("");
        let kind = |builder: &mut Builder, name: &str, unit: &str| format::ValueType {
            kind: builder.text(name),
            unit: builder.text(unit),
        };
        let samples = kind(&mut self, "samples", "count");
        let time = kind(&mut self, "cpu", "nanoseconds");
        self.profile.sample_type = vec![samples, time];
        self.profile.period_type = Some(time);
        self.profile.period = 1_000_000_000 / i64::from(FREQUENCY);
        let began = report
            .timing
            .start_time
            .duration_since(std::time::UNIX_EPOCH);
        self.profile.time_nanos = began.unwrap_or_default().as_nanos() as i64;
        self.profile.duration_nanos = report.timing.duration.as_nanos() as i64;
        for (stack, &count) in &report.data {
            let places = stack.frames.iter().map(|inlined| self.location(inlined));
            let sample = format::Sample {
                location_id: places.collect(),
                value: vec![count as i64, count as i64 * self.profile.period],
            };
            self.profile.sample.push(sample);
        }
        self.profile
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(&place) = self.texts.get(text) {
            return place;
        }
        let place = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), place);
        place
    }

    /// One frame of a stack, with the functions that the compiler has inlined into it.
    fn location(&mut self, inlined: &[Symbol]) -> u64 {
        let line = inlined.iter().map(|symbol| format::Line {
            function_id: self.function(symbol),
            line: i64::from(symbol.lineno()),
        });
        let line = line.collect();
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(format::Location { id, line });
        id
    }

    fn function(&mut self, symbol: &Symbol) -> u64 {
        let (name, filename) = (self.text(&symbol.name()), self.text(&symbol.filename()));
        if let Some(&id) = self.functions.get(&(name, filename)) {
            return id;
        }
        let id = self.profile.function.len() as u64 + 1;
        self.functions.insert((name, filename), id);
        self.profile.function.push(format::Function {
            id,
            name,
            system_name: name,
            filename,
        });
        id
    }
}

/// The messages of profile.proto, without the fields that are not written here.
mod format {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub kind: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_and_bounded() {
        assert_eq!(seconds(""), Some(30));
        assert_eq!(seconds("debug=1&seconds=5"), Some(5));
        for text in ["seconds=0", "seconds=x", "seconds=601", "seconds=-1"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn texts_and_functions_are_written_once() {
        let mut builder = Builder::default();
        builder.text("");
        let symbol = Symbol {
            name: Some(b"work".to_vec()),
            addr: None,
            lineno: Some(7),
            filename: Some("a.rs".into()),
        };
        let first = builder.location(std::slice::from_ref(&symbol));
        let second = builder.location(&[symbol]);
        assert_eq!((first, second), (1, 2));
        assert_eq!(builder.profile.string_table, ["", "work", "a.rs"]);
        assert_eq!(builder.profile.function.len(), 1);
        assert_eq!(builder.profile.location[1].line[0].line, 7);
    }
}
