//! A whole step on one system: what it does, how long the system then takes to
//! serve, and whether a removed member ends.
//!
//! Each system goes through all of it at its own pace, so that the time to serve
//! begins when the step has ended there.

use std::time::Duration;

use tokio::time::sleep;

use super::{
    answer::Answer,
    model::Model,
    perform::Performed,
    recovery::Wait,
    step::{Ending, Step},
    system::{System, wait_for_end},
};
use crate::process::Outcome;

/// A removed member that is started makes its connections in this time.
const HAUNTING: Duration = Duration::from_millis(500);

/// What a step has shown.
#[derive(Debug)]
pub struct Act {
    /// Of a call.
    pub performed: Option<Performed>,
    /// Until the system served.
    pub serving: Wait,
    /// Until a removed member's process had ended.
    pub departure: Wait,
}

impl System {
    /// Ends or starts a process, or makes a call; `again`: the call was made before, and its
    /// outcome is open.
    pub async fn act(&mut self, step: Step, again: bool, model: &Model) -> Outcome<Act> {
        if let Some(slot) = step.leader()
            && model.has_majority()
        {
            self.make_lead(slot, model).await;
        }
        let (mut performed, mut leaver) = (None, None);
        match step {
            Step::Kill(slot) | Step::KillLeader(slot) => self.end(slot, Ending::Killed).await?,
            Step::Start(slot) => self.start(slot, model)?,
            Step::Restart(slot, ending) => {
                self.end(slot, ending).await?;
                self.start(slot, model)?;
            }
            Step::Haunt(slot) => {
                leaver = self.start_removed(slot, model)?;
                sleep(HAUNTING).await;
            }
            Step::Call(call, at) => {
                self.leaving = call.removes();
                performed = Some(self.perform((call, at), again, model).await?);
                self.leaving = None;
            }
            Step::Check => {}
        }
        let is_done = |it: &Performed| it.answer == Answer::Done;
        let done = performed.as_ref().is_none_or(is_done);
        if let Step::Call(call, _) = step
            && let Some(slot) = call.removes().filter(|_| done)
        {
            leaver = self.release(slot);
        }
        let mut after = model.clone();
        after.apply(step, done);
        let ending = async {
            Ok(match &mut leaver {
                Some(process) => wait_for_end(process)
                    .await?
                    .map_or(Wait::Never, Wait::After),
                None => Wait::Unasked,
            })
        };
        let (serving, departure): (_, Outcome<Wait>) =
            tokio::join!(self.time_to_serve(&after), ending);
        Ok(Act {
            performed,
            serving: serving?,
            departure: departure?,
        })
    }
}
