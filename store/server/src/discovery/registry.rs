//! The members of a new cluster from another cluster, by etcd's rules (discovery, version 3).
//!
//! ```text
//!   /_etcd/registry/TOKEN/_config/size          3            an operator puts it
//!   /_etcd/registry/TOKEN/members/8e9e05c5…     a=http://…   each member puts its own
//! ```
//!
//! The first members to register, as many as the size says, are the cluster. Each one registers
//! and waits until they are complete.

use std::time::Duration;

use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    AuthenticateRequest, PutRequest, RangeRequest, WatchCreateRequest, WatchRequest,
};
use etcd_api::mvccpb::KeyValue;
use etcd_api::mvccpb::event::EventType;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tracing::{info, warn};

use super::registry_channel::Dialer;
use crate::config::Registry;

/// The pause after a failed attempt is two seconds to this power at most.
const PAUSE_DOUBLINGS_MAX: u32 = 8;

/// Why a member is not in the cluster that the registry describes. The texts are etcd's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error(
        "discovery: size key not found: put the number of members there, \
         etcdctl put {0} 3"
    )]
    SizeNotFound(String),
    #[error("discovery: size key is bad: {1:?} is no number of members, etcdctl put {0} 3")]
    BadSize(String, String),
    #[error(
        "discovery: cluster is full: {0} other members have registered; take another token for \
         another cluster, or start this member with --initial-cluster-state=existing after \
         `member add`"
    )]
    Full(usize),
    #[error("{0}")]
    Unusable(String),
}

/// This member, as the registry knows it.
#[derive(Clone, Debug)]
pub(crate) struct Registrant {
    /// Its id in hexadecimal digits.
    pub(crate) id: String,
    /// `name=URL`, for each of its peer URLs, with commas between them.
    pub(crate) urls: String,
}

/// Registers this member, waits for the others, and returns the text for `--initial-cluster`.
pub(crate) fn join(registry: &Registry, own: &Registrant) -> Result<String, RegistryError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| RegistryError::Unusable(format!("cannot start a runtime: {error}")))?;
    let dialer = Dialer::new(registry).map_err(RegistryError::Unusable)?;
    let joining = Joining {
        registry,
        own,
        dialer,
    };
    runtime.block_on(joining.join())
}

struct Joining<'a> {
    registry: &'a Registry,
    own: &'a Registrant,
    dialer: Dialer,
}

/// A failed step: repeated, unless the registry's contents are the reason.
enum Failed {
    Again(String),
    ForGood(RegistryError),
}

impl From<Status> for Failed {
    fn from(status: Status) -> Failed {
        Failed::Again(format!("{:?}: {}", status.code(), status.message()))
    }
}

impl Joining<'_> {
    /// Repeats the whole until it succeeds or the registry says that it cannot.
    async fn join(&self) -> Result<String, RegistryError> {
        let mut failures = 0;
        loop {
            let endpoints = &self.registry.endpoints;
            let endpoint = &endpoints[failures as usize % endpoints.len()];
            match self.attempt(endpoint).await {
                Ok(text) => return Ok(text),
                Err(Failed::ForGood(error)) => return Err(error),
                Err(Failed::Again(reason)) => {
                    failures += 1;
                    self.pause(endpoint, failures, &reason).await;
                }
            }
        }
    }

    async fn pause(&self, endpoint: &str, failures: u32, reason: &str) {
        // Each endpoint is tried before the pauses begin.
        let rounds = failures / self.registry.endpoints.len() as u32;
        let backoff = match rounds {
            0 => Duration::ZERO,
            rounds => Duration::from_secs(1 << rounds.min(PAUSE_DOUBLINGS_MAX)),
        };
        warn!(
            endpoint,
            reason,
            ?backoff,
            "retry connecting to discovery service"
        );
        tokio::time::sleep(backoff).await;
    }

    async fn attempt(&self, endpoint: &str) -> Result<String, Failed> {
        let channel = self.dialer.connect(endpoint).await.map_err(Failed::Again)?;
        let session = Session {
            joining: self,
            token: self.token(&channel).await?,
            channel,
        };
        let (size, members, _) = session.members().await?;
        self.check_room(&members, size)?;
        session.register().await?;
        let (size, mut members, revision) = session.members().await?;
        self.check_room(&members, size)?;
        if members.len() < size {
            session.wait(&mut members, size, revision).await?;
        }
        let first = members.iter().take(size).map(|member| &*member.urls);
        let text = first.collect::<Vec<_>>().join(",");
        info!(
            initial_cluster = text,
            "discovery joined cluster successfully"
        );
        Ok(text)
    }

    /// A token of the user, if there is one.
    async fn token(&self, channel: &Channel) -> Result<Option<String>, Failed> {
        let Some(login) = &self.registry.login else {
            return Ok(None);
        };
        let request = AuthenticateRequest {
            name: login.user.clone(),
            password: login.password.clone(),
        };
        let mut client = AuthClient::new(channel.clone());
        let answer = in_time(self.registry, client.authenticate(request)).await?;
        Ok(Some(answer.token))
    }

    fn size_key(&self) -> String {
        format!("/_etcd/registry/{}/_config/size", self.registry.token)
    }

    fn members_prefix(&self) -> String {
        format!("/_etcd/registry/{}/members", self.registry.token)
    }

    fn own_key(&self) -> String {
        format!("{}/{}", self.members_prefix(), self.own.id)
    }

    /// Refuses this member if the cluster is complete without it.
    fn check_room(&self, members: &[Registered], size: usize) -> Result<(), Failed> {
        let own_key = self.own_key();
        let mut first = members.iter().take(size);
        match members.len() >= size && !first.any(|member| member.key == own_key) {
            true => Err(Failed::ForGood(RegistryError::Full(members.len()))),
            false => Ok(()),
        }
    }
}

