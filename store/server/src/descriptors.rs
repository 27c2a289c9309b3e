//! Checks at the start that the process may open as many files as a server needs.
//!
//! ```text
//!   limit  = open before + cores + log and peers + reserve + clients
//!                                                  └────────┬──────┘
//!                                                   connections.rs
//! ```

use rustix::process::{Resource, getrlimit};

use crate::{Error, connections, files};

/// Descriptors of each core: its runtime's polling, its sockets, and a connection in its
/// queue.
const BY_CORE: u64 = 5;
/// Further descriptors: the log's lock, directory and first segments, the runtime for other
/// members, and connections to two of them in both directions.
const BESIDE: u64 = 22;
/// The limit to advise: enough for many clients and a large store.
const ADVISED: u64 = 65_536;

/// Refuses a start with so few descriptors that the member could answer no client, or its
/// log could not open another segment.
pub(crate) fn check(cores: usize) -> Result<(), Error> {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    let open = files::open_files().unwrap_or(3);
    judge(limit, open, cores)
}

fn judge(limit: u64, open: u64, cores: usize) -> Result<(), Error> {
    let needed = open + BY_CORE * cores as u64 + BESIDE + connections::LEAST;
    if limit >= needed {
        return Ok(());
    }
    Err(Error::TooFewDescriptors {
        limit,
        needed,
        cores,
        advised: ADVISED,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_refused_with_the_figure_and_the_remedy() {
        assert!(
            judge(72, 5, 2).is_ok(),
            "72 suffice for three members on two cores"
        );
        assert!(judge(1024, 20, 96).is_ok());
        let refused = judge(40, 5, 2).unwrap_err().to_string();
        for part in ["may open 40 files", "2 cores", "needs 5", "ulimit -n"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
