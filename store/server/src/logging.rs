//! Log lines as etcd's operators know them.
//!
//! ```text
//!   {"level":"info","ts":"2026-01-02T15:04:05.999999Z","caller":"server/run.rs:90","msg":"…"}
//!   2026-01-02T15:04:05.999999Z  info  server/run.rs:90  …  {"key":"value"}
//! ```
//!
//! (with tabs between the columns). One event is one line is one write, so lines of several threads never mix.
//! Events of this workspace's crates are logged from the configured level on, those of
//! libraries only from `warn` on: their debug lines describe frames, not
//! this server.

mod line;
mod rotation;
mod time;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use environment::Clock;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat, LogOutput};
use crate::lock;
use rotation::{RotatingFile, append_to};

/// Installs the configured logger for this process; does nothing if a subscriber is
/// installed already (an embedding program may have its own).
pub fn start(config: &LogConfig, clock: Arc<dyn Clock>) -> io::Result<()> {
    let outputs = config.outputs.iter();
    let outputs: io::Result<Vec<_>> = outputs.map(|it| open(it, &clock)).collect();
    let lines = Lines {
        level: config.level,
        format: config.format,
        clock,
        outputs: outputs?,
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

type Output = Mutex<Box<dyn Write + Send>>;

fn open(output: &LogOutput, clock: &Arc<dyn Clock>) -> io::Result<Output> {
    let writer: Box<dyn Write + Send> = match output {
        LogOutput::Stderr => Box::new(io::stderr()),
        LogOutput::Stdout => Box::new(io::stdout()),
        LogOutput::File(path) => Box::new(append_to(path)?),
        LogOutput::Rotating(path, rotation) => {
            Box::new(RotatingFile::open(path, *rotation, Arc::clone(clock))?)
        }
    };
    Ok(Mutex::new(writer))
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
        for output in &self.outputs {
            let mut output = lock(output);
            // If that fails the line is lost: an error could only be logged.
            let _ = output.write_all(text.as_bytes());
        }
    }
}

/// Whether the event comes from this workspace. Files of the registry have
/// absolute paths, ours are relative to the workspace.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.file().is_some_and(|file| !file.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;
    use tracing::warn;

    use super::*;

    fn logged(format: LogFormat, events: impl FnOnce()) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::stepped());
        let output = open(&LogOutput::File(path.clone()), &clock).expect("a log file");
        let lines = Lines {
            level: Level::INFO,
            format,
            clock,
            outputs: vec![output],
        };
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, events);
        crate::read_text(&path).expect("text")
    }

    #[test]
    fn each_event_is_one_line_for_any_text_of_a_client() {
        let sent = "x\n2026-01-01T00:00:00.000000Z\tinfo\tfaked\u{1b}]0;title\u{7}\r\u{9b}1A";
        for format in [LogFormat::Json, LogFormat::Console] {
            let text = logged(format, || {
                warn!("refused: {sent}");
                warn!(text = sent, "a text");
                warn!(text = %sent, "as it prints");
                warn!(text = ?sent, "as it is debugged");
            });
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 4, "{text}");
            let raw = |letter: char| letter.is_control() && letter != '\t';
            assert!(!lines.iter().any(|line| line.contains(raw)), "{text:?}");
            assert!(lines.iter().all(|line| line.contains("faked")), "{text}");
        }
    }
}
