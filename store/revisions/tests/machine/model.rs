//! The machine against a naive model: a list of everything that happened.
//!
//! The model keeps no index and no overlay: to answer, it replays its list.
//! Commands are evaluated in batches of random length, so that much of what
//! they read is not applied yet.

use std::collections::{BTreeMap, BTreeSet};

use environment::randomness::Random;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::response_op::Response as Outcome;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest,
    PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use etcd_api::mvccpb::KeyValue;
use revisions::{Command, Error, Response, validate};

use crate::store::{Store, bytes};

#[derive(Default)]
struct Model {
    /// Everything that happened: when, to which key, and what it became.
    history: Vec<(i64, String, Option<KeyValue>)>,
    revision: i64,
    compacted: i64,
    leases: BTreeSet<i64>,
}

type State = BTreeMap<String, KeyValue>;

impl Model {
    fn state(&self, at: i64) -> State {
        let mut state = State::new();
        for (_, key, version) in self.history.iter().take_while(|entry| entry.0 <= at) {
            match version {
                Some(version) => state.insert(key.clone(), version.clone()),
                None => state.remove(key),
            };
        }
        state
    }

    fn range(&self, request: &RangeRequest, now: i64) -> Result<RangeResponse, Refusal> {
        if request.revision > now {
            return Err(Refusal::FutureRevision);
        }
        let at = if request.revision <= 0 {
            now
        } else {
            request.revision
        };
        if at < self.compacted {
            return Err(Refusal::Compacted);
        }
        let mut kvs = select(&self.state(at), &request.key, &request.range_end);
        let count = kvs.len() as i64;
        let limit = if request.limit <= 0 {
            usize::MAX
        } else {
            request.limit as usize
        };
        kvs.retain(|kv| {
            (request.min_mod_revision == 0 || kv.mod_revision >= request.min_mod_revision)
                && (request.max_create_revision == 0
                    || kv.create_revision <= request.max_create_revision)
        });
        match request.sort_target {
            1 => kvs.sort_by_key(|kv| kv.version),
            2 => kvs.sort_by_key(|kv| kv.create_revision),
            3 => kvs.sort_by_key(|kv| kv.mod_revision),
            4 => kvs.sort_by(|a, b| a.value.cmp(&b.value)),
            _ => {}
        }
        if request.sort_order == 2 {
            // Equal ones stay in key order.
            let keys = |kv: &KeyValue| match request.sort_target {
                0 => kv.key.to_vec(),
                1 => kv.version.to_be_bytes().to_vec(),
                2 => kv.create_revision.to_be_bytes().to_vec(),
                3 => kv.mod_revision.to_be_bytes().to_vec(),
                _ => kv.value.to_vec(),
            };
            kvs.sort_by_key(|kv| std::cmp::Reverse(keys(kv)));
        }
        let more = kvs.len() > limit && !request.count_only;
        kvs.truncate(if request.count_only { 0 } else { limit });
        if request.keys_only {
            for kv in &mut kvs {
                kv.value.clear();
                kv.lease = if request.sort_target == 4 {
                    kv.lease
                } else {
                    0
                };
            }
        }
        let kvs = kvs.into_iter().map(Into::into).collect();
        let header = Some(etcd_api::etcdserverpb::ResponseHeader {
            revision: now,
            ..Default::default()
        });
        Ok(RangeResponse {
            header,
            kvs,
            more,
            count,
        })
    }

    fn put(&mut self, request: &PutRequest, main: i64) {
        let key = String::from_utf8(request.key.to_vec()).unwrap();
        let previous = self.state(main).remove(&key);
        let kept = previous.clone().unwrap_or_default();
        let version = KeyValue {
            key: request.key.clone(),
            create_revision: previous.as_ref().map_or(main, |it| it.create_revision),
            mod_revision: main,
            version: previous.map_or(1, |it| it.version + 1),
            value: if request.ignore_value {
                kept.value
            } else {
                request.value.clone()
            },
            lease: if request.ignore_lease {
                kept.lease
            } else {
                request.lease
            },
        };
        self.history.push((main, key, Some(version)));
    }

