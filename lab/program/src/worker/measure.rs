//! Counters around the measured part.

use harness::Cluster;

use crate::accounting::{BlockCounters, MachineCounters, ProcessCounters};
use crate::load::{Edges, Phase};
use crate::record::{BlockDevice, DeviceWork, Disturbance, ProcessCosts};

use super::{Line, Stage, send};

/// All counters, read at one moment.
struct Snapshot {
    machine: MachineCounters,
    client: Option<ProcessCounters>,
    servers: Vec<Option<ProcessCounters>>,
    block: Option<BlockCounters>,
}

/// Reads the counters when the measured part begins and ends.
pub struct Accounts<'a> {
    device: Option<&'a BlockDevice>,
    servers: Vec<u32>,
    cluster: Option<&'a mut Cluster>,
    before: Option<Snapshot>,
    after: Option<Snapshot>,
    settled: Option<BlockCounters>,
}

impl<'a> Accounts<'a> {
    /// Accounts of this process, of the servers in `cluster`, and of the device.
    pub fn new(device: Option<&'a BlockDevice>, cluster: Option<&'a mut Cluster>) -> Accounts<'a> {
        Accounts {
            device,
            servers: cluster
                .as_ref()
                .map(|cluster| cluster.pids())
                .unwrap_or_default(),
            cluster,
            before: None,
            after: None,
            settled: None,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let own = std::process::id();
        let mut measured = self.servers.clone();
        measured.push(own);
        let servers = self.servers.iter();
        Snapshot {
            block: self.block(),
            client: ProcessCounters::of(own).ok(),
            servers: servers.map(|pid| ProcessCounters::of(*pid).ok()).collect(),
            machine: MachineCounters::now(&measured),
        }
    }

    fn block(&self) -> Option<BlockCounters> {
        BlockCounters::of(&self.device?.name).ok()
    }

    /// Writes everything to the device (`sync`) and reads its counters again. Called after the
    /// measured part.
    pub fn settle(&mut self) {
        rustix::fs::sync();
        self.settled = self.block();
    }

    /// Costs of this process in the measured part.
    pub fn client(&self) -> ProcessCosts {
        let (Some(before), Some(after)) = (&self.before, &self.after) else {
            return ProcessCosts::default();
        };
        match (&before.client, &after.client) {
            (Some(before), Some(after)) => after.since(before),
            _ => ProcessCosts::default(),
        }
    }

    /// Costs of the servers together; `None` without servers.
    pub fn server(&self) -> Option<ProcessCosts> {
        let (before, after) = (self.before.as_ref()?, self.after.as_ref()?);
        if self.servers.is_empty() {
            return None;
        }
        let mut sum = ProcessCosts::default();
        for (before, after) in before.servers.iter().zip(&after.servers) {
            sum.add(&after.as_ref()?.since(before.as_ref()?));
        }
        Some(sum)
    }

    /// Work of the device: in the measured part, and until [`settle`](Accounts::settle) had
    /// ended.
    pub fn device(&self) -> (Option<DeviceWork>, Option<DeviceWork>) {
        let before = self.before.as_ref().and_then(|before| before.block);
        let work = |after: Option<BlockCounters>| Some(after?.since(&before?, self.device?));
        let after = self.after.as_ref().and_then(|after| after.block);
        (work(after), work(self.settled))
    }

    /// Other load on the machine in the measured part.
    pub fn disturbance(&self) -> Disturbance {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => after.machine.since(&before.machine),
            _ => Disturbance::default(),
        }
    }
}

impl Edges for Accounts<'_> {
    fn begins(&mut self) {
        self.before = Some(self.snapshot());
    }

    fn ended(&mut self) {
        self.after = Some(self.snapshot());
    }

    fn progress(&mut self, phase: Phase, share: f64, rate: f64) -> Result<(), String> {
        let stage = match phase {
            Phase::WarmUp => Stage::Warmup,
            Phase::Measure => Stage::Measure,
        };
        send_progress(stage, share, rate)?;
        let checked = self
            .cluster
            .as_mut()
            .map_or(Ok(()), |it| it.check_running());
        checked.map_err(|error| error.to_string())
    }
}

/// Sends the worker's progress to the lab. Fails when the lab has ended.
pub fn send_progress(stage: Stage, share: f64, rate: f64) -> Result<(), String> {
    let sent = send(&Line::Progress { stage, share, rate });
    sent.map_err(|error| format!("the lab is gone: {error}"))
}
