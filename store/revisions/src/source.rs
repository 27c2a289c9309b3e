//! The cluster that a store follows.

use std::sync::Arc;

use etcd_api::inkstonepb::FollowedSource;

/// The cluster that a store follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceCluster {
    pub cluster_id: u64,
    /// How its operator calls it; errors show it.
    pub name: Arc<str>,
}

impl SourceCluster {
    /// The same as a message.
    pub fn to_message(&self) -> FollowedSource {
        FollowedSource {
            cluster_id: self.cluster_id,
            name: self.name.to_string(),
        }
    }
}