    fn delete(&mut self, request: &DeleteRangeRequest, main: i64) -> Vec<KeyValue> {
        let gone = select(&self.state(main), &request.key, &request.range_end);
        for kv in &gone {
            self.history
                .push((main, String::from_utf8(kv.key.to_vec()).unwrap(), None));
        }
        gone
    }

    fn check_put(&self, request: &PutRequest, state: &State) -> Result<(), Refusal> {
        if request.lease != 0 && !self.leases.contains(&request.lease) {
            return Err(Refusal::LeaseNotFound);
        }
        let key = std::str::from_utf8(&request.key).unwrap();
        if (request.ignore_value || request.ignore_lease) && !state.contains_key(key) {
            return Err(Refusal::KeyNotFound);
        }
        Ok(())
    }

    /// One level of nesting is enough: deeper ones recurse through the same.
    fn txn(&mut self, request: &TxnRequest) -> Result<TxnResponse, Refusal> {
        let before = self.state(self.revision);
        self.check_txn(request, &before)?;
        let mark = self.history.len();
        let response = self.run_txn(request, &before, mark);
        if response.is_err() {
            self.history.truncate(mark);
        }
        self.revision += i64::from(self.history.len() > mark);
        response
    }

    fn check_txn(&self, request: &TxnRequest, before: &State) -> Result<(), Refusal> {
        for operation in taken(request, before).1 {
            match operation.request.as_ref().unwrap() {
                Operation::RequestPut(put) => self.check_put(put, before)?,
                Operation::RequestRange(range) => {
                    self.range(
                        &RangeRequest {
                            count_only: true,
                            ..range.clone()
                        },
                        self.revision,
                    )?;
                }
                Operation::RequestTxn(nested) => self.check_txn(nested, before)?,
                Operation::RequestDeleteRange(_) => {}
            }
        }
        Ok(())
    }

    /// Only a put that keeps what the transaction itself has deleted fails
    /// here (etcd stops the process over it).
    fn run_txn(
        &mut self,
        request: &TxnRequest,
        before: &State,
        mark: usize,
    ) -> Result<TxnResponse, Refusal> {
        let (succeeded, operations) = taken(request, before);
        let mut kinds = Vec::new();
        for operation in operations {
            let main = self.revision + 1;
            let response = match operation.request.as_ref().unwrap() {
                Operation::RequestPut(put) => {
                    self.check_put(put, &self.state(main))?;
                    self.put(put, main);
                    Outcome::ResponsePut(Default::default())
                }
                Operation::RequestDeleteRange(delete) => {
                    let deleted = self.delete(delete, main).len() as i64;
                    Outcome::ResponseDeleteRange(etcd_api::etcdserverpb::DeleteRangeResponse {
                        deleted,
                        ..Default::default()
                    })
                }
                Operation::RequestRange(range) => {
                    let now = self.revision + i64::from(self.history.len() > mark);
                    Outcome::ResponseRange(self.range(range, now).unwrap())
                }
                Operation::RequestTxn(nested) => {
                    Outcome::ResponseTxn(self.run_txn(nested, before, mark)?)
                }
            };
            kinds.push(etcd_api::etcdserverpb::ResponseOp {
                response: Some(response),
            });
        }
        Ok(TxnResponse {
            header: None,
            succeeded,
            responses: kinds,
        })
    }

    fn revoke(&mut self, id: i64) -> Result<(), Refusal> {
        if !self.leases.remove(&id) {
            return Err(Refusal::LeaseNotFound);
        }
        let state = self.state(self.revision);
        let main = self.revision + 1;
        let keys: Vec<_> = state.iter().filter(|(_, kv)| kv.lease == id).collect();
        self.revision += i64::from(!keys.is_empty());
        self.history
            .extend(keys.into_iter().map(|(key, _)| (main, key.clone(), None)));
        Ok(())
    }
}

