//! The list of members, which a member sends to any process that asks at its peer port.
//!
//! A process that is about to start, or may have been removed, asks the members at the
//! addresses that it knows. The answer is the list that a member has applied. It may be old,
//! but was true once, and ids are never used again.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use environment::threads;
use peers::Limits;
use prost::Message;
use revisions::{Member, Members};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::Credentials;

/// The kind of the question, which has no contents.
pub(crate) const QUESTION: u8 = 1;
/// Name of the thread that asks.
const THREAD: &str = "member-list";
/// Limit on an answer; the list of a thousand members is smaller.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// The members of a cluster, as one of them has applied them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberList {
    pub cluster_id: u64,
    /// The applied index of the member that answered; a list with a larger one is newer.
    pub index: u64,
    /// Segment size of its log, the same on all members; 0 if the answer does not say.
    pub segment_bytes: u64,
    /// The members, ascending by id.
    pub members: Vec<Member>,
    /// Ids of removed members, ascending.
    pub removed: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct MemberListMessage {
    #[prost(uint64, tag = "1")]
    index: u64,
    #[prost(message, repeated, tag = "2")]
    members: Vec<MemberMessage>,
    #[prost(fixed64, repeated, tag = "3")]
    removed: Vec<u64>,
    #[prost(uint64, tag = "4")]
    segment_bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
struct MemberMessage {
    #[prost(fixed64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, repeated, tag = "3")]
    peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    is_learner: bool,
}

/// Encodes the members that this one has applied up to `index`.
pub(crate) fn encode(members: &Members, index: u64, segment_bytes: u64) -> Bytes {
    let message = MemberListMessage {
        index,
        members: members.iter().cloned().map(MemberMessage::from).collect(),
        removed: members.removed().collect(),
        segment_bytes,
    };
    message.encode_to_vec().into()
}

fn decode(cluster_id: u64, bytes: Bytes) -> Result<MemberList, String> {
    let message = MemberListMessage::decode(bytes).map_err(|error| error.to_string())?;
    Ok(MemberList {
        cluster_id,
        index: message.index,
        segment_bytes: message.segment_bytes,
        members: message.members.into_iter().map(Member::from).collect(),
        removed: message.removed,
    })
}

impl From<Member> for MemberMessage {
    fn from(member: Member) -> MemberMessage {
        MemberMessage {
            id: member.id,
            name: member.name,
            peer_urls: member.peer_urls,
            client_urls: member.client_urls,
            is_learner: member.is_learner,
        }
    }
}

impl From<MemberMessage> for Member {
    fn from(message: MemberMessage) -> Member {
        Member {
            id: message.id,
            name: message.name,
            peer_urls: message.peer_urls,
            client_urls: message.client_urls,
            is_learner: message.is_learner,
        }
    }
}

impl MemberList {
    /// The member with this id.
    pub fn member(&self, id: u64) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Asks at all these peer URLs at once, each with the time limit `patience`. Returns the
    /// lists, the newest first, and the reasons of those that gave none. Blocks the caller,
    /// and asks on a thread of its own, because the caller may run in a runtime.
    pub fn ask(
        peer_urls: Vec<String>,
        patience: Duration,
        credentials: Credentials,
    ) -> io::Result<(Vec<MemberList>, Vec<String>)> {
        let asking = MemberList::ask_aside(peer_urls, patience, credentials, |asked| asked)?;
        asking.join().expect("asking does not panic")
    }

    /// Asks without blocking the caller: `then` gets what [`MemberList::ask`] returns, on a
    /// thread of its own.
    pub(crate) fn ask_aside<T: Send + 'static>(
        peer_urls: Vec<String>,
        patience: Duration,
        credentials: Credentials,
        then: impl FnOnce(io::Result<(Vec<MemberList>, Vec<String>)>) -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let asking = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            then(runtime.map(|runtime| {
                let answers = MemberList::ask_all(&peer_urls, patience, &credentials);
                let answers = runtime.block_on(answers);
                // A host name that is still being resolved must not delay the caller.
                runtime.shutdown_background();
                answers
            }))
        };
        threads::spawn(THREAD, asking)
    }

    async fn ask_all(
        peer_urls: &[String],
        patience: Duration,
        credentials: &Credentials,
    ) -> (Vec<MemberList>, Vec<String>) {
        let mut asked = JoinSet::new();
        for url in peer_urls {
            asked.spawn(ask_one(url.clone(), patience, credentials.clone()));
        }
        let (mut lists, mut reasons) = (Vec::new(), Vec::new());
        while let Some(outcome) = asked.join_next().await {
            match outcome.expect("asking does not panic and is not cancelled") {
                // A member that waits for its first snapshot knows no members.
                Ok(list) if list.members.is_empty() => {}
                Ok(list) => lists.push(list),
                Err(reason) => reasons.push(reason),
            }
        }
        lists.sort_by_key(|list| std::cmp::Reverse(list.index));
        reasons.sort();
        (lists, reasons)
    }
}

async fn ask_one(
    url: String,
    patience: Duration,
    credentials: Credentials,
) -> Result<MemberList, String> {
    let address = crate::transport::address(&url).ok_or_else(|| {
        format!("{url} is not a peer URL: write http://host:port or https://host:port")
    })?;
    let limits = Limits {
        payload_bytes_max: ANSWER_BYTES_MAX,
        connect_timeout: patience,
        greeting_timeout: patience,
        local_address: credentials.local_address,
        ..Limits::default()
    };
    let answered = peers::ask(
        &address,
        QUESTION,
        Bytes::new(),
        &limits,
        credentials.secret.as_ref(),
        credentials.tls.as_deref(),
    )
    .await;
    let answered = answered.map_err(|error| error.to_string())?;
    let read = decode(answered.cluster, answered.answer);
    read.map_err(|error| format!("{address}: its answer cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_list_is_decoded_as_it_was_encoded() {
        let list = MemberList {
            cluster_id: 9,
            index: 1 << 40,
            segment_bytes: 1 << 26,
            members: vec![
                Member {
                    id: u64::MAX,
                    name: "a".into(),
                    peer_urls: vec!["http://h:1".into(), "http://h:2".into()],
                    client_urls: vec!["http://h:3".into()],
                    is_learner: true,
                },
                Member::default(),
            ],
            removed: vec![1, 7],
        };
        let message = MemberListMessage {
            index: list.index,
            members: list.members.iter().cloned().map(Into::into).collect(),
            removed: list.removed.clone(),
            segment_bytes: list.segment_bytes,
        };
        let bytes = Bytes::from(message.encode_to_vec());
        assert_eq!(decode(9, bytes.clone()), Ok(list));
        assert!(decode(9, bytes.slice(..bytes.len() - 1)).is_err());
    }

    #[test]
    fn an_address_without_a_member_yields_a_reason() {
        let urls = vec!["a:1".to_owned(), "http://127.0.0.1:1".to_owned()];
        let (lists, reasons) =
            MemberList::ask(urls, Duration::from_secs(60), Credentials::default()).unwrap();
        assert_eq!(lists, []);
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert!(reasons[0].starts_with("127.0.0.1:1: cannot connect"));
        assert!(reasons[1].starts_with("a:1 is not a peer URL"));
    }
}
