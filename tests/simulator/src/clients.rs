//! Clients: each has at most one request under way, and reports its times and answer to the
//! judge.

use std::task::Poll;
use std::time::Duration;

use environment::randomness::Random;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use history::{Answer, Request as Asked};
use revisions::{Command, LeaseRequest, LeaseResponse, Response};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::judge::{Judge, version};
use crate::member::Member;
use crate::{Faults, Work};

/// Number of keys, small so that clients compete for the same ones.
const KEYS: u64 = 6;
/// Time after which a client gives up its request.
const PATIENCE: Duration = Duration::from_secs(3);

type Receiver<T> = oneshot::Receiver<Result<T, cluster::Error>>;

/// A request under way.
#[derive(Debug)]
enum Waiting {
    Write {
        asked: Asked,
        answer: Receiver<Response>,
    },
    Read {
        key: String,
        member: u64,
        /// Incarnation of the member. The read does not count if the member restarts
        /// before the answer is used.
        life: u64,
        answer: Receiver<()>,
    },
    Lease {
        id: i64,
        answer: Receiver<LeaseResponse>,
    },
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    number: usize,
    done: u64,
    /// Id of the last lease that the client requested; 0 before the first.
    lease: i64,
    waiting: Option<(Duration, Waiting)>,
}

impl Client {
    pub fn new(number: usize) -> Client {
        Client {
            number,
            done: 0,
            lease: 0,
            waiting: None,
        }
    }

    /// Sends a random request to a random member, unless one is under way.
    pub fn ask(
        &mut self,
        now: Duration,
        members: &mut [Member],
        random: &mut Random,
        faults: &Faults,
    ) {
        if self.waiting.is_some() {
            return;
        }
        let mut present: Vec<&mut Member> = members.iter_mut().collect();
        present.retain(|member| member.is_sound());
        let at = random.below(present.len() as u64) as usize;
        let member = &mut *present[at];
        let key = format!("k{}", random.below(KEYS));
        self.done += 1;
        if faults.work == Work::Leases {
            return self.ask_for_leases(now, member, random);
        }
        if random.chance(1, 3) {
            let (sender, answer) = oneshot::channel();
            if member.read(sender) {
                let read = Waiting::Read {
                    key,
                    member: member.id,
                    life: member.lives,
                    answer,
                };
                self.waiting = Some((now, read));
            }
            return;
        }
        if self.lease != 0 && random.chance(1, 5) {
            self.ask_lease(now, member, random);
            return;
        }
        let revision = member.reader().map_or(1, revisions::Reader::revision);
        let write = match faults.work == Work::Nothing && random.chance(9, 10) {
            true => deletion("nowhere".to_owned()),
            false => self.draw_write(key, revision, random),
        };
        self.write(now, member, write);
    }

    fn write(&mut self, now: Duration, member: &mut Member, (command, asked): (Command, Asked)) {
        let (sender, answer) = oneshot::channel();
        if member.ask(command, sender) {
            self.waiting = Some((now, Waiting::Write { asked, answer }));
        }
    }

    /// Sends a request of the work [`Work::Leases`]: renewals and queries of the client's
    /// lease, and now and then a grant of another one.
    fn ask_for_leases(&mut self, now: Duration, member: &mut Member, random: &mut Random) {
        if self.lease != 0 && random.chance(2, 3) {
            return self.ask_lease(now, member, random);
        }
        let grant = self.grant(random);
        self.write(now, member, grant);
    }

    fn ask_lease(&mut self, now: Duration, member: &mut Member, random: &mut Random) {
        let id = self.lease;
        let question = if random.chance(2, 3) {
            LeaseRequest::KeepAlive(LeaseKeepAliveRequest { id })
        } else {
            LeaseRequest::TimeToLive(LeaseTimeToLiveRequest { id, keys: true })
        };
        let (sender, answer) = oneshot::channel();
        if let Some(replica) = member.replica_mut() {
            replica.ask_lease(question, sender);
            self.waiting = Some((now, Waiting::Lease { id, answer }));
        }
    }

    /// A grant of a lease with an id that no other request uses.
    fn grant(&mut self, random: &mut Random) -> (Command, Asked) {
        self.lease = (self.number as i64 + 1) * 1_000_000 + self.done as i64;
        let (lease, seconds) = (self.lease, 1 + random.below(2) as i64);
        let grant = LeaseGrantRequest {
            id: lease,
            ttl: seconds,
        };
        (Command::LeaseGrant(grant), Asked::Grant { lease, seconds })
    }