fn taken<'r>(request: &'r TxnRequest, before: &State) -> (bool, &'r [RequestOp]) {
    let succeeded = request.compare.iter().all(|compare| holds(compare, before));
    (
        succeeded,
        if succeeded {
            &request.success
        } else {
            &request.failure
        },
    )
}

fn holds(compare: &Compare, state: &State) -> bool {
    let mut kvs = select(state, &compare.key, &compare.range_end);
    let by_value = compare.target == CompareTarget::Value as i32;
    if kvs.is_empty() {
        if by_value {
            return false;
        }
        kvs.push(KeyValue::default());
    }
    kvs.iter().all(|kv| {
        let order = match compare.target_union.as_ref().unwrap() {
            TargetUnion::Value(wanted) => kv.value.cmp(wanted),
            TargetUnion::Version(wanted) => kv.version.cmp(wanted),
            TargetUnion::CreateRevision(wanted) => kv.create_revision.cmp(wanted),
            TargetUnion::ModRevision(wanted) => kv.mod_revision.cmp(wanted),
            TargetUnion::Lease(wanted) => kv.lease.cmp(wanted),
        };
        match CompareResult::try_from(compare.result).unwrap() {
            CompareResult::Equal => order.is_eq(),
            CompareResult::NotEqual => order.is_ne(),
            CompareResult::Greater => order.is_gt(),
            CompareResult::Less => order.is_lt(),
        }
    })
}

fn select(state: &State, key: &[u8], end: &[u8]) -> Vec<KeyValue> {
    let meant = |candidate: &str| match end {
        [] => candidate.as_bytes() == key,
        [0] => candidate.as_bytes() >= key,
        end => candidate.as_bytes() >= key && candidate.as_bytes() < end,
    };
    state
        .iter()
        .filter(|(key, _)| meant(key))
        .map(|(_, kv)| kv.clone())
        .collect()
}

/// Random requests over few keys, so that they meet.
struct Requests {
    random: Random,
}

impl Requests {
    fn one_in(&mut self, n: u64) -> bool {
        self.random.chance(1, n)
    }

    fn key(&mut self) -> String {
        ["a", "aa", "ab", "b", "ba", "c", "d\u{0}e"][self.random.below(7) as usize].to_owned()
    }

    fn end(&mut self) -> String {
        match self.random.below(4) {
            0 | 1 => String::new(),
            2 => "\0".to_owned(),
            _ => self.key(),
        }
    }

    fn put(&mut self) -> PutRequest {
        let (ignore_value, ignore_lease) = (self.one_in(8), self.one_in(8));
        let value = format!("v{}", self.random.below(9));
        let lease = if self.one_in(3) {
            1 + self.random.below(4) as i64
        } else {
            0
        };
        PutRequest {
            key: bytes(&self.key()),
            value: if ignore_value {
                bytes("")
            } else {
                bytes(&value)
            },
            lease: if ignore_lease { 0 } else { lease },
            prev_kv: self.one_in(2),
            ignore_value,
            ignore_lease,
        }
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        let range_end = bytes(&self.end());
        DeleteRangeRequest {
            key: bytes(&self.key()),
            range_end,
            prev_kv: true,
        }
    }

    fn range(&mut self, newest: i64) -> RangeRequest {
        // A sort target without an order sorts what the limit let through:
        // the scripts show that; here it would only repeat the code.
        let sort_order = self.random.below(3) as i32;
        let sort_target = if sort_order == 0 {
            0
        } else {
            self.random.below(5) as i32
        };
        let past = |random: &mut Random| random.below(newest as u64 + 2) as i64;
        RangeRequest {
            key: bytes(&self.key()),
            range_end: bytes(&self.end()),
            limit: self.random.below(4) as i64,
            revision: if self.one_in(2) {
                past(&mut self.random)
            } else {
                0
            },
            sort_order,
            sort_target,
            keys_only: self.one_in(5),
            count_only: self.one_in(5),
            min_mod_revision: if self.one_in(5) {
                past(&mut self.random)
            } else {
                0
            },
            max_create_revision: if self.one_in(5) {
                past(&mut self.random)
            } else {
                0
            },
            ..RangeRequest::default()
        }
    }

