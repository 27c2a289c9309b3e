//! The store that follows.

use std::rc::Rc;

use etcd_api::inkstonepb::follow_change::Change;
use etcd_api::inkstonepb::{ChangeRequest, FollowChange, FollowedSource, SourceRequest};
use tonic::{Code, Status};

use crate::client::Connection;
use crate::failure::Failure;

/// A connection to the store that follows, in the name of one source.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) connection: Rc<Connection>,
    /// The cluster id of the source.
    pub(crate) cluster_id: u64,
}

/// Where the store stands.
#[derive(Clone, Debug)]
pub(crate) struct TargetState {
    pub(crate) revision: i64,
    /// The cluster that it follows.
    pub(crate) source: Option<FollowedSource>,
}

/// Asks a store where it stands.
pub(crate) async fn state(connection: &Connection) -> Result<TargetState, Failure> {
    let send = async |request| connection.follow().source(request).await;
    let answer = match connection.attempt(SourceRequest {}, send).await? {
        Ok(answer) => answer,
        Err(status) if status.code() == Code::Unimplemented => {
            return Err(Failure::wrong_use(
                "the store at --endpoint is not Inkstone, or of a release that follows no cluster",
                "An etcd cannot follow another cluster. Name the new store with --endpoint.",
            ));
        }
        Err(status) => return Err(connection.refused(&status)),
    };
    let header = answer.header.unwrap_or_default();
    Ok(TargetState {
        revision: header.revision,
        source: answer.source,
    })
}

impl Target {
    /// Hands changes over, in their order. The inner error is the store's refusal.
    pub(crate) async fn change(
        &self,
        changes: Vec<Change>,
    ) -> Result<Result<i64, Status>, Failure> {
        let changes = changes.into_iter().map(|change| FollowChange {
            cluster_id: self.cluster_id,
            change: Some(change),
        });
        let request = ChangeRequest {
            changes: changes.collect(),
        };
        let connection = &self.connection;
        let send = async |request| connection.follow().change(request).await;
        let answer = connection.attempt(request, send).await?;
        Ok(answer.map(|answer| answer.header.map_or(0, |header| header.revision)))
    }

    /// [`Target::change`], of which a refusal is a failure.
    pub(crate) async fn must_change(&self, change: Change) -> Result<i64, Failure> {
        let answer = self.change(vec![change]).await?;
        answer.map_err(|status| self.connection.refused(&status))
    }
}
