//! One request of a client, sent once over a connection of its own.

use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb::{
    Member as Listed, MemberAddRequest, MemberListRequest, MemberPromoteRequest,
    MemberRemoveRequest, MemberUpdateRequest, MoveLeaderRequest, PutRequest, RangeRequest,
    StatusRequest, cluster_client::ClusterClient, kv_client::KvClient,
    maintenance_client::MaintenanceClient,
};
use tokio::time::timeout;
use tonic::{Status, transport::Channel};

/// Connecting takes no longer, or is not done.
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// The keys of a walk begin so.
pub const PREFIX: &str = "walk/";
/// The first key behind them.
const PREFIX_END: &str = "walk0";

/// What is asked of a server.
#[derive(Clone, Debug)]
pub enum Request {
    Put(String),
    /// All keys of the walk, with the value of each.
    Read {
        serializable: bool,
    },
    List {
        linearizable: bool,
    },
    Add {
        peer_url: String,
        learner: bool,
    },
    Update {
        id: u64,
        peer_url: String,
    },
    Promote(u64),
    Remove(u64),
    MoveLeader(u64),
    /// The id of the leader that the server knows; zero for none.
    Leader,
}

/// What a server answers, as far as a walk looks at it.
#[derive(Clone, Debug)]
pub enum Reply {
    Done,
    Keys(Vec<String>),
    Members(Vec<Listed>),
    /// The id of the new member.
    Added(u64),
    Leader(u64),
}

impl Request {
    /// Sends it to `address`, and waits no longer than `patience`.
    pub async fn send(self, address: &str, patience: Duration) -> Result<Reply, Status> {
        let late = |_| Status::deadline_exceeded("no answer in the client's time");
        timeout(patience, self.send_patiently(address))
            .await
            .map_err(late)?
    }

    async fn send_patiently(self, address: &str) -> Result<Reply, Status> {
        let channel = dial(address).await?;
        match self {
            Request::Put(key) => {
                let request = PutRequest {
                    key: Bytes::from(key.clone()),
                    value: Bytes::from(key),
                    ..PutRequest::default()
                };
                KvClient::new(channel).put(request).await?;
                Ok(Reply::Done)
            }
            Request::Read { serializable } => read(channel, serializable).await,
            Request::Leader => {
                let mut client = MaintenanceClient::new(channel);
                let status = client.status(StatusRequest::default()).await?;
                Ok(Reply::Leader(status.into_inner().leader))
            }
            Request::MoveLeader(id) => {
                let request = MoveLeaderRequest { target_id: id };
                MaintenanceClient::new(channel).move_leader(request).await?;
                Ok(Reply::Done)
            }
            change => ask_cluster(channel, change).await,
        }
    }
}

async fn dial(address: &str) -> Result<Channel, Status> {
    let away = || Status::unavailable("no connection");
    let endpoint = Channel::from_shared(format!("http://{address}")).map_err(|_| away())?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIME).tcp_nodelay(true);
    endpoint.connect().await.map_err(|_| away())
}

async fn read(channel: Channel, serializable: bool) -> Result<Reply, Status> {
    let request = RangeRequest {
        key: Bytes::from_static(PREFIX.as_bytes()),
        range_end: Bytes::from_static(PREFIX_END.as_bytes()),
        serializable,
        ..RangeRequest::default()
    };
    let answer = KvClient::new(channel).range(request).await?.into_inner();
    // What was put has its key as its value.
    let whole = answer.kvs.iter().filter(|it| {
        let pair = it.fields();
        pair.key == pair.value
    });
    let keys = whole.map(|it| String::from_utf8_lossy(it.fields().key).into_owned());
    Ok(Reply::Keys(keys.collect()))
}

async fn ask_cluster(channel: Channel, request: Request) -> Result<Reply, Status> {
    let mut client = ClusterClient::new(channel);
    let members = match request {
        Request::List { linearizable } => {
            let request = MemberListRequest { linearizable };
            client.member_list(request).await?.into_inner().members
        }
        Request::Add { peer_url, learner } => {
            let request = MemberAddRequest {
                peer_ur_ls: vec![peer_url],
                is_learner: learner,
            };
            let added = client.member_add(request).await?.into_inner().member;
            return Ok(Reply::Added(added.unwrap_or_default().id));
        }
        Request::Update { id, peer_url } => {
            let request = MemberUpdateRequest {
                id,
                peer_ur_ls: vec![peer_url],
            };
            client.member_update(request).await?.into_inner().members
        }
        Request::Promote(id) => {
            let request = MemberPromoteRequest { id };
            client.member_promote(request).await?.into_inner().members
        }
        Request::Remove(id) => {
            let request = MemberRemoveRequest { id };
            client.member_remove(request).await?.into_inner().members
        }
        other => unreachable!("{other:?} is none of the cluster service"),
    };
    Ok(Reply::Members(members))
}
