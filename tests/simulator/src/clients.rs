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
use history::{Answer, Operation, Outcome, Request as Asked};
use revisions::{Command, LeaseAnswer, LeaseQuestion, Response};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::judge::{Judge, text, version};
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
                prev_kv: true,
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
                prev_kv: true,
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

    /// Gives up the request under way: its write may have happened, and may still happen.
    pub fn give_up(&mut self, now: Duration, judge: &mut Judge) {
        if let Some((asked, Waiting::Write { command, .. })) = self.waiting.take() {
            judge.observe(operation(
                self.number,
                (asked, now),
                request(&command),
                None,
            ));
        }
    }

    /// Takes the answer if it has arrived, and reports it to the judge.
    pub fn look(&mut self, now: Duration, members: &[Member], judge: &mut Judge) {
        let Some((asked, waiting)) = &mut self.waiting else {
            return;
        };
        let asked = *asked;
        let is_late = now > asked + PATIENCE;
        match waiting {
            Waiting::Write { command, answer } => match answer.try_recv() {
                Ok(Ok(response)) => {
                    if let Response::LeaseGrant(granted) = &response {
                        judge.leases.report(Report::granted(asked, granted));
                    }
                    let answer = answer_of(&response);
                    let asked = (asked, now);
                    judge.observe(operation(
                        self.number,
                        asked,
                        request(command),
                        Some(answer),
                    ));
                    self.waiting = None;
                }
                Err(TryRecvError::Empty) if !is_late => {}
                _ => self.give_up(now, judge),
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
                        && let Some(answer) = read(member, key)
                    {
                        let get = Asked::Get {
                            key: key.clone(),
                            end: String::new(),
                            revision: 0,
                            serializable: false,
                        };
                        judge.observe(operation(self.number, (asked, now), get, Some(answer)));
                    }
                    self.waiting = None;
                }
                Err(TryRecvError::Empty) if !is_late => {}
                _ => self.waiting = None,
            },
            Waiting::Lease { id, answer } => match answer.try_recv() {
                Ok(Ok(answer)) => {
                    judge.leases.report(Report::answered(asked, *id, &answer));
                    self.waiting = None;
                }
                Err(TryRecvError::Empty) if !is_late => {}
                _ => self.waiting = None,
            },
        }
    }
}

/// An operation for the judge; without an answer its outcome is unknown. The judge of leases
/// knows the lives of members, so this one need not.
fn operation(
    client: usize,
    (asked, answered): (Duration, Duration),
    request: Asked,
    answer: Option<Answer>,
) -> Operation {
    Operation {
        client: client as u32,
        member: 0,
        life: None,
        called: asked.as_nanos() as u64,
        returned: answered.as_nanos() as u64,
        request,
        outcome: answer.map_or(Outcome::unknown("no answer"), Outcome::Done),
    }
}

/// A command as the history has it. A transaction is the put that it makes if its comparison
/// holds; if not, it has not succeeded.
fn request(command: &Command) -> Asked {
    let asked = |put: &PutRequest| Asked::Put {
        key: text(&put.key),
        value: text(&put.value),
        lease: put.lease,
        previous: false,
    };
    match command {
        Command::Put(put) => asked(put),
        Command::DeleteRange(delete) => Asked::Delete {
            key: text(&delete.key),
        },
        Command::Txn(txn) => {
            let mut puts = txn.success.iter().filter_map(|it| match &it.request {
                Some(Request::RequestPut(put)) => Some(asked(put)),
                _ => None,
            });
            puts.next().expect("the clients' transactions put")
        }
        Command::Compact(compact) => Asked::Compact {
            revision: compact.revision,
        },
        Command::LeaseGrant(grant) => Asked::Grant {
            lease: grant.id,
            seconds: grant.ttl,
        },
        other => unreachable!("clients do not send {other:?}"),
    }
}

fn answer_of(response: &Response) -> Answer {
    let revision = response.clone().header_mut().revision;
    let (succeeded, versions, seconds) = match response {
        Response::DeleteRange(answer) => {
            let versions = answer.prev_kvs.iter().map(version).collect();
            (answer.deleted > 0, versions, 0)
        }
        Response::Txn(answer) => (answer.succeeded, Vec::new(), 0),
        Response::LeaseGrant(answer) => (true, Vec::new(), answer.ttl),
        _ => (true, Vec::new(), 0),
    };
    Answer {
        revision,
        succeeded,
        versions,
        seconds,
    }
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