    /// A write, as a command and as the history has it. A transaction is the put that it makes
    /// if its comparison holds; if not, it has not succeeded.
    fn draw_write(&mut self, key: String, revision: i64, random: &mut Random) -> (Command, Asked) {
        // A value that no other write has.
        let padding = ".".repeat(random.below(400) as usize);
        let value = format!("{}.{}{padding}", self.number, self.done);
        let lease = if random.chance(1, 5) { self.lease } else { 0 };
        let put = PutRequest {
            key: key.clone().into(),
            value: value.clone().into(),
            lease,
            ..PutRequest::default()
        };
        let asked = Asked::Put {
            key: key.clone(),
            value,
            lease,
            previous: false,
        };
        match random.below(20) {
            0..=9 => (Command::Put(put), asked),
            10..=12 => deletion(key),
            13 => self.grant(random),
            14 => {
                let revision = revision - 15;
                let physical = random.chance(1, 4);
                let compaction = CompactionRequest { revision, physical };
                (Command::Compact(compaction), Asked::Compact { revision })
            }
            _ => (Command::Txn(compare_and_swap(put, revision, random)), asked),
        }
    }

    /// Gives up the request under way: its write may have happened, and may still happen.
    pub fn give_up(&mut self, now: Duration, judge: &mut Judge) {
        if let Some((since, Waiting::Write { asked, .. })) = self.waiting.take() {
            judge.observe(self.number, (since, now), asked, None);
        }
    }

    /// Takes the answer if it has arrived, and reports it to the judge.
    pub fn look(&mut self, now: Duration, members: &[Member], judge: &mut Judge) {
        let Some((asked, waiting)) = &mut self.waiting else {
            return;
        };
        let (asked, is_late) = (*asked, now > *asked + PATIENCE);
        let time = (asked, now);
        match waiting {
            Waiting::Write { asked: it, answer } => {
                let Poll::Ready(response) = arrived(answer, is_late) else {
                    return;
                };
                if let Some(Response::LeaseGrant(granted)) = &response {
                    judge.leases.granted(asked, granted);
                }
                let answer = response.as_ref().map(answer_of);
                judge.observe(self.number, time, it.clone(), answer);
            }
            Waiting::Read {
                key,
                member,
                life,
                answer,
            } => {
                let Poll::Ready(confirmed) = arrived(answer, is_late) else {
                    return;
                };
                let is_same = |it: &&Member| it.id == *member && it.lives == *life;
                let member = members.iter().find(is_same).filter(|_| confirmed.is_some());
                if let Some(answer) = member.and_then(|member| read(member, key)) {
                    let get = Asked::Get {
                        key: key.clone(),
                        end: String::new(),
                        revision: 0,
                        serializable: false,
                    };
                    judge.observe(self.number, time, get, Some(answer));
                }
            }
            Waiting::Lease { id, answer } => {
                let Poll::Ready(answer) = arrived(answer, is_late) else {
                    return;
                };
                if let Some(answer) = answer {
                    judge.leases.answered(asked, *id, &answer);
                }
            }
        }
        self.waiting = None;
    }
}

/// The answer; none if the request has failed or is given up.
fn arrived<T>(answer: &mut Receiver<T>, is_late: bool) -> Poll<Option<T>> {
    match answer.try_recv() {
        Ok(answer) => Poll::Ready(answer.ok()),
        Err(TryRecvError::Empty) if !is_late => Poll::Pending,
        Err(_) => Poll::Ready(None),
    }
}

/// A deletion, as a command and as the history has it.
fn deletion(key: String) -> (Command, Asked) {
    let delete = DeleteRangeRequest {
        key: key.clone().into(),
        prev_kv: true,
        ..DeleteRangeRequest::default()
    };
    (Command::DeleteRange(delete), Asked::Delete { key })
}

fn answer_of(response: &Response) -> Answer {
    let mut told = Answer {
        revision: response.clone().header_mut().revision,
        succeeded: true,
        ..Answer::default()
    };
    match response {
        Response::DeleteRange(answer) => {
            told.succeeded = answer.deleted > 0;
            told.versions = answer.prev_kvs.iter().map(version).collect();
        }
        Response::Txn(answer) => told.succeeded = answer.succeeded,
        Response::LeaseGrant(answer) => told.seconds = answer.ttl,
        _ => {}
    }
    told
}

fn read(member: &Member, key: &str) -> Option<Answer> {
    let reader = member.reader()?;
    let request = RangeRequest {
        key: key.to_owned().into(),
        ..RangeRequest::default()
    };
    let response = reader
        .range(&request)
        .expect("a read at the newest revision");
    Some(Answer {
        revision: response.header.map_or(0, |header| header.revision),
        succeeded: true,
        versions: response.kvs.iter().map(version).collect(),
        seconds: 0,
    })
}

/// A transaction that puts if the key's mod revision is below a recent one.
fn compare_and_swap(put: PutRequest, revision: i64, random: &mut Random) -> TxnRequest {
    let compare = Compare {
        result: CompareResult::Less.into(),
        target: CompareTarget::Mod.into(),
        key: put.key.clone(),
        target_union: Some(TargetUnion::ModRevision(revision - random.below(5) as i64)),
        ..Compare::default()
    };
    TxnRequest {
        compare: vec![compare],
        success: vec![RequestOp {
            request: Some(Request::RequestPut(put)),
        }],
        failure: Vec::new(),
    }
}
