//! Compares the histories of the source and of the store by HashKV.
//!
//! Two hashes of a revision can be compared only if both sides have compacted up to the same revision. So
//! the store compacts what the source has compacted first.

use std::time::Duration;

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::HashKvResponse;
use etcd_api::inkstonepb::follow_change::Change;
use tokio::time::sleep;
use tonic::Status;

use super::target::Target;
use crate::client::Connection;
use crate::client::observed_cluster::hash_kv;
use crate::failure::Failure;

/// How often a comparison is tried again while one of the sides compacts.
const ATTEMPTS_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal {
        hash: u32,
    },
    Different {
        here: u32,
        source: u32,
    },
    /// The source has compacted beyond the revision.
    CompactedThere,
    /// The two sides have not compacted up to the same revision.
    Unsettled,
}

/// Compares the histories up to a revision that both have.
pub(crate) async fn compare(
    source: &Connection,
    target: &Target,
    revision: i64,
) -> Result<Comparison, Failure> {
    for _ in 0..ATTEMPTS_MAX {
        let theirs = match hash_kv(source, revision).await? {
            Ok(theirs) => theirs,
            Err(status) if is(&status, Refusal::Compacted) => {
                return Ok(Comparison::CompactedThere);
            }
            // The member that was asked has not come so far.
            Err(status) if is(&status, Refusal::FutureRevision) => {
                sleep(PAUSE).await;
                continue;
            }
            Err(status) => return Err(source.refused(&status)),
        };
        let Some(ours) = hash_here(target, revision).await? else {
            sleep(PAUSE).await;
            continue;
        };
        if ours.compact_revision == theirs.compact_revision {
            return Ok(match ours.hash == theirs.hash {
                true => Comparison::Equal { hash: ours.hash },
                false => Comparison::Different {
                    here: ours.hash,
                    source: theirs.hash,
                },
            });
        }
        let compacted = Change::Compacted(theirs.compact_revision);
        target.must_change(compacted).await?;
        sleep(PAUSE).await;
    }
    Ok(Comparison::Unsettled)
}

/// `None` while the member does not have the revision, or has compacted it.
async fn hash_here(target: &Target, revision: i64) -> Result<Option<HashKvResponse>, Failure> {
    match hash_kv(&target.connection, revision).await? {
        Ok(ours) => Ok(Some(ours)),
        Err(status) if is(&status, Refusal::Compacted) || is(&status, Refusal::FutureRevision) => {
            Ok(None)
        }
        Err(status) => Err(target.connection.refused(&status)),
    }
}

fn is(status: &Status, refusal: Refusal) -> bool {
    status.message() == refusal.message()
}
