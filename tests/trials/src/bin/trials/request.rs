//! One request of a client, sent once over a connection of its own.

use std::time::Duration;

use etcd_api::etcdserverpb::{
    Member as Listed, MemberAddRequest, MemberListRequest, MemberPromoteRequest,
    MemberRemoveRequest, MemberUpdateRequest, MoveLeaderRequest, PutRequest, RangeRequest,
    StatusRequest, cluster_client::ClusterClient, kv_client::KvClient,
    maintenance_client::MaintenanceClient,
};
use tokio::time::timeout;
use tonic::{Status, transport::Channel};

use crate::client;

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
        let channel = client::dial(format!("http://{address}")).await;
        let channel = channel.map_err(|_| Status::unavailable("no connection"))?;
        let mut cluster = ClusterClient::new(channel.clone());
        let mut maintenance = MaintenanceClient::new(channel.clone());
        let members = match self {
            Request::Put(key) => {
                let request = PutRequest {
                    key: key.clone().into(),
                    value: key.into(),
                    ..PutRequest::default()
                };
                KvClient::new(channel).put(request).await?;
                return Ok(Reply::Done);
            }
            Request::Read { serializable } => return read(channel, serializable).await,
            Request::Leader => {
                let status = maintenance.status(StatusRequest::default()).await?;
                return Ok(Reply::Leader(status.into_inner().leader));
            }
            Request::MoveLeader(target_id) => {
                let request = MoveLeaderRequest { target_id };
                maintenance.move_leader(request).await?;
                return Ok(Reply::Done);
            }
            Request::Add { peer_url, learner } => {
                let request = MemberAddRequest {
                    peer_ur_ls: vec![peer_url],
                    is_learner: learner,
                };
                let added = cluster.member_add(request).await?.into_inner().member;
                return Ok(Reply::Added(added.unwrap_or_default().id));
            }
            Request::List { linearizable } => {
                let request = MemberListRequest { linearizable };
                cluster.member_list(request).await?.into_inner().members
            }
            Request::Update { id, peer_url } => {
                let request = MemberUpdateRequest {
                    id,
                    peer_ur_ls: vec![peer_url],
                };
                cluster.member_update(request).await?.into_inner().members
            }
            Request::Promote(id) => {
                let request = MemberPromoteRequest { id };
                cluster.member_promote(request).await?.into_inner().members
            }
            Request::Remove(id) => {
                let request = MemberRemoveRequest { id };
                cluster.member_remove(request).await?.into_inner().members
            }
        };
        Ok(Reply::Members(members))
    }
}

async fn read(channel: Channel, serializable: bool) -> Result<Reply, Status> {
    let request = RangeRequest {
        key: PREFIX.into(),
        range_end: PREFIX_END.into(),
        serializable,
        ..RangeRequest::default()
    };
    let answer = KvClient::new(channel).range(request).await?.into_inner();
    // What was put has its key as its value.
    let pairs = answer.kvs.iter().map(|it| it.fields());
    let whole = pairs.filter(|pair| pair.key == pair.value);
    let keys = whole.map(|pair| String::from_utf8_lossy(pair.key).into_owned());
    Ok(Reply::Keys(keys.collect()))
}
