//! The cluster that is followed, and the flags that name it.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb::{
    AuthStatusRequest, HashKvRequest, HashKvResponse, LeaseLeasesRequest, LeaseTimeToLiveRequest,
    StatusRequest, WatchCreateRequest, WatchResponse,
};
use etcd_api::inkstonepb::GivenLease;
use tonic::Streaming;

use crate::client::{
    Connection, ConnectionArguments, Endpoints, NO_END, Secret, TlsArguments, UserArguments,
};
use crate::failure::Failure;
use crate::watch;

/// Longest time for HashKV, which reads the whole history.
const HASH_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// Flags that select the cluster that is followed.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArguments {
    /// The client URLs of the cluster that is followed, separated by commas
    #[arg(value_name = "SOURCE")]
    source: String,
    /// File with the certificate to show to the source, as PEM
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    source_cert: Option<PathBuf>,
    /// File with the private key of --source-cert, as PEM
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    source_key: Option<PathBuf>,
    /// File with the authorities that sign the source's certificate, as PEM
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    source_cacert: Option<PathBuf>,
    /// With =false, a source without a scheme is an https one
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "true",
        action = clap::ArgAction::Set,
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Source"
    )]
    source_insecure_transport: bool,
    /// A user of the source with the role root; without :PASSWORD it is asked for
    #[arg(long, value_name = "NAME[:PASSWORD]", help_heading = "Source")]
    source_user: Option<Secret>,
    /// Password of --source-user, which is then a name, even with a colon in it
    #[arg(long, value_name = "PASSWORD", help_heading = "Source")]
    source_password: Option<Secret>,
}

impl SourceArguments {
    /// The source's endpoints and their text, with the time limits of the target's.
    pub(crate) fn endpoints(
        self,
        target: &ConnectionArguments,
    ) -> Result<(Endpoints, String), Failure> {
        let tls = TlsArguments::of(
            self.source_cacert,
            self.source_cert,
            self.source_key,
            self.source_insecure_transport,
        );
        let user = UserArguments::of(self.source_user, self.source_password);
        let name = self.source.clone();
        let endpoints = Endpoints::new(target.for_other(self.source, tls, user))?;
        Ok((endpoints, name))
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

/// A watch of all keys from a revision on.
pub(crate) async fn watch_all(
    connection: &Connection,
    start_revision: i64,
) -> Result<Streaming<WatchResponse>, Failure> {
    let all = || Bytes::from_static(NO_END);
    let create = WatchCreateRequest {
        key: all(),
        range_end: all(),
        start_revision,
        fragment: true,
        ..WatchCreateRequest::default()
    };
    watch::begin(connection, create).await
}

/// HashKV at a revision. The inner error is the server's refusal.
pub(crate) async fn hash(
    connection: &Connection,
    revision: i64,
) -> Result<Result<HashKvResponse, tonic::Status>, Failure> {
    let send = async |request| connection.maintenance().hash_kv(request).await;
    let message = HashKvRequest { revision };
    connection
        .attempt_within(HASH_TIME_MAX, message, send)
        .await
}

/// The ids of all leases.
pub(crate) async fn lease_ids(connection: &Connection) -> Result<Vec<i64>, Failure> {
    let send = async |request| connection.lease().lease_leases(request).await;
    let leases = connection.call(LeaseLeasesRequest {}, send).await?.leases;
    Ok(leases.iter().map(|lease| lease.id).collect())
}

/// A lease with the time to live that was granted. One that has ended in the meantime has the shortest:
/// its end is taken over later.
pub(crate) async fn lease(connection: &Connection, id: i64) -> Result<GivenLease, Failure> {
    let send = async |request| connection.lease().lease_time_to_live(request).await;
    let message = LeaseTimeToLiveRequest { id, keys: false };
    let ttl = match connection.attempt(message, send).await? {
        Ok(answer) => answer.granted_ttl,
        Err(status) if status.code() == tonic::Code::NotFound => 0,
        Err(status) => return Err(connection.refused(&status)),
    };
    Ok(GivenLease { id, ttl })
}

pub(crate) async fn users_state(connection: &Connection) -> Result<UsersState, Failure> {
    let send = async |request| connection.auth().auth_status(request).await;
    let status = connection.call(AuthStatusRequest {}, send).await?;
    Ok(UsersState {
        enabled: status.enabled,
        revision: status.auth_revision,
    })
}
