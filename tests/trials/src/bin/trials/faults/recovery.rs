//! Checks after the healing: all members are up, agree, and take writes.

use std::{sync::Arc, time::Duration};

use environment::randomness::Random;
use history::{Outcome as Known, Request};
use tokio::time::Instant;

use super::{call::Caller, recorder::Recorder, trial::Trial};
use crate::process::Outcome;

/// A healed cluster that needs longer fails the trial.
const PATIENCE: Duration = Duration::from_secs(60);
const CALL_TIME: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(50);

/// Writes and reads at each member.
pub struct Probe {
    callers: Vec<Caller>,
    random: Random,
    number: u64,
}

impl Probe {
    /// Makes one client for each member, numbered from `client`.
    pub fn new(client: u32, trial: &Trial, recorder: &Arc<Recorder>) -> Probe {
        let caller = |(index, member): (usize, &Arc<_>)| {
            Caller::to_one(client + index as u32, index, member, recorder)
        };
        Probe {
            callers: trial.members.iter().enumerate().map(caller).collect(),
            random: Random::from_seed(u64::from(client)),
            number: 0,
        }
    }

    /// Checks that each member takes a write and shows the writes of all. Returns the last
    /// revision.
    pub async fn all_members(&mut self, trial: &Trial) -> Outcome<i64> {
        let deadline = Instant::now() + PATIENCE;
        let mut newest = 0;
        let mut waiting = trial.voters();
        while let Some(&first) = waiting.first() {
            trial.look_after_members()?;
            for member in std::mem::take(&mut waiting) {
                match self.write(trial, member).await? {
                    Some(revision) => newest = newest.max(revision),
                    None => waiting.push(member),
                }
            }
            if !waiting.is_empty() {
                self.patience(trial, first, deadline, "takes no write")?;
                tokio::time::sleep(STEP).await;
            }
        }
        for member in trial.voters() {
            self.wait_for(trial, member, newest, deadline).await?;
        }
        Ok(newest)
    }

    /// Tries one write; returns its revision if it succeeded.
    async fn write(&mut self, trial: &Trial, member: usize) -> Outcome<Option<i64>> {
        self.number += 1;
        let put = Request::Put {
            key: format!("probe/{member}"),
            value: format!("probe {member}.{}.0", self.number),
            lease: 0,
            previous: false,
        };
        let caller = &mut self.callers[member];
        let called = caller.call(put, CALL_TIME, &mut self.random).await;
        match called.map(|operation| operation.outcome) {
            Some(Known::Done(answer)) => return Ok(Some(answer.revision)),
            Some(Known::Unknown { reason } | Known::Refused { reason }) => {
                trial.mend(member, &reason).await?;
            }
            None => {}
        }
        Ok(None)
    }

    async fn wait_for(
        &mut self,
        trial: &Trial,
        member: usize,
        revision: i64,
        deadline: Instant,
    ) -> Outcome {
        loop {
            let get = Request::Get {
                key: format!("probe/{member}"),
                end: String::new(),
                revision: 0,
                serializable: true,
            };
            if self
                .call(member, get)
                .await
                .is_some_and(|it| it >= revision)
            {
                return Ok(());
            }
            let what = format!("does not come to revision {revision}");
            self.patience(trial, member, deadline, &what)?;
            tokio::time::sleep(STEP).await;
        }
    }

    async fn call(&mut self, member: usize, request: Request) -> Option<i64> {
        let caller = &mut self.callers[member];
        let called = caller.call(request, CALL_TIME, &mut self.random).await?;
        called.answer().map(|answer| answer.revision)
    }

    fn patience(&self, trial: &Trial, member: usize, deadline: Instant, what: &str) -> Outcome {
        if Instant::now() < deadline {
            return Ok(());
        }
        let member = &trial.members[member];
        Err(format!(
            "healed for {} s, and member {} {what}\n{}",
            PATIENCE.as_secs(),
            member.name,
            member.last_words()
        )
        .into())
    }
}
