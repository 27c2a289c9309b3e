//! The replica's thread: takes what the inbox holds, has it evaluated, hands
//! batches to the log and answers to those who wait.
//!
//! It waits for its inbox and for nothing else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::Engine;
use environment::{Clock, Instant};
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType};
use revisions::Command;
use tokio::sync::oneshot;
use tracing::{error, warn};

use crate::inbox::{Arrived, Inbox, Proposal};
use crate::observer::Observing;
use crate::{Answer, Error, NodeOptions, Replica};

/// Where word goes that garbage has been reclaimed.
type Defragmented = oneshot::Sender<Result<(), Error>>;

/// Written by the replica thread, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) term: AtomicU64,
    pub(crate) index: AtomicU64,
    pub(crate) applied_index: AtomicU64,
    pub(crate) leases_expired: AtomicU64,
}

/// The replica and what it is driven with.
#[derive(Debug)]
pub(crate) struct Pump {
    replica: Replica,
    engine: Engine,
    clock: Arc<dyn Clock>,
    inbox: Arc<Inbox>,
    progress: Arc<Progress>,
    /// Taken from the inbox, not yet evaluated: what did not fit the batch.
    backlog: VecDeque<Proposal>,
    /// Bytes of the commands in the open batch.
    open_bytes: usize,
    /// Raises the alarm NOSPACE in this member's name.
    no_space_alarm: Command,
    batch_bytes_max: usize,
    tick: Duration,
    next_tick: Instant,
    observing: Observing,
}

impl Pump {
    pub(crate) fn new(
        options: NodeOptions,
        replica: Replica,
        engine: Engine,
        inbox: Arc<Inbox>,
        progress: Arc<Progress>,
    ) -> Pump {
        Pump {
            replica,
            engine,
            clock: Arc::clone(&options.clock),
            inbox,
            progress,
            backlog: VecDeque::new(),
            open_bytes: 0,
            no_space_alarm: no_space_alarm(options.machine.member_id),
            batch_bytes_max: options.batch_bytes_max,
            tick: options.tick,
            next_tick: Instant::default(),
            observing: Observing {
                observer: options.observer,
                clock: options.clock,
                sweep_began: None,
            },
        }
    }

    /// Until it is told to stop, and to the end of what was taken by then.
    pub(crate) fn run(&mut self) {
        loop {
            let arrived = self.arrivals();
            let stop = arrived.stop;
            self.step(arrived);
            if stop {
                break;
            }
        }
        self.finish();
    }

    /// What has come, waiting only when there is nothing to evaluate and
    /// nothing to sweep.
    fn arrivals(&self) -> Arrived {
        let waiting = !self.backlog.is_empty() || self.replica.has_spared();
        let evaluates = waiting && !self.batch_is_full();
        let patience = if evaluates || self.replica.is_sweeping() {
            Duration::ZERO
        } else {
            self.tick
        };
        self.inbox.take(patience)
    }

    fn batch_is_full(&self) -> bool {
        self.open_bytes >= self.batch_bytes_max || self.replica.batch_is_full()
    }

    fn step(&mut self, arrived: Arrived) {
        self.backlog.extend(arrived.proposals);
        self.evaluate();
        let answers = match arrived.persisted {
            Some(Ok(sequence)) => self.replica.persisted(sequence),
            Some(Err(reason)) => return self.fail(reason, arrived.defragment),
            None => Vec::new(),
        };
        // The device first: it works while the answers are given.
        self.append();
        // Whoever has an answer and asks for the status sees what it tells of.
        self.publish();
        answers.into_iter().for_each(Answer::give);
        self.tick();
        for answer in arrived.defragment {
            let _ = answer.send(self.defragment());
        }
        self.publish();
    }

    /// Evaluates as much of the backlog as the open batch holds, behind what
    /// came before it and is to be evaluated again.
    fn evaluate(&mut self) {
        self.replica.propose_spared();
        let (mut commands, mut bytes) = (0, 0);
        while !self.batch_is_full()
            && let Some(proposal) = self.backlog.pop_front()
        {
            let command_bytes = proposal.command.size_bytes();
            self.open_bytes += command_bytes;
            commands += 1;
            bytes += command_bytes;
            let began = self.observing.now();
            let done = self
                .replica
                .propose(&proposal.command, Some(proposal.answer));
            self.observing.evaluated(&proposal.command, done, began);
        }
        if commands > 0 {
            self.inbox.evaluated(commands, bytes);
        }
        self.replica.propose_due();
    }

