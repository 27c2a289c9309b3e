//! Log lines as etcd's operators know them.
//!
//! ```text
//!   {"level":"info","ts":"2026-01-02T15:04:05.999999Z","caller":"server/run.rs:90","msg":"…"}
//!   2026-01-02T15:04:05.999999Z  info  server/run.rs:90  …  {"key":"value"}
//! ```
//!
//! (with tabs between the columns). One event is one line is one write, so lines of several threads never mix.
//! Events of our own crates are taken from the configured level on, those of
//! libraries only from `warn` on: their debug lines tell about frames, not
//! about this server.

mod line;
mod time;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use environment::Clock;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat, LogOutput};

/// Makes this process log as configured, from now on; does nothing when a
/// subscriber is there already (an embedding program has its own).
pub fn start(config: &LogConfig, clock: Arc<dyn Clock>) -> io::Result<()> {
    let outputs = config
        .outputs
        .iter()
        .map(open)
        .collect::<io::Result<Vec<_>>>()?;
    let lines = Lines {
        level: config.level,
        format: config.format,
        clock,
        outputs,
    };
    let _ = tracing_subscriber::registry().with(lines).try_init();
    Ok(())
}

/// Writes events.
struct Lines {
    level: Level,
    format: LogFormat,
    clock: Arc<dyn Clock>,
    outputs: Vec<Output>,
}

/// A place for lines.
enum Output {
    Stderr,
    Stdout,
    File(Mutex<std::fs::File>),
}

fn open(output: &LogOutput) -> io::Result<Output> {
    Ok(match output {
        LogOutput::Stderr => Output::Stderr,
        LogOutput::Stdout => Output::Stdout,
        LogOutput::File(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let named = |error: io::Error| {
                let text = format!("cannot append to log file {}: {error}", path.display());
                io::Error::new(error.kind(), text)
            };
            Output::File(Mutex::new(file.map_err(named)?))
        }
    })
}

impl Output {
    /// A line that cannot be written is lost: there is no one to tell.
    fn write(&self, line: &[u8]) {
        let _ = match self {
            Output::Stderr => io::stderr().lock().write_all(line),
            Output::Stdout => io::stdout().lock().write_all(line),
            Output::File(file) => file
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(line),
        };
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let most = if is_ours(metadata) {
            self.level
        } else {
            self.level.min(Level::WARN)
        };
        *metadata.level() <= most
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = line::Line::of(event, self.clock.unix_time());
        let text = match self.format {
            LogFormat::Json => line.json(),
            LogFormat::Console => line.console(),
        };
        self.outputs
            .iter()
            .for_each(|output| output.write(text.as_bytes()));
    }
}

/// Whether the event comes from this workspace. Files of the registry have
/// absolute paths, ours are relative to the workspace.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.file().is_some_and(|file| !file.starts_with('/'))
}
