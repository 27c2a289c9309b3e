//! The cluster that is followed, and the flags that name it.

use etcd_api::etcdserverpb::StatusRequest;

use crate::client::observed_cluster::auth_status;
use crate::client::other_cluster::other_cluster_flags;
use crate::client::{Connection, ConnectionArguments, Endpoints};
use crate::failure::Failure;

other_cluster_flags!(SourceFlags, prefix: "source", cluster: "source", heading: "Source");

/// Flags that select the cluster that is followed. Its user needs the role root.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArguments {
    /// The client URLs of the cluster that is followed, separated by commas. If it checks users, the user has
    /// the role root there
    #[arg(value_name = "SOURCE")]
    source: String,
    #[command(flatten)]
    flags: SourceFlags,
}

impl SourceArguments {
    /// The source's endpoints and their text, with the time limits of the target's.
    pub(crate) fn endpoints(
        self,
        target: &ConnectionArguments,
    ) -> Result<(Endpoints, String), Failure> {
        let name = self.source.clone();
        Ok((self.flags.endpoints(self.source, target)?, name))
    }
}

/// Whether users are checked, and the revision of users and roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsersState {
    pub(crate) enabled: bool,
    pub(crate) revision: u64,
}

/// Where a cluster stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterState {
    pub(crate) cluster_id: u64,
    pub(crate) revision: i64,
}

/// The newest revision that the member has applied.
pub(crate) async fn state(connection: &Connection) -> Result<ClusterState, Failure> {
    let send = async |request| connection.maintenance().status(request).await;
    let status = connection.call(StatusRequest {}, send).await?;
    let header = status.header.unwrap_or_default();
    Ok(ClusterState {
        cluster_id: header.cluster_id,
        revision: header.revision,
    })
}

pub(crate) async fn users_state(connection: &Connection) -> Result<UsersState, Failure> {
    let status = auth_status(connection).await?;
    Ok(UsersState {
        enabled: status.enabled,
        revision: status.auth_revision,
    })
}