    /// Seals what is open and hands it to the log, if the device is free.
    /// Where that finds no room, everyone shall see it: the alarm NOSPACE is
    /// raised, as when the quota is used up, until someone disarms it.
    fn append(&mut self) {
        let Some(error) = self.append_open() else {
            return;
        };
        let no_room = refusal(error);
        warn!(reason = %no_room, "writes are refused: raising the alarm NOSPACE");
        self.replica.refused_for_want_of_room(&no_room);
        self.replica.propose(&self.no_space_alarm, None);
        self.replica.propose_spared();
        // Without room for these either, the next refusal tries again.
        if let Some(error) = self.append_open() {
            self.replica.refused(&refusal(error));
        }
    }

    /// Where there is no room for the open batch it stays sealed, and what the
    /// replica is told is the caller's part.
    fn append_open(&mut self) -> Option<engine::Error> {
        let Some(batch) = self.replica.seal() else {
            self.forget_open_bytes();
            return None;
        };
        let outcome = self.engine.append(batch);
        self.open_bytes = 0;
        match outcome {
            Ok(appended) => {
                self.replica.appended(appended);
                None
            }
            Err(error) if no_room(&error) => Some(error),
            Err(error) => {
                self.replica.refused(&refusal(error));
                None
            }
        }
    }

    /// Nothing open, nothing counted: answers that wrote nothing have gone.
    fn forget_open_bytes(&mut self) {
        if self.replica.is_idle() {
            self.open_bytes = 0;
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if now >= self.next_tick {
            self.next_tick = now + self.tick;
            self.replica.tick(now);
            self.append();
        }
        self.observing.sweeping(self.replica.is_sweeping());
        if let Err(error) = self.replica.machine().maintain() {
            // Checkpoint and reclaim can wait: nothing acknowledged depends on them.
            warn!(%error, "upkeep of the log failed; it will be tried again");
        }
        self.observing.sweeping(self.replica.is_sweeping());
        self.replica.swept().into_iter().for_each(Answer::give);
    }

    fn defragment(&mut self) -> Result<(), Error> {
        Ok(self.replica.machine().defragment()?)
    }

    pub(crate) fn publish(&self) {
        let order = Ordering::Relaxed;
        self.progress.term.store(self.replica.term(), order);
        self.progress.index.store(self.replica.index(), order);
        self.progress
            .applied_index
            .store(self.replica.applied_index(), order);
        self.progress
            .leases_expired
            .store(self.replica.leases_expired(), order);
    }

    fn fail(&mut self, reason: String, defragment: Vec<Defragmented>) {
        error!(
            reason,
            "the log has failed; no write is accepted until the next start"
        );
        let error = Error::LogFailed { reason };
        self.inbox.close(error.clone());
        self.replica.fail(&error);
        for proposal in self.backlog.drain(..) {
            self.inbox.evaluated(1, proposal.command.size_bytes());
            let _ = proposal.answer.send(Err(error.clone()));
        }
        for answer in defragment {
            let _ = answer.send(Err(error.clone()));
        }
    }

    /// Lets what was taken come to its end, then closes the log.
    fn finish(&mut self) {
        while !(self.replica.is_idle() && self.backlog.is_empty()) {
            let arrived = self.inbox.take(self.tick);
            self.step(arrived);
        }
        self.replica
            .never_swept()
            .into_iter()
            .for_each(Answer::give);
        if let Err(error) = self.replica.machine().close() {
            error!(%error, "closing the log");
        }
    }
}

fn refusal(error: engine::Error) -> Error {
    Error::Refused(revisions::Error::from(error))
}

fn no_room(error: &engine::Error) -> bool {
    use engine::Error;
    matches!(error, Error::NoSpace { .. } | Error::MemoryLimit { .. })
}

fn no_space_alarm(member_id: u64) -> Command {
    Command::Alarm(AlarmRequest {
        action: AlarmAction::Activate.into(),
        member_id,
        alarm: AlarmType::Nospace.into(),
    })
}

#[cfg(test)]
mod tests;