/// Waits for an answer as long as the flag says.
async fn in_time<T>(
    registry: &Registry,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Failed> {
    let outcome = tokio::time::timeout(registry.request_timeout, call).await;
    let answer = outcome.map_err(|_| Failed::Again("no answer in time".to_owned()))?;
    Ok(answer?.into_inner())
}

/// A member that has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Registered {
    key: String,
    urls: String,
    create_revision: i64,
}

/// Takes over a key of the registry, in the order in which the members registered.
fn add(members: &mut Vec<Registered>, pair: &KeyValue) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let (key, urls) = (text(&pair.key), text(&pair.value));
    let refusal = match urls.contains('=') {
        false => Some("invalid peer info returned from discovery service"),
        true if members.iter().any(|member| member.key == key) => {
            Some("found duplicate peer from discovery service")
        }
        true => None,
    };
    if let Some(what) = refusal {
        return warn!(key, urls, "{what}");
    }
    info!(key, urls, "found peer from discovery service");
    members.push(Registered {
        key,
        urls,
        create_revision: pair.create_revision,
    });
    members.sort_by_key(|member| member.create_revision);
}

/// A connection to the registry.
struct Session<'a> {
    joining: &'a Joining<'a>,
    channel: Channel,
    token: Option<String>,
}

impl Session<'_> {
    fn request<T>(&self, message: T) -> Result<Request<T>, Failed> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            let token = token.parse();
            let token = token.map_err(|_| Failed::Again("a token that is no text".to_owned()))?;
            request.metadata_mut().insert("token", token);
        }
        Ok(request)
    }

    async fn range(&self, request: RangeRequest) -> Result<(Vec<KeyValue>, i64), Failed> {
        let mut client = KvClient::new(self.channel.clone());
        let request = self.request(request)?;
        let answer = in_time(self.joining.registry, client.range(request)).await?;
        let pairs = answer.kvs.iter().map(decoded);
        let pairs = pairs.collect::<Result<Vec<KeyValue>, Failed>>()?;
        Ok((pairs, answer.header.unwrap_or_default().revision))
    }

    async fn size(&self) -> Result<usize, Failed> {
        let key = self.joining.size_key();
        let (pairs, _) = self
            .range(RangeRequest {
                key: key.clone().into(),
                ..RangeRequest::default()
            })
            .await?;
        let Some(pair) = pairs.first() else {
            return Err(Failed::ForGood(RegistryError::SizeNotFound(key)));
        };
        let text = String::from_utf8_lossy(&pair.value).into_owned();
        match text.parse::<usize>() {
            Ok(size @ 1..) => Ok(size),
            _ => Err(Failed::ForGood(RegistryError::BadSize(key, text))),
        }
    }

    /// The size, the members that have registered, and the revision of that list.
    async fn members(&self) -> Result<(usize, Vec<Registered>, i64), Failed> {
        let size = self.size().await?;
        let (pairs, revision) = self
            .range(all_below(&self.joining.members_prefix()))
            .await?;
        let mut members = Vec::new();
        pairs.iter().for_each(|pair| add(&mut members, pair));
        Ok((size, members, revision))
    }

    async fn register(&self) -> Result<(), Failed> {
        let request = self.request(PutRequest {
            key: self.joining.own_key().into(),
            value: self.joining.own.urls.clone().into(),
            ..PutRequest::default()
        })?;
        let mut client = KvClient::new(self.channel.clone());
        in_time(self.joining.registry, client.put(request)).await?;
        info!(
            key = self.joining.own_key(),
            urls = self.joining.own.urls,
            "register member itself successfully"
        );
        Ok(())
    }

    /// Waits until as many members as the size says have registered.
    async fn wait(
        &self,
        members: &mut Vec<Registered>,
        size: usize,
        revision: i64,
    ) -> Result<(), Failed> {
        let found = members.len();
        info!(size, found, "waiting for peers from discovery service");
        let RangeRequest { key, range_end, .. } = all_below(&self.joining.members_prefix());
        let create = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
                key,
                range_end,
                start_revision: revision + 1,
                ..WatchCreateRequest::default()
            })),
        };
        // The stream stays open after its one request.
        let requests = futures_util::stream::iter([create]);
        let requests = futures_util::StreamExt::chain(requests, futures_util::stream::pending());
        let request = self.request(requests)?;
        let mut client = WatchClient::new(self.channel.clone());
        let mut watch = in_time(self.joining.registry, client.watch(request)).await?;
        while members.len() < size {
            let Some(response) = watch.message().await? else {
                return Err(Failed::Again("the watch has ended".to_owned()));
            };
            if response.canceled {
                return Err(Failed::Again(response.cancel_reason));
            }
            for event in &response.events {
                let is_put = event.r#type() == EventType::Put;
                if let Some(pair) = event.kv.as_ref().filter(|_| is_put) {
                    add(members, &decoded(pair)?);
                }
            }
        }
        Ok(())
    }
}