    fn compare(&mut self) -> Compare {
        let number = self.random.below(12) as i64;
        let (target, target_union) = match self.random.below(5) {
            0 => (CompareTarget::Version, TargetUnion::Version(number / 3)),
            1 => (CompareTarget::Create, TargetUnion::CreateRevision(number)),
            2 => (CompareTarget::Mod, TargetUnion::ModRevision(number)),
            3 => (CompareTarget::Lease, TargetUnion::Lease(number / 3)),
            _ => (
                CompareTarget::Value,
                TargetUnion::Value(bytes(&format!("v{number}"))),
            ),
        };
        Compare {
            result: self.random.below(4) as i32,
            target: target as i32,
            key: bytes(&self.key()),
            range_end: bytes(&self.end()),
            target_union: Some(target_union),
        }
    }

    fn txn(&mut self, newest: i64, depth: u32) -> TxnRequest {
        let list = |requests: &mut Requests| {
            (0..requests.random.below(4))
                .map(|_| requests.operation(newest, depth))
                .collect()
        };
        TxnRequest {
            success: list(self),
            failure: list(self),
            compare: (0..self.random.below(3)).map(|_| self.compare()).collect(),
        }
    }

    fn operation(&mut self, newest: i64, depth: u32) -> RequestOp {
        let request = match self.random.below(4) {
            0 => Operation::RequestRange(self.range(newest)),
            1 => Operation::RequestDeleteRange(self.delete()),
            2 if depth > 0 => Operation::RequestTxn(self.txn(newest, depth - 1)),
            _ => Operation::RequestPut(self.put()),
        };
        RequestOp {
            request: Some(request),
        }
    }
}

fn refusal<T>(outcome: Result<T, Error>) -> Result<T, Refusal> {
    outcome.map_err(|error| match error {
        Error::Etcd(refusal) => refusal,
        other => panic!("not a refusal: {other}"),
    })
}

/// Keeps of a response what the model says: ranges, counts, branches.
fn essence(response: TxnResponse) -> TxnResponse {
    let responses = response.responses.into_iter().map(|mut each| {
        each.response = each.response.map(|outcome| match outcome {
            Outcome::ResponsePut(_) => Outcome::ResponsePut(Default::default()),
            Outcome::ResponseDeleteRange(it) => {
                Outcome::ResponseDeleteRange(etcd_api::etcdserverpb::DeleteRangeResponse {
                    deleted: it.deleted,
                    ..Default::default()
                })
            }
            Outcome::ResponseTxn(it) => Outcome::ResponseTxn(essence(it)),
            range => range,
        });
        each
    });
    TxnResponse {
        header: None,
        succeeded: response.succeeded,
        responses: responses.collect(),
    }
}

struct Duel {
    store: Store,
    model: Model,
    requests: Requests,
}

impl Duel {
    fn new(seed: u64) -> Duel {
        let model = Model {
            revision: 1,
            compacted: -1,
            ..Model::default()
        };
        Duel {
            store: Store::new(),
            model,
            requests: Requests {
                random: Random::from_seed(seed),
            },
        }
    }

    fn step(&mut self) {
        match self.requests.random.below(16) {
            0..5 => self.put(),
            5..7 => self.delete(),
            7..12 => self.txn(),
            12 => self.grant(),
            13 => self.revoke(),
            14 => self.compact(),
            _ => self.look(),
        }
    }

    fn evaluate(&mut self, command: Command) -> Result<Response, Refusal> {
        refusal(self.store.machine.evaluate(&command))
    }

