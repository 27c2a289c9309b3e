//! Clients: each has at most one request under way, and reports its times and answer to the
//! judge.

use std::time::Duration;

use environment::randomness::Random;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use revisions::{Command, LeaseAnswer, LeaseQuestion, Response};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::judge::{Judge, Observed};
use crate::leases::Report;
use crate::member::Member;
use crate::{Faults, Work};

/// Number of keys, small so that clients compete for the same ones.
const KEYS: u64 = 6;
/// Time after which a client gives up its request.
const PATIENCE: Duration = Duration::from_secs(3);

/// A request under way.
#[derive(Debug)]
enum Waiting {
    Write {
        command: Command,
        answer: oneshot::Receiver<Result<Response, cluster::Error>>,
    },
    Read {
        key: String,
        member: u64,
        /// Incarnation of the member. The read does not count if the member restarts
        /// before the answer is used.
        life: u64,
        answer: oneshot::Receiver<Result<(), cluster::Error>>,
    },
    Lease {
        id: i64,
        answer: oneshot::Receiver<Result<LeaseAnswer, cluster::Error>>,
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
        let command = if faults.work == Work::Nothing && random.chance(9, 10) {
            Command::DeleteRange(DeleteRangeRequest {
                key: "nowhere".into(),
                ..DeleteRangeRequest::default()
            })
        } else {
            self.command(key, revision, random)
        };
        let (sender, answer) = oneshot::channel();
        if member.ask(command.clone(), sender) {
            self.waiting = Some((now, Waiting::Write { command, answer }));
        }
    }

    /// Sends a request of the work [`Work::Leases`]: renewals and queries of the client's
    /// lease, and now and then a grant of another one.
    fn ask_for_leases(&mut self, now: Duration, member: &mut Member, random: &mut Random) {
        if self.lease != 0 && random.chance(2, 3) {
            return self.ask_lease(now, member, random);
        }
        let command = self.grant(random);
        let (sender, answer) = oneshot::channel();
        if member.ask(command.clone(), sender) {
            self.waiting = Some((now, Waiting::Write { command, answer }));
        }
    }

    fn ask_lease(&mut self, now: Duration, member: &mut Member, random: &mut Random) {
        let id = self.lease;
        let question = if random.chance(2, 3) {
            LeaseQuestion::KeepAlive(LeaseKeepAliveRequest { id })
        } else {
            LeaseQuestion::TimeToLive(LeaseTimeToLiveRequest { id, keys: true })
        };
        let (sender, answer) = oneshot::channel();
        if member.ask_lease(question, sender) {
            self.waiting = Some((now, Waiting::Lease { id, answer }));
        }
    }

    /// A grant of a lease with an id that no other request uses.
    fn grant(&mut self, random: &mut Random) -> Command {
        self.lease = (self.number as i64 + 1) * 1_000_000 + self.done as i64;
        Command::LeaseGrant(LeaseGrantRequest {
            id: self.lease,
            ttl: 1 + random.below(2) as i64,
        })
    }

    fn command(&mut self, key: String, revision: i64, random: &mut Random) -> Command {
        // A value that no other write has.
        let value = format!("{}.{}", self.number, self.done);
        let padding = ".".repeat(random.below(400) as usize);
        let put = PutRequest {
            key: key.clone().into(),
            value: (value + &padding).into(),
            lease: if random.chance(1, 5) { self.lease } else { 0 },
            ..PutRequest::default()
        };
        match random.below(20) {
            0..=9 => Command::Put(put),
            10..=12 => Command::DeleteRange(DeleteRangeRequest {
                key: key.into(),
                ..DeleteRangeRequest::default()
            }),
            13 => self.grant(random),
            14 => Command::Compact(CompactionRequest {
                revision: revision - 15,
                physical: random.chance(1, 4),
            }),
            _ => Command::Txn(compare_and_swap(put, revision, random)),
        }
    }

    /// Drops the request under way: its write may have been lost.
    pub fn give_up(&mut self) {
        self.waiting = None;
    }

    /// Takes the answer if it has arrived, and reports it to the judge.
    pub fn look(&mut self, now: Duration, members: &[Member], judge: &mut Judge) {
        let Some((asked, waiting)) = &mut self.waiting else {
            return;
        };
        let asked = *asked;
        let over = match waiting {
            Waiting::Write { command, answer } => match answer.try_recv() {
                Ok(Ok(response)) => {
                    judge.observe(asked, now, Observed::write(command, &response));
                    if let Response::LeaseGrant(granted) = &response {
                        judge.leases.report(Report::granted(asked, granted));
                    }
                    true
                }
                Ok(Err(_)) | Err(TryRecvError::Closed) => true,
                Err(TryRecvError::Empty) => now > asked + PATIENCE,
            },
            Waiting::Read {
                key,
                member,
                life,
                answer,
            } => match answer.try_recv() {
                Ok(Ok(())) => {
                    let member = members.iter().find(|it| it.id == *member);
                    if let Some(member) = member.filter(|it| it.lives == *life)
                        && let Some(observed) = read(member, key)
                    {
                        judge.observe(asked, now, observed);
                    }
                    true
                }
                Ok(Err(_)) | Err(TryRecvError::Closed) => true,
                Err(TryRecvError::Empty) => now > asked + PATIENCE,
            },
            Waiting::Lease { id, answer } => match answer.try_recv() {
                Ok(Ok(answer)) => {
                    judge.leases.report(Report::answered(asked, *id, &answer));
                    true
                }
                Ok(Err(_)) | Err(TryRecvError::Closed) => true,
                Err(TryRecvError::Empty) => now > asked + PATIENCE,
            },
        };
        if over {
            self.waiting = None;
        }
    }
}

fn read(member: &Member, key: &str) -> Option<Observed> {
    let reader = member.reader()?;
    let request = RangeRequest {
        key: key.to_owned().into(),
        ..RangeRequest::default()
    };
    let response = reader
        .range(&request)
        .expect("a read at the newest revision");
    Some(Observed::Read {
        key: key.as_bytes().to_vec(),
        revision: response.header.map_or(0, |header| header.revision),
        value: response.kvs.first().map(|kv| kv.value().to_vec()),
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
