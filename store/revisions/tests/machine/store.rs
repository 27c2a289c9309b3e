//! A machine on a simulated disk and clock, driven like a replica of one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::Identity;
use engine::Recovered;
use environment::Clock;
use environment::simulated::{SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseRevokeRequest, PutRequest, PutResponse, RangeRequest, RangeResponse,
    TxnRequest, TxnResponse,
};
use revisions::{Command, Error, Machine, Options, Reader, Response};

pub struct Store {
    pub machine: Machine,
    pub reader: Reader,
    pub disk: SimulatedDisk,
    pub clock: SimulatedClock,
    pub recovered: Recovered,
    options: Options,
    pub term: u64,
    pub index: u64,
    /// The caller of commands, while users are checked.
    pub caller: Option<Arc<Identity>>,
}

/// Small segments, so that tests cross many of them.
pub fn small() -> Options {
    let mut options = Options {
        lease_id_seed: Some(1),
        member_id: 7,
        checks_callers: true,
        ..Options::default()
    };
    options.engine.log.segment_bytes = 64 << 10;
    options.engine.log.spare_segments = 1;
    options.engine.log.reserve_bytes = 0;
    options
}

impl Store {
    pub fn new() -> Store {
        Store::with(small())
    }

    pub fn with(options: Options) -> Store {
        Store::on(SimulatedDisk::new(1), SimulatedClock::stepped(), options)
    }

    pub fn on(disk: SimulatedDisk, clock: SimulatedClock, options: Options) -> Store {
        let opened = Machine::open(
            Arc::new(disk.clone()),
            Path::new("/data"),
            options.clone(),
            Arc::new(clock.clone()),
        );
        let (machine, reader, recovered) = opened.unwrap();
        let index = reader.engine().status().applied_index;
        Store {
            machine,
            reader,
            disk,
            clock,
            recovered,
            options,
            term: 1,
            index,
            caller: None,
        }
    }

    /// Closes and opens again.
    pub fn reopen(self) -> Store {
        let Store {
            machine,
            reader,
            disk,
            clock,
            options,
            caller,
            ..
        } = self;
        reader.engine().close().unwrap();
        drop((machine, reader));
        Store {
            caller,
            ..Store::on(disk, clock, options)
        }
    }

    /// Opens what is left on another disk.
    pub fn on_disk(self, disk: SimulatedDisk) -> Store {
        Store::on(disk, self.clock.clone(), self.options.clone())
    }

    /// Evaluates, makes durable, applies.
    pub fn run(&mut self, command: Command) -> Result<Response, Error> {
        let command = match &self.caller {
            Some(caller) => command.by_user(caller),
            None => command,
        };
        let outcome = self.machine.evaluate(&command);
        self.commit();
        outcome
    }

    /// Seals what is evaluated and brings it all the way.
    pub fn commit(&mut self) {
        let Some(batch) = self.machine.seal(self.term, self.index + 1) else {
            return;
        };
        self.index += 1;
        let appended = self.reader.engine().append(&batch).unwrap();
        self.reader
            .engine()
            .wait_durable(appended.sequence)
            .unwrap();
        self.machine.apply(batch, appended);
    }

    pub fn advance(&mut self, time: Duration) {
        self.clock.advance(time);
    }

    /// Revokes what has run out.
    pub fn expire(&mut self) -> usize {
        let commands = self.machine.own_commands(self.clock.now());
        let count = commands.len();
        for command in commands {
            self.machine.evaluate_own(&command).unwrap();
            self.commit();
        }
        count
    }

    pub fn put(&mut self, key: &str, value: &str) -> PutResponse {
        self.try_put(put(key, value)).unwrap()
    }

    pub fn try_put(&mut self, request: PutRequest) -> Result<PutResponse, Error> {
        match self.run(Command::Put(request))? {
            Response::Put(response) => Ok(response),
            other => panic!("a put answered {other:?}"),
        }
    }

    pub fn delete(&mut self, key: &str, end: &str) -> DeleteRangeResponse {
        let request = DeleteRangeRequest {
            key: bytes(key),
            range_end: bytes(end),
            prev_kv: true,
        };
        match self.run(Command::DeleteRange(request)).unwrap() {
            Response::DeleteRange(response) => response,
            other => panic!("a deletion answered {other:?}"),
        }
    }

    pub fn txn(&mut self, request: TxnRequest) -> Result<TxnResponse, Error> {
        match self.run(Command::Txn(request))? {
            Response::Txn(response) => Ok(response),
            other => panic!("a transaction answered {other:?}"),
        }
    }

    pub fn compact(&mut self, revision: i64) -> Result<i64, Error> {
        self.compact_as(revision, false)
    }

    pub fn compact_physically(&mut self, revision: i64) -> Result<i64, Error> {
        self.compact_as(revision, true)
    }

    fn compact_as(&mut self, revision: i64, physical: bool) -> Result<i64, Error> {
        let request = CompactionRequest { revision, physical };
        self.run(Command::Compact(request))
            .map(|mut answer| answer.header_mut().revision)
    }

    /// Runs upkeep until the versions of the last compaction are removed.
    pub fn sweep(&mut self) {
        let compacted = self.reader.engine().status().compacted;
        while self.machine.swept() < compacted {
            self.machine.maintain().unwrap();
        }
    }

    pub fn grant(&mut self, id: i64, ttl: i64) -> Result<LeaseGrantResponse, Error> {
        match self.run(Command::LeaseGrant(LeaseGrantRequest { id, ttl }))? {
            Response::LeaseGrant(response) => Ok(response),
            other => panic!("a grant answered {other:?}"),
        }
    }

    pub fn revoke(&mut self, id: i64) -> Result<i64, Error> {
        let request = LeaseRevokeRequest { id };
        self.run(Command::LeaseRevoke(request))
            .map(|mut answer| answer.header_mut().revision)
    }

    pub fn get(&self, key: &str, end: &str, revision: i64) -> Result<RangeResponse, Error> {
        self.reader.range(&RangeRequest {
            revision,
            ..range(key, end)
        })
    }
}

pub fn bytes(text: &str) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(text.as_bytes())
}

pub fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: bytes(key),
        value: bytes(value),
        ..PutRequest::default()
    }
}

pub fn range(key: &str, end: &str) -> RangeRequest {
    RangeRequest {
        key: bytes(key),
        range_end: bytes(end),
        ..RangeRequest::default()
    }
}
