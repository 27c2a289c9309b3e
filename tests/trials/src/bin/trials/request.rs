//! Requests of a client, each sent once over a connection of its own.

use std::time::Duration;

use etcd_api::etcdserverpb::{
    Member as Listed, MemberAddRequest, MemberListRequest, MemberPromoteRequest,
    MemberRemoveRequest, MemberUpdateRequest, MoveLeaderRequest, RangeRequest, StatusRequest,
    StatusResponse, cluster_client::ClusterClient, kv_client::KvClient,
    maintenance_client::MaintenanceClient,
};
use tokio::time::timeout;
use tonic::{Response, Status, transport::Channel};

use crate::{client, requests};

/// The keys of a walk begin so.
pub const PREFIX: &str = "walk/";
/// The first key behind them.
const PREFIX_END: &str = "walk0";

/// A server's address, and how long a client waits for an answer.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: String,
    pub patience: Duration,
}

impl Client {
    /// Connects, and makes a request.
    async fn ask<T>(
        &self,
        request: impl AsyncFnOnce(Channel) -> Result<Response<T>, Status>,
    ) -> Result<T, Status> {
        let late = |_| Status::deadline_exceeded("no answer in the client's time");
        let asked = async { request(self.dial().await?).await };
        let answer = timeout(self.patience, asked).await.map_err(late)?;
        answer.map(Response::into_inner)
    }

    async fn dial(&self) -> Result<Channel, Status> {
        let away = |_| Status::unavailable("no connection");
        let dialed = client::dial(format!("http://{}", self.address)).await;
        dialed.map_err(away)
    }

    /// Puts a key, with itself as its value.
    pub async fn put(&self, key: &str) -> Result<(), Status> {
        let request = requests::put(key.to_owned(), key.to_owned());
        let put = async |channel: Channel| KvClient::new(channel).put(request).await;
        self.ask(put).await.map(drop)
    }

    /// All keys of the walk that have themselves as their values.
    pub async fn keys(&self, serializable: bool) -> Result<Vec<String>, Status> {
        let request = RangeRequest {
            range_end: PREFIX_END.into(),
            serializable,
            ..requests::range(PREFIX)
        };
        let range = async |channel: Channel| KvClient::new(channel).range(request).await;
        let pairs = self.ask(range).await?.kvs;
        let whole = pairs.iter().filter(|it| it.key() == it.value());
        Ok(whole
            .map(|it| String::from_utf8_lossy(it.key()).into_owned())
            .collect())
    }

    /// The members, by a linearizable read.
    pub async fn members(&self) -> Result<Vec<Listed>, Status> {
        let request = MemberListRequest { linearizable: true };
        let list = async |channel| ClusterClient::new(channel).member_list(request).await;
        Ok(self.ask(list).await?.members)
    }

    /// Adds a member; returns its id.
    pub async fn add(&self, peer_url: String, is_learner: bool) -> Result<u64, Status> {
        let request = MemberAddRequest {
            peer_ur_ls: vec![peer_url],
            is_learner,
        };
        let add = async |channel| ClusterClient::new(channel).member_add(request).await;
        let added = self.ask(add).await?.member;
        Ok(added.unwrap_or_default().id)
    }

    pub async fn update(&self, id: u64, peer_url: String) -> Result<(), Status> {
        let request = MemberUpdateRequest {
            id,
            peer_ur_ls: vec![peer_url],
        };
        let update = async |channel| ClusterClient::new(channel).member_update(request).await;
        self.ask(update).await.map(drop)
    }

    pub async fn promote(&self, id: u64) -> Result<(), Status> {
        let request = MemberPromoteRequest { id };
        let promote = async |channel| ClusterClient::new(channel).member_promote(request).await;
        self.ask(promote).await.map(drop)
    }

    pub async fn remove(&self, id: u64) -> Result<(), Status> {
        let request = MemberRemoveRequest { id };
        let remove = async |channel| ClusterClient::new(channel).member_remove(request).await;
        self.ask(remove).await.map(drop)
    }

    /// The id of the leader that the server knows; zero for none.
    pub async fn leader(&self) -> Result<u64, Status> {
        Ok(self.status().await?.leader)
    }

    pub async fn status(&self) -> Result<StatusResponse, Status> {
        let request = StatusRequest::default();
        let ask = async |channel| MaintenanceClient::new(channel).status(request).await;
        self.ask(ask).await
    }

    pub async fn move_leader(&self, target_id: u64) -> Result<(), Status> {
        let request = MoveLeaderRequest { target_id };
        let ask = async |channel| MaintenanceClient::new(channel).move_leader(request).await;
        self.ask(ask).await.map(drop)
    }
}
