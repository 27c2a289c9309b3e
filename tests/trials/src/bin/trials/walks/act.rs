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
    perform::{Order, Performed},
    place::Process,
    recovery::Serving,
    step::{Call, Step, Target},
    system::System,
};
use crate::process::Outcome;

/// A removed member that is started makes its connections in this time.
const HAUNTING: Duration = Duration::from_millis(500);

/// What a step has shown.
#[derive(Debug)]
pub struct Act {
    /// Of a call.
    pub performed: Option<Performed>,
    pub serving: Serving,
    /// Of a removed member that had a process.
    pub departure: Option<Departure>,
}

/// How a removed member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    After(Duration),
    /// Its process went on, and was killed.
    Never,
}

impl System {
    /// Ends or starts a process.
    pub async fn act(&mut self, step: Step, model: &Model) -> Outcome<Act> {
        let mut leaver = None;
        match step {
            Step::Kill { slot, leading } => {
                if leading && model.has_majority() {
                    self.make_lead(slot, model).await;
                }
                self.places[slot].kill();
            }
            Step::Start { slot } => self.start(slot, model)?,
            Step::Restart { slot, ending } => {
                self.end(slot, ending).await?;
                self.start(slot, model)?;
            }
            Step::Haunt { slot } => {
                leaver = self.start_removed(slot, model)?;
                sleep(HAUNTING).await;
            }
            Step::Call { .. } | Step::Check => unreachable!("{step} is about no process"),
        }
        let mut after = model.clone();
        after.apply(step, true);
        self.follow(None, leaver, &after).await
    }

    /// Makes a call.
    pub async fn call(&mut self, order: Order, model: &Model) -> Outcome<Act> {
        let removed = match order.call {
            Call::Remove {
                target: Target::Slot(slot),
                leading,
            } => {
                if leading && model.has_majority() {
                    self.make_lead(slot, model).await;
                }
                Some(slot)
            }
            _ => None,
        };
        self.leaving = removed;
        let performed = self.perform(order, model).await?;
        self.leaving = None;
        let done = performed.answer == Answer::Done;
        let (call, at) = (order.call, order.at);
        let mut after = model.clone();
        after.apply(Step::Call { call, at }, done);
        let leaver = match removed {
            Some(slot) if done => self.places[slot].release(),
            _ => None,
        };
        self.follow(Some(performed), leaver, &after).await
    }

    async fn follow(
        &mut self,
        performed: Option<Performed>,
        mut leaver: Option<Process>,
        after: &Model,
    ) -> Outcome<Act> {
        let ending = async {
            match &mut leaver {
                Some(process) => process.end().await.map(Some),
                None => Ok(None),
            }
        };
        let (serving, ended) = tokio::join!(self.time_to_serve(after), ending);
        let departure = ended?.map(|ended| match ended {
            Some(time) => Departure::After(time),
            None => Departure::Never,
        });
        Ok(Act {
            performed,
            serving: serving?,
            departure,
        })
    }
}
