//! How long a system takes to serve, and whether every member catches up.
//!
//! ```text
//!   a step ends ─► one client at each voter that is up puts, again and again
//!                  └─ the first acknowledgement: the cluster serves
//!   check       ─► put ─► each member that is up shows it to a serializable get,
//!                         all voters list the same members,
//!                         each voter takes a put and a linearizable get
//! ```

use std::{collections::BTreeSet, fmt, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tonic::Status;

use super::{
    model::Model,
    step::{NAMES, Slot},
    system::System,
};
use crate::{process::Outcome, request::Client};

/// A system that does not serve by then has failed.
pub const SERVE_MAX: Duration = Duration::from_secs(10);
/// A member that has not caught up by then has failed.
const CATCH_UP_MAX: Duration = Duration::from_secs(20);
/// A client gives up a request after this, and sends the next one.
const TRY_TIME: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(20);
/// Ended processes are noticed so often.
const LOOK: Duration = Duration::from_millis(100);

/// What followed a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It was not waited for: no majority is up, or no member was removed.
    Unasked,
    After(Duration),
    /// Not in time.
    Never,
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Unasked => write!(formatter, "-"),
            Wait::After(time) => write!(formatter, "{:.3} s", time.as_secs_f64()),
            Wait::Never => write!(formatter, "NOT"),
        }
    }
}

impl System {
    /// Waits until a put is acknowledged.
    pub async fn time_to_serve(&mut self, model: &Model) -> Outcome<Wait> {
        if !model.has_majority() {
            return Ok(Wait::Unasked);
        }
        let began = Instant::now();
        let mut clients = JoinSet::new();
        for slot in model.voters_up() {
            let key = self.next_key();
            clients.spawn(put_again_and_again(self.client(slot, TRY_TIME), key));
        }
        while began.elapsed() < SERVE_MAX {
            if let Ok(Some(served)) = timeout(LOOK, clients.join_next()).await {
                self.acknowledged.push(served?);
                return Ok(Wait::After(began.elapsed()));
            }
            self.look_after(model)?;
        }
        Ok(Wait::Never)
    }

    /// The time until every member that is up has caught up. The error is what one lacks.
    pub async fn catch_up(&mut self, model: &Model) -> Outcome<Duration> {
        let began = Instant::now();
        let put = async |system: &mut System| {
            for slot in model.voters_up() {
                if system.takes_put(slot).await.is_ok() {
                    return Ok(());
                }
            }
            Err("no voter takes one".to_owned())
        };
        self.wait_for("a put", began, model, put).await?;
        for slot in model.slots(|it| it.up()) {
            let shows = async |it: &mut System| it.shows_all(slot, true).await;
            self.wait_for("its newest", began, model, shows).await?;
            if !model.voters_up().contains(&slot) {
                continue;
            }
            let lists = async |it: &mut System| it.lists_members(slot, model).await;
            self.wait_for("its members", began, model, lists).await?;
            let takes = async |it: &mut System| it.takes_put(slot).await;
            self.wait_for("a put", began, model, takes).await?;
            let reads = async |it: &mut System| it.shows_all(slot, false).await;
            self.wait_for("a linearizable read", began, model, reads)
                .await?;
        }
        Ok(began.elapsed())
    }

    /// Looks until nothing is lacking.
    async fn wait_for(
        &mut self,
        what: &str,
        began: Instant,
        model: &Model,
        look: impl AsyncFn(&mut System) -> Result<(), String>,
    ) -> Outcome {
        loop {
            self.look_after(model)?;
            let Err(lack) = look(self).await else {
                return Ok(());
            };
            if began.elapsed() > CATCH_UP_MAX {
                let seconds = CATCH_UP_MAX.as_secs();
                return Err(format!("{what} after {seconds} s: {lack}").into());
            }
            sleep(PAUSE).await;
        }
    }

    async fn takes_put(&mut self, slot: Slot) -> Result<(), String> {
        let key = self.next_key();
        let put = self.client(slot, 4 * TRY_TIME).put(&key).await;
        put.map_err(|status| words(slot, &status))?;
        self.acknowledged.push(key);
        Ok(())
    }

    /// Everything that was acknowledged is there.
    async fn shows_all(&self, slot: Slot, serializable: bool) -> Result<(), String> {
        let keys = self.client(slot, 4 * TRY_TIME).keys(serializable).await;
        let keys = keys.map_err(|status| words(slot, &status))?;
        let keys: BTreeSet<&String> = keys.iter().collect();
        let missing = self.acknowledged.iter().filter(|key| !keys.contains(key));
        let missing: Vec<&String> = missing.collect();
        match missing.last() {
            None => Ok(()),
            Some(last) => Err(format!(
                "{}: {} of {} acknowledged keys are missing, {last} among them",
                NAMES[slot],
                missing.len(),
                self.acknowledged.len()
            )),
        }
    }

    async fn lists_members(&self, slot: Slot, model: &Model) -> Result<(), String> {
        let listed = self.client(slot, 4 * TRY_TIME).members().await;
        let listed = listed.map_err(|status| words(slot, &status))?;
        let up = model.slots(|it| it.up());
        let members = model.slots(|_| true).into_iter().map(|slot| {
            let member = model.member(slot).expect("the slot has a member");
            // One that was killed soon after its first start may have told no name.
            let name = if member.up() { NAMES[slot] } else { "" };
            let urls = vec![self.url(member.address)];
            (self.places[slot].id, name.to_owned(), urls, !member.voter)
        });
        let is_up = |id: u64| up.iter().any(|slot| self.places[*slot].id == id);
        let listed = listed.into_iter().map(|it| {
            let name = Some(it.name).filter(|_| is_up(it.id));
            (
                it.id,
                name.unwrap_or_default(),
                it.peer_ur_ls,
                it.is_learner,
            )
        });
        let (wanted, found): (BTreeSet<_>, BTreeSet<_>) = (members.collect(), listed.collect());
        match wanted == found {
            true => Ok(()),
            false => Err(format!(
                "{} lists {found:x?} instead of {wanted:x?}",
                NAMES[slot]
            )),
        }
    }
}

fn words(slot: Slot, status: &Status) -> String {
    let (name, code) = (NAMES[slot], status.code());
    format!("{name}: {code:?}: {}", status.message())
}

async fn put_again_and_again(client: Client, key: String) -> String {
    while client.put(&key).await.is_err() {
        sleep(PAUSE).await;
    }
    key
}