fn decoded(pair: &EncodedKeyValue) -> Result<KeyValue, Failed> {
    let decoded = pair.decode();
    decoded.map_err(|error| Failed::Again(error.to_string()))
}

/// A range of all keys that begin with this text.
fn all_below(prefix: &str) -> RangeRequest {
    let mut range_end = prefix.as_bytes().to_vec();
    *range_end.last_mut().expect("a prefix is not empty") += 1;
    RangeRequest {
        key: prefix.to_owned().into(),
        range_end: range_end.into(),
        ..RangeRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing;

    fn pair(key: &str, value: &str, create_revision: i64) -> KeyValue {
        KeyValue {
            key: key.to_owned().into(),
            value: value.to_owned().into(),
            create_revision,
            ..KeyValue::default()
        }
    }

    fn registry() -> Registry {
        let words = ["--discovery-token=t", "--discovery-endpoints=h:1"];
        let discovery = testing::config(&words).cluster.discovery;
        discovery.registry.unwrap()
    }

    #[test]
    fn members_count_once_in_the_order_in_which_they_registered() {
        let mut members = Vec::new();
        add(&mut members, &pair("k/c", "c=http://c:1", 9));
        add(&mut members, &pair("k/a", " a=http://a:1 ", 7));
        add(&mut members, &pair("k/a", "a=http://z:1", 8));
        add(&mut members, &pair("k/x", "no address", 6));
        let urls: Vec<&str> = members.iter().map(|member| &*member.urls).collect();
        assert_eq!(urls, ["a=http://a:1", "c=http://c:1"]);
    }

    #[test]
    fn only_the_first_members_have_room() {
        let registry = registry();
        let own = Registrant {
            id: "b".to_owned(),
            urls: "b=http://b:1".to_owned(),
        };
        let joining = Joining {
            registry: &registry,
            own: &own,
            dialer: Dialer::new(&registry).unwrap(),
        };
        let mut members = Vec::new();
        let mut register = |id: &str, revision| {
            let key = format!("/_etcd/registry/t/members/{id}");
            add(&mut members, &pair(&key, "n=http://h:1", revision));
            let room = |size| joining.check_room(&members, size).is_ok();
            [room(1), room(2), room(3)]
        };
        assert_eq!(register("a", 2), [false, true, true]);
        assert_eq!(register("c", 3), [false, false, true]);
        assert_eq!(register("b", 4), [false, false, true]);
        assert_eq!(register("d", 5), [false, false, true]);
    }

    #[test]
    fn a_prefix_is_a_range_of_what_begins_with_it() {
        let range = all_below("/members");
        assert_eq!(&range.key[..], b"/members");
        assert_eq!(&range.range_end[..], b"/membert");
    }
}
