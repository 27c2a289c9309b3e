//! Memory and descriptors of servers before, during and after a trial.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::timeout;

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
    pub resident_bytes: u64,
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
    pub async fn wait_for(&self, servers: &Servers, report: &mut Report) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let bytes = servers.resident_bytes()?;
            let files = servers.open_files()?;
            let kept_bytes = bytes.saturating_sub(self.resident_bytes);
            let kept_files = files.saturating_sub(self.open_files);
            if kept_bytes <= KEPT_BYTES_MAX && kept_files <= KEPT_FILES_MAX {
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

/// Does `work` and measures the memory at intervals; returns the most that was measured.
pub async fn peak_during<T>(
    servers: &Servers,
    work: impl Future<Output = Outcome<T>>,
) -> Outcome<(T, u64)> {
    let mut work = pin!(work);
    let mut peak = 0;
    loop {
        peak = peak.max(servers.resident_bytes()?);
        if let Ok(done) = timeout(LOOK, &mut work).await {
            return Ok((done?, peak));
        }
    }
}
