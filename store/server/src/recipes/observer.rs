//! The stream of an election: each leader, and each value that it proclaims.
//!
//! ```text
//!   Look ──a leader──► Follow its key ──deleted──► Look
//!     └──none──► Await the first put ──► Follow
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::{ResponseHeader, WatchCreateRequest};
use etcd_api::mvccpb::event::EventType;
use etcd_api::v3electionpb::{LeaderRequest, LeaderResponse};
use futures_util::Stream;
use tonic::Status;

use crate::callers::Caller;
use crate::calls::{self, Answers, Call};
use crate::leader_check::LeaderCheck;
use crate::recipes::steps::{Steps, is_stopped};
use crate::recipes::watching::Watching;
use crate::recipes::{below, first_below, prefix_of};

/// Opens the stream.
pub(crate) fn observe(
    caller: Caller,
    call: Call,
    request: LeaderRequest,
) -> impl Stream<Item = Result<LeaderResponse, Status>> + use<> {
    let leader_check = LeaderCheck::new(Arc::clone(&caller.backend));
    calls::answers(Observer {
        call,
        leader_check,
        watcher: Watcher {
            steps: Steps::new(caller),
            prefix: prefix_of(&request.name),
            phase: Phase::Look,
        },
    })
}

struct Observer {
    call: Call,
    /// Ends the stream of a client that requires a leader of the cluster if there is none.
    leader_check: LeaderCheck,
    watcher: Watcher,
}

/// Watches an election.
struct Watcher {
    steps: Steps,
    prefix: Bytes,
    phase: Phase,
}

enum Phase {
    /// The leader must be looked up.
    Look,
    /// There is no leader: the watch of the prefix.
    Await(Watching),
    /// The watch of the leader's key.
    Follow(Following),
}

struct Following {
    watching: Watching,
    /// Values that the client has not got yet.
    values: VecDeque<LeaderResponse>,
    /// Whether the key was deleted after these values.
    is_deleted: bool,
}

impl Answers for Observer {
    type Answer = LeaderResponse;

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    async fn next(&mut self) -> Result<Option<LeaderResponse>, Status> {
        let next = tokio::select! {
            next = self.watcher.next() => next,
            () = self.leader_check.lost(), if self.call.requires_leader => {
                return Err(etcd_api::Error::NoLeader.to_status());
            }
        };
        match next {
            // After any failure but the end of the server, etcd ends the stream with OK, and the
            // client observes again.
            Err(status) if !is_stopped(&status) => Ok(None),
            next => next,
        }
    }
}

impl Watcher {
    async fn next(&mut self) -> Result<Option<LeaderResponse>, Status> {
        loop {
            let found = match &mut self.phase {
                Phase::Look => self.look().await?,
                Phase::Await(watching) => first_put(watching).await?,
                Phase::Follow(following) => match following.next().await? {
                    Next::Value(value) => return Ok(Some(value)),
                    Next::Deleted => {
                        self.phase = Phase::Look;
                        None
                    }
                    Next::Lost => return Ok(None),
                },
            };
            if let Some(leader) = found {
                self.phase = Phase::Follow(self.follow(&leader));
                return Ok(Some(leader));
            }
        }
    }

    /// The leader; if there is none, the next phase waits for one.
    async fn look(&mut self) -> Result<Option<LeaderResponse>, Status> {
        let found = self.steps.range(first_below(&self.prefix)).await?;
        let header = found.header;
        if let Some(kv) = found.kvs.into_iter().next() {
            return Ok(Some(leader(header, kv)));
        }
        let all = below(&self.prefix);
        let watch = WatchCreateRequest {
            key: all.key,
            range_end: all.range_end,
            start_revision: header.map_or(0, |header| header.revision),
            ..Default::default()
        };
        self.phase = Phase::Await(Watching::open(&self.steps, watch));
        Ok(None)
    }

    fn follow(&self, leader: &LeaderResponse) -> Following {
        let revision = leader.header.as_ref().map_or(0, |header| header.revision);
        let key = leader.kv.as_ref().map(EncodedKeyValue::key);
        let watch = WatchCreateRequest {
            key: Bytes::copy_from_slice(key.unwrap_or_default()),
            start_revision: revision + 1,
            ..Default::default()
        };
        Following {
            watching: Watching::open(&self.steps, watch),
            values: VecDeque::new(),
            is_deleted: false,
        }
    }
}

/// Next news of a leader.
enum Next {
    Value(LeaderResponse),
    /// It leads no more.
    Deleted,
    /// Its history was compacted before it was read.
    Lost,
}

impl Following {
    async fn next(&mut self) -> Result<Next, Status> {
        loop {
            if let Some(value) = self.values.pop_front() {
                return Ok(Next::Value(value));
            }
            if self.is_deleted {
                return Ok(Next::Deleted);
            }
            let Some(response) = self.watching.next().await? else {
                return Ok(Next::Lost);
            };
            let header = response.header;
            for event in response.events {
                if event.r#type == EventType::Delete as i32 {
                    self.is_deleted = true;
                    break;
                }
                let value = event.kv.map(|kv| leader(header, kv));
                self.values.extend(value);
            }
        }
    }
}

/// The first put below the prefix, with the revision of that put in the header; an error if
/// the history was compacted.
async fn first_put(watching: &mut Watching) -> Result<Option<LeaderResponse>, Status> {
    loop {
        let Some(response) = watching.next().await? else {
            return Err(etcd_api::Error::Compacted.to_status());
        };
        let mut events = response.events.into_iter();
        let put = events.find(|event| event.r#type == EventType::Put as i32);
        if let Some(kv) = put.and_then(|put| put.kv) {
            let header = response.header.map(|header| ResponseHeader {
                revision: kv.mod_revision(),
                ..header
            });
            return Ok(Some(leader(header, kv)));
        }
    }
}

fn leader(header: Option<ResponseHeader>, kv: EncodedKeyValue) -> LeaderResponse {
    LeaderResponse {
        header,
        kv: Some(kv),
    }
}
