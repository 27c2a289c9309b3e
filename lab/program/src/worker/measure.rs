//! Counters around the measured part.

use harness::Cluster;

use crate::accounting::{BlockCounters, MachineCounters};
use crate::load::live::WriteCounts;
use crate::load::{Edges, Stage};
use crate::record::{BlockDevice, ProcessCosts, Run};
use crate::targets::Failure;

use super::space::SpaceWatch;
use super::{Line, send};

/// All counters, read at one moment.
struct Snapshot {
    machine: MachineCounters,
    client: Option<ProcessCosts>,
    servers: Vec<Option<ProcessCosts>>,
    block: Option<BlockCounters>,
}

/// Reads the counters when the measured part begins and ends.
pub struct Accounts<'a> {
    device: Option<&'a BlockDevice>,
    servers: Vec<u32>,
    cluster: Option<&'a mut Cluster>,
    space: &'a mut SpaceWatch,
    wrote: WriteCounts,
    /// Before the warm-up: its writes may reach the device after it.
    started: Option<BlockCounters>,
    before: Option<Snapshot>,
    after: Option<Snapshot>,
}

impl<'a> Accounts<'a> {
    /// Accounts of this process, of the servers in `cluster`, and of the device.
    pub fn new(
        device: Option<&'a BlockDevice>,
        cluster: Option<&'a mut Cluster>,
        space: &'a mut SpaceWatch,
    ) -> Accounts<'a> {
        Accounts {
            space,
            wrote: WriteCounts::default(),
            device,
            started: block(device),
            servers: cluster.as_ref().map_or_else(Vec::new, |it| it.pids()),
            cluster,
            before: None,
            after: None,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let own = std::process::id();
        let measured = [&self.servers[..], &[own]].concat();
        let servers = self.servers.iter();
        Snapshot {
            block: block(self.device),
            client: ProcessCosts::of(own).ok(),
            servers: servers.map(|pid| ProcessCosts::of(*pid).ok()).collect(),
            machine: MachineCounters::now(&measured),
        }
    }

    /// Writes everything to the device (`sync`), reads its counters again, and stores the costs
    /// of the measured part in `run`. The bytes that were written, by the clients and to the
    /// device, are those of warm-up and measured part together: dirty pages do not say which
    /// part they are of.
    pub fn settle(self, run: &mut Run) {
        rustix::fs::sync();
        let settled = block(self.device);
        let Some((before, after)) = self.before.as_ref().zip(self.after.as_ref()) else {
            return;
        };
        let client = after.client.as_ref().zip(before.client.as_ref());
        run.client = client
            .map(|(now, then)| now.since(then))
            .unwrap_or_default();
        run.server = self.server(before, after);
        let work = |now: Option<BlockCounters>, then: Option<BlockCounters>| {
            Some(now?.since(&then?, self.device?))
        };
        run.device = work(after.block, before.block);
        run.device_settled = work(settled, self.started);
        run.user_bytes_written = self.wrote.user_bytes;
        run.disturbance = after.machine.since(&before.machine);
    }

    /// Costs of the servers together; `None` without servers.
    fn server(&self, before: &Snapshot, after: &Snapshot) -> Option<ProcessCosts> {
        if self.servers.is_empty() {
            return None;
        }
        let mut sum = ProcessCosts::default();
        for (before, after) in before.servers.iter().zip(&after.servers) {
            sum.add(&after.as_ref()?.since(before.as_ref()?));
        }
        Some(sum)
    }
}

fn block(device: Option<&BlockDevice>) -> Option<BlockCounters> {
    BlockCounters::of(&device?.name)
}

impl Edges for Accounts<'_> {
    fn begins(&mut self) {
        self.space.measured_part_begins();
        self.before = Some(self.snapshot());
    }

    fn ended(&mut self) {
        self.after = Some(self.snapshot());
        self.space.measured_part_ended(self.wrote);
    }

    fn wrote(&mut self, counts: WriteCounts) {
        self.wrote = counts;
        // The writes of an open loop that are due in the measured part may end after it.
        if self.after.is_none() {
            self.space.look_after(counts);
        }
    }

    fn progress(&mut self, stage: Stage, share: f64, rate: f64) -> Result<(), Failure> {
        send_progress(stage, share, rate)?;
        match &mut self.cluster {
            Some(cluster) => cluster.check_running(),
            None => Ok(()),
        }
    }
}

/// Sends the worker's progress to the lab. Fails when the lab has ended.
pub fn send_progress(stage: Stage, share: f64, rate: f64) -> Result<(), Failure> {
    let sent = send(&Line::Progress { stage, share, rate });
    Ok(sent.map_err(|error| format!("the lab is gone: {error}"))?)
}
