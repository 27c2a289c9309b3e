//! One stream of watches on one server: the changes sent for each watch, in order.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{WatchRequest, WatchResponse};
use etcd_api::mvccpb::Event;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::Outcome;

/// An answer that is not received within this time is missing.
const PATIENCE: Duration = Duration::from_secs(60);
/// The watch id in answers for no watch.
const NO_WATCH: i64 = -1;

/// A change as one server sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub revision: i64,
    /// All fields except the previous value, as text.
    pub text: String,
    /// The previous value, as text.
    pub before: String,
}

/// Everything sent for one watch.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order in which they were received.
    pub changes: Vec<Change>,
    /// Reason and compacted revision.
    pub canceled: Option<(String, i64)>,
    /// Newest progress announced for this watch or for all of the stream.
    progress: i64,
    /// Revision of the last answer with events, if its last fragment was received.
    closed: i64,
}

/// Everything received so far.
#[derive(Default)]
pub struct Seen {
    /// In the order in which they were created.
    pub watches: Vec<History>,
    /// The last watch with each id; a canceled watch leaves its id to others.
    by_id: BTreeMap<i64, usize>,
    /// Answers to requests for watches: id, whether refused, reason.
    pub created: Vec<(i64, bool, String)>,
    /// Answers that no server should send.
    pub faults: Vec<String>,
    /// Answers that announce progress of the stream.
    pub progress_answers: u64,
    /// Number of fragments that were not the last of their answer.
    pub fragments: u64,
    /// Why the stream ended; `None` while it is open.
    pub ended: Option<String>,
}

/// A watch stream, read by a task as answers arrive.
pub struct Stream {
    requests: mpsc::UnboundedSender<WatchRequest>,
    seen: watch::Receiver<Seen>,
}

impl Stream {
    /// Opens a stream. etcd sends not even headers before the first request.
    pub fn open(channel: Channel) -> Stream {
        let (requests, queue) = mpsc::unbounded_channel();
        let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
        let (news, seen) = watch::channel(Seen::default());
        tokio::spawn(async move {
            let ended = match client.watch(UnboundedReceiverStream::new(queue)).await {
                Ok(answers) => read(answers.into_inner(), &news).await,
                Err(status) => status.to_string(),
            };
            news.send_modify(|seen| seen.ended = Some(ended));
        });
        Stream { requests, seen }
    }

    pub fn send(&self, request: RequestUnion) -> Outcome {
        let request = WatchRequest {
            request_union: Some(request),
        };
        Ok(self.requests.send(request)?)
    }

    /// Everything received so far.
    pub fn seen(&self) -> watch::Ref<'_, Seen> {
        self.seen.borrow()
    }

    /// Waits until a condition holds; fails if it does not in time, or the stream ends.
    pub async fn until(&self, what: &str, holds: impl Fn(&Seen) -> bool) -> Outcome {
        let mut seen = self.seen.clone();
        let waiting = seen.wait_for(|seen| holds(seen) || seen.ended.is_some());
        let Ok(seen) = timeout(PATIENCE, waiting).await else {
            return Err(format!("after {} s still not: {what}", PATIENCE.as_secs()).into());
        };
        let seen = seen?;
        match &seen.ended {
            Some(ended) if !holds(&seen) => {
                Err(format!("the stream ended instead of {what}: {ended}").into())
            }
            _ => Ok(()),
        }
    }
}

/// Takes answers until the stream ends; returns the reason.
async fn read(mut answers: Streaming<WatchResponse>, news: &watch::Sender<Seen>) -> String {
    loop {
        match answers.message().await {
            Ok(Some(answer)) => news.send_modify(|seen| seen.take(answer)),
            Ok(None) => return "the server closed it".to_owned(),
            Err(status) => return status.to_string(),
        }
    }
}

/// A version as text, with large values replaced by their checksums.
pub fn text_of(kv: &EncodedKeyValue) -> String {
    let key = String::from_utf8_lossy(kv.key()).into_owned();
    let (value, sum) = (kv.value(), crc_fast::crc32_iscsi(kv.value()));
    format!(
        "{key} = {} bytes of sum {sum:08x}, created {}, modified {}, version {}, lease {}",
        value.len(),
        kv.create_revision(),
        kv.mod_revision(),
        kv.version(),
        kv.lease()
    )
}

impl Seen {
    fn take(&mut self, answer: WatchResponse) {
        let id = answer.watch_id;
        let header = answer.header.unwrap_or_default();
        if answer.created {
            let reason = answer.cancel_reason.clone();
            self.created.push((id, answer.canceled, reason));
            if !answer.canceled {
                let former = self.by_id.insert(id, self.watches.len());
                let lives = former.is_some_and(|former| self.watches[former].canceled.is_none());
                self.check(!lives, || format!("watch {id} was created twice"));
                self.watches.push(History::default());
            }
            return;
        }
        if id == NO_WATCH {
            self.progress_answers += 1;
            self.check(answer.events.is_empty(), || {
                "events without a watch".to_owned()
            });
            for history in &mut self.watches {
                history.progress = history.progress.max(header.revision);
            }
            return;
        }
        let Some(&index) = self.by_id.get(&id) else {
            self.faults
                .push(format!("an answer for watch {id}, which there is not"));
            return;
        };
        let mut history = std::mem::take(&mut self.watches[index]);
        self.check(history.canceled.is_none(), || {
            let events = answer.events.len();
            let canceled = answer.canceled;
            let former = &history.canceled;
            format!(
                "an answer for watch {id} after its cancellation {former:?}: \
                 canceled {canceled}, compacted {}, {events} events",
                answer.compact_revision
            )
        });
        if answer.canceled {
            history.canceled = Some((answer.cancel_reason, answer.compact_revision));
        } else if answer.events.is_empty() {
            history.progress = history.progress.max(header.revision);
        }
        self.fragments += u64::from(answer.fragment);
        let mut newest = None;
        for event in answer.events {
            newest = Some(self.take_event(id, &mut history, event, header.revision));
        }
        if let (Some(newest), false) = (newest, answer.fragment) {
            history.closed = newest;
        }
        self.watches[index] = history;
    }

    /// Adds an event to a watch; returns the event's revision.
    fn take_event(&mut self, id: i64, history: &mut History, event: Event, header: i64) -> i64 {
        let kv = event.kv.unwrap_or_default();
        let revision = kv.mod_revision();
        let last = history.changes.last().map_or(0, |change| change.revision);
        self.check(revision >= last, || {
            format!("watch {id}: an event of revision {revision} after one of {last}")
        });
        self.check(revision > history.progress, || {
            format!(
                "watch {id}: revision {revision} came after progress {}",
                history.progress
            )
        });
        self.check(revision > history.closed, || {
            format!("watch {id}: revision {revision} was torn over two answers")
        });
        self.check(revision <= header, || {
            format!("watch {id}: revision {revision} in an answer of revision {header}")
        });
        history.changes.push(Change {
            revision,
            text: format!("{} {}", event.r#type, text_of(&kv)),
            before: event.prev_kv.as_ref().map(text_of).unwrap_or_default(),
        });
        revision
    }

    fn check(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(fault());
        }
    }
}
