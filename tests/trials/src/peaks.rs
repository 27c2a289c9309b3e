//! Memory and descriptors of servers before, during and after a trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::servers::Servers;
use crate::{Outcome, Report};

const LOOK: Duration = Duration::from_millis(50);
/// Time within which a server must free what a trial used.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory that may remain: free memory that the allocator keeps, and growth of the store.
pub const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Open files that may remain: segments and checkpoints are opened and closed.
const KEPT_FILES_MAX: u64 = 16;

/// Memory and open files of idle servers.
#[derive(Clone, Copy)]
pub struct Idle {
    resident_bytes: u64,
    open_files: u64,
}

impl Idle {
    /// Measures the servers now.
    pub fn of(servers: &Servers) -> Outcome<Idle> {
        Ok(Idle {
            resident_bytes: servers.resident_bytes()?,
            open_files: servers.open_files()?,
        })
    }

    /// Waits until the servers need about as little again; fails if they do not in time.
    pub async fn wait_for(
        &self,
        servers: &Servers,
        kept_bytes_max: u64,
        report: &mut Report,
    ) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let bytes = servers.resident_bytes()?;
            let files = servers.open_files()?;
            let kept_bytes = bytes.saturating_sub(self.resident_bytes);
            let kept_files = files.saturating_sub(self.open_files);
            if kept_bytes <= kept_bytes_max && kept_files <= KEPT_FILES_MAX {
                report.add("memory before", mebibytes(self.resident_bytes));
                report.add("memory afterwards", mebibytes(bytes));
                report.add(
                    "open files before and afterwards",
                    format!("{} and {files}", self.open_files),
                );
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{} s later the server still has {} more in memory than when it was idle \
                     and {kept_files} more open files",
                    PATIENCE.as_secs(),
                    mebibytes(kept_bytes)
                )
                .into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A number of bytes in MiB, as text.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Runs `work` and measures the memory at intervals; returns the most that was measured.
pub async fn peak_during(
    servers: &Servers,
    something: impl Future<Output = Outcome>,
) -> Outcome<u64> {
    let over = Arc::new(AtomicBool::new(false));
    let looking = async {
        let mut peak = 0;
        while !over.load(Ordering::Relaxed) {
            peak = peak.max(servers.resident_bytes()?);
            tokio::time::sleep(LOOK).await;
        }
        Ok(peak)
    };
    let doing = async {
        let outcome = something.await;
        over.store(true, Ordering::Relaxed);
        outcome
    };
    let (outcome, peak) = tokio::join!(doing, looking);
    outcome.and(peak)
}
