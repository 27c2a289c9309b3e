//! Checks after the healing: all members are up, agree, and take writes.

use std::time::Duration;

use history::{Outcome as Known, Request};
use tokio::time::{Instant, sleep};

use super::trial::Trial;
use crate::{caller::Caller, process::Outcome};

/// A healed cluster that needs longer fails the trial.
const PATIENCE: Duration = Duration::from_secs(60);
const CALL_TIME: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(50);

/// Writes and reads at each member.
pub struct Probe {
    callers: Vec<Caller>,
    number: u64,
}

impl Probe {
    /// Makes one client for each member, numbered from `client`.
    pub fn new(client: u32, trial: &Trial) -> Probe {
        let (members, recorder) = (&trial.members, &trial.recorder);
        let caller = |place| Caller::to_one(client + place as u32, place, members, recorder);
        Probe {
            callers: (0..trial.members.len()).map(caller).collect(),
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
                wait(trial, first, deadline, "takes no write").await?;
            }
        }
        for member in trial.voters() {
            while self.shown(member).await.is_none_or(|it| it < newest) {
                let what = format!("does not come to revision {newest}");
                wait(trial, member, deadline, &what).await?;
            }
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
        let called = self.callers[member].call(put, CALL_TIME).await;
        match called.map(|operation| operation.outcome) {
            Some(Known::Done(answer)) => return Ok(Some(answer.revision)),
            Some(Known::Unknown { reason } | Known::Refused { reason }) => {
                trial.mend(member, &reason).await?;
            }
            None => {}
        }
        Ok(None)
    }

    /// The revision that a member shows without asking the leader.
    async fn shown(&mut self, member: usize) -> Option<i64> {
        let get = Request::Get {
            key: format!("probe/{member}"),
            end: String::new(),
            revision: 0,
            serializable: true,
        };
        let called = self.callers[member].call(get, CALL_TIME).await?;
        called.answer().map(|answer| answer.revision)
    }
}

/// Waits for a moment; an error that says what a member does if the deadline has passed.
async fn wait(trial: &Trial, member: usize, deadline: Instant, what: &str) -> Outcome {
    if Instant::now() < deadline {
        sleep(STEP).await;
        return Ok(());
    }
    let member = &trial.members[member];
    let (seconds, name, words) = (
        PATIENCE.as_secs(),
        &member.name,
        member.server().last_lines(),
    );
    Err(format!("healed for {seconds} s, and member {name} {what}\n{words}").into())
}
