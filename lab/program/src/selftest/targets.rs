//! Targets with a fault that the lab must find, driven by the lab's own clients and checked
//! by its own verification.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::load::{Client, Plan, read_back_embedded};
use crate::record::{BlockDevice, DeviceWork, DurabilityJudgement, Kind, KindResult, Run};
use crate::targets::{Embedded, Failure, Session};
use crate::verdict::durability;
use crate::verify::Ledger;
use crate::worker::Job;
use crate::workload::{Workload, parse};

/// A store that acknowledges every write and forgets one in `forget_every`.
#[derive(Debug)]
pub struct Forgetful {
    kept: Mutex<Kept>,
    forget_every: u64,
}

#[derive(Debug, Default)]
struct Kept {
    writes: u64,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Forgetful {
    /// A store that forgets one write in `forget_every`.
    pub fn new(forget_every: u64) -> Forgetful {
        assert!(forget_every > 0, "one write in none is not a share");
        Forgetful {
            kept: Mutex::default(),
            forget_every,
        }
    }
}

impl Embedded for Forgetful {
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(self))
    }
}

impl Session for &Forgetful {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.writes += 1;
        if !kept.writes.is_multiple_of(self.forget_every) {
            kept.pairs.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.pairs.get(key);
        value.extend_from_slice(found.map_or(&[], Vec::as_slice));
        Ok(found.is_some())
    }
}

fn workload(text: &str) -> Workload {
    parse("selftest", text).expect("it is a workload")
}

/// Performs `writes` writes to as many keys; returns how many of them the lab's
/// verification finds missing or wrong.
pub fn lost_by(target: &dyn Embedded, writes: u64) -> Result<u64, Failure> {
    let text = format!(
        "name = \"writes\"\n[load]\nkeys = {writes}\npreload = false\n\
         [access]\ndistribution = \"sequential\"\n"
    );
    let plan = Arc::new(Plan::new(&workload(&text), 1, None));
    let mut client = Client::new(&plan, 0);
    let mut session = target.session()?;
    for write in 0..writes {
        client.draw();
        session.put(&client.key, &client.value)?;
        client.put_ended(2 * write, 2 * write + 1, true);
    }
    let mut ledger = Ledger::new(vec![client.acknowledged], 0);
    let keys = ledger.keys(usize::MAX);
    read_back_embedded(&plan, target, &mut ledger, &keys)?;
    let seen = ledger.verification("nothing");
    Ok(seen.keys_missing + seen.keys_wrong)
}

/// The lab's judgement of a store that acknowledged `puts` writes, on a device that counted
/// `flushes`.
pub fn judged(puts: u64, flushes: u64) -> DurabilityJudgement {
    let device = BlockDevice {
        name: "simulated".into(),
        cache: "write back".into(),
        private: true,
        ..BlockDevice::default()
    };
    let mut run = Run::of(&Job::bare(workload("name = \"puts\"")));
    let put = KindResult {
        operations: puts,
        ..KindResult::default()
    };
    run.load.kinds.insert(Kind::Put, put);
    run.device = Some(DeviceWork {
        flushes,
        ..DeviceWork::default()
    });
    durability(&run, Some(&device))
}