    fn put(&mut self) {
        let request = self.requests.put();
        let before = self.model.state(self.model.revision);
        let expected = self.model.check_put(&request, &before).map(|()| {
            let main = self.model.revision + 1;
            self.model.put(&request, main);
            self.model.revision = main;
            let key = std::str::from_utf8(&request.key).unwrap();
            (
                main,
                before
                    .get(key)
                    .filter(|_| request.prev_kv)
                    .cloned()
                    .map(Into::into),
            )
        });
        let actual = self
            .evaluate(Command::Put(request))
            .map(|answer| match answer {
                Response::Put(answer) => (answer.header.unwrap().revision, answer.prev_kv),
                other => panic!("a put answered {other:?}"),
            });
        assert_eq!(actual, expected);
    }

    fn delete(&mut self) {
        let request = self.requests.delete();
        let main = self.model.revision + 1;
        let gone = self.model.delete(&request, main);
        self.model.revision += i64::from(!gone.is_empty());
        let Ok(Response::DeleteRange(answer)) = self.evaluate(Command::DeleteRange(request)) else {
            panic!("a deletion is never refused")
        };
        assert_eq!(answer.header.unwrap().revision, self.model.revision);
        assert_eq!(answer.deleted as usize, gone.len());
        let gone: Vec<_> = gone.into_iter().map(Into::into).collect();
        assert_eq!(answer.prev_kvs, gone);
    }

    fn txn(&mut self) {
        let request = self.requests.txn(self.model.revision, 2);
        if validate::txn(&request, validate::TXN_OPERATIONS_MAX).is_err() {
            return;
        }
        let expected = self.model.txn(&request);
        let actual = self
            .evaluate(Command::Txn(request.clone()))
            .map(|answer| match answer {
                Response::Txn(answer) => {
                    assert_eq!(
                        answer.header.as_ref().unwrap().revision,
                        self.model.revision
                    );
                    essence(answer)
                }
                other => panic!("a transaction answered {other:?}"),
            });
        assert_eq!(actual, expected, "{request:?}");
    }

    fn grant(&mut self) {
        let id = 1 + self.requests.random.below(4) as i64;
        let granted = self
            .evaluate(Command::LeaseGrant(LeaseGrantRequest { id, ttl: 100 }))
            .is_ok();
        assert_eq!(granted, self.model.leases.insert(id));
    }

    fn revoke(&mut self) {
        let id = 1 + self.requests.random.below(4) as i64;
        let expected = self.model.revoke(id).map(|()| self.model.revision);
        let actual = self.evaluate(Command::LeaseRevoke(LeaseRevokeRequest { id }));
        assert_eq!(
            actual.map(|mut answer| answer.header_mut().revision),
            expected
        );
    }

    fn compact(&mut self) {
        let revision = self.requests.random.below(self.model.revision as u64 + 2) as i64;
        let expected = if revision <= self.model.compacted {
            Err(Refusal::Compacted)
        } else if revision > self.model.revision {
            Err(Refusal::FutureRevision)
        } else {
            self.model.compacted = revision;
            Ok(())
        };
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        assert_eq!(self.evaluate(Command::Compact(request)).map(drop), expected);
    }

    /// Applies what is pending and reads through the readers' door.
    fn look(&mut self) {
        self.store.commit();
        for _ in 0..6 {
            let request = self.requests.range(self.model.revision);
            let expected = self.model.range(&request, self.model.revision);
            assert_eq!(
                refusal(self.store.reader.range(&request)),
                expected,
                "{request:?}"
            );
        }
    }
}

#[test]
fn the_machine_agrees_with_a_list_of_everything_that_happened() {
    for seed in 0..40 {
        let mut duel = Duel::new(seed);
        for _ in 0..250 {
            duel.step();
        }
        duel.look();
        duel.store = duel.store.reopen();
        duel.look();
    }
}
