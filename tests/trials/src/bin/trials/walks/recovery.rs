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

use etcd_api::etcdserverpb::Member as Listed;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{model::Model, system::System};
use crate::{
    process::Outcome,
    request::{Reply, Request},
};

/// A system that does not serve by then has failed.
pub const SERVE_MAX: Duration = Duration::from_secs(10);
/// A member that has not caught up by then has failed.
pub const CATCH_UP_MAX: Duration = Duration::from_secs(20);
/// A client gives up a request after this, and sends the next one.
const TRY_TIME: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(20);
/// Ended processes are noticed so often.
const LOOK: Duration = Duration::from_millis(100);

/// What followed a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// No majority is up.
    Unasked,
    After(Duration),
    /// Not within [`SERVE_MAX`].
    Never,
}

impl fmt::Display for Serving {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Serving::Unasked => write!(formatter, "-"),
            Serving::After(time) => write!(formatter, "{:.3} s", time.as_secs_f64()),
            Serving::Never => write!(formatter, "NOT"),
        }
    }
}

/// The parts of a check, in their order.
#[derive(Clone, Copy, Debug)]
enum Part {
    ShowsNewest,
    ListsMembers,
    TakesPut,
    ReadsLinearizably,
}

impl System {
    /// Waits until a put is acknowledged.
    pub async fn time_to_serve(&mut self, model: &Model) -> Outcome<Serving> {
        if !model.has_majority() {
            return Ok(Serving::Unasked);
        }
        let began = Instant::now();
        let mut clients = JoinSet::new();
        for slot in model.voters_up() {
            let key = self.next_key();
            clients.spawn(put_again_and_again(self.places[slot].client.clone(), key));
        }
        while began.elapsed() < SERVE_MAX {
            if let Ok(Some(served)) = timeout(LOOK, clients.join_next()).await {
                self.acknowledged.push(served?);
                return Ok(Serving::After(began.elapsed()));
            }
            self.look_after(model)?;
        }
        Ok(Serving::Never)
    }

    /// The time until every member that is up has caught up; or what it lacks.
    pub async fn catch_up(&mut self, model: &Model) -> Outcome<Result<Duration, String>> {
        let began = Instant::now();
        let key = self.next_key();
        if let Err(fault) = self.put_somewhere(key, began, model).await? {
            return Ok(Err(fault));
        }
        for slot in model.slots(|it| it.up()) {
            let votes = model.member(slot).is_some_and(|it| it.voter);
            let parts: &[Part] = match votes {
                true => &[
                    Part::ShowsNewest,
                    Part::ListsMembers,
                    Part::TakesPut,
                    Part::ReadsLinearizably,
                ],
                false => &[Part::ShowsNewest],
            };
            for part in parts {
                if let Err(fault) = self.wait_for(*part, slot, began, model).await? {
                    return Ok(Err(fault));
                }
            }
        }
        Ok(Ok(began.elapsed()))
    }

    async fn put_somewhere(
        &mut self,
        key: String,
        began: Instant,
        model: &Model,
    ) -> Outcome<Result<(), String>> {
        while began.elapsed() < CATCH_UP_MAX {
            self.look_after(model)?;
            for slot in model.voters_up() {
                let request = Request::Put(key.clone());
                let sent = request.send(&self.places[slot].client, TRY_TIME).await;
                if sent.is_ok() {
                    self.acknowledged.push(key);
                    return Ok(Ok(()));
                }
            }
            sleep(PAUSE).await;
        }
        let seconds = CATCH_UP_MAX.as_secs();
        Ok(Err(format!("no voter took a put in {seconds} s")))
    }

    async fn wait_for(
        &mut self,
        part: Part,
        slot: usize,
        began: Instant,
        model: &Model,
    ) -> Outcome<Result<(), String>> {
        loop {
            self.look_after(model)?;
            let Err(lack) = self.look_for(part, slot, model).await else {
                return Ok(Ok(()));
            };
            if began.elapsed() > CATCH_UP_MAX {
                let name = self.places[slot].name;
                let seconds = CATCH_UP_MAX.as_secs();
                return Ok(Err(format!("{name} after {seconds} s: {part:?}: {lack}")));
            }
            sleep(PAUSE).await;
        }
    }

    /// One look at one member; what it lacks.
    async fn look_for(&mut self, part: Part, slot: usize, model: &Model) -> Result<(), String> {
        let address = self.places[slot].client.clone();
        let send = async |request: Request| {
            let reply = request.send(&address, 4 * TRY_TIME).await;
            reply.map_err(|status| format!("{:?}: {}", status.code(), status.message()))
        };
        match part {
            Part::ShowsNewest => self.shows_all(send(Request::Read { serializable: true }).await?),
            Part::ReadsLinearizably => {
                let serializable = false;
                self.shows_all(send(Request::Read { serializable }).await?)
            }
            Part::ListsMembers => match send(Request::List { linearizable: true }).await? {
                Reply::Members(listed) => self.lists_members(&listed, model),
                other => Err(format!("{other:?} is no list of members")),
            },
            Part::TakesPut => {
                let key = self.next_key();
                send(Request::Put(key.clone())).await?;
                self.acknowledged.push(key);
                Ok(())
            }
        }
    }

    /// Everything that was acknowledged is there.
    fn shows_all(&self, reply: Reply) -> Result<(), String> {
        let Reply::Keys(keys) = reply else {
            return Err(format!("{reply:?} is no answer to a read"));
        };
        let keys: BTreeSet<&String> = keys.iter().collect();
        let missing = self.acknowledged.iter().filter(|key| !keys.contains(key));
        let missing: Vec<&String> = missing.collect();
        match missing.last() {
            None => Ok(()),
            Some(last) => Err(format!(
                "{} of {} acknowledged keys are missing, {last} among them",
                missing.len(),
                self.acknowledged.len()
            )),
        }
    }

    fn lists_members(&self, listed: &[Listed], model: &Model) -> Result<(), String> {
        let members = model.slots(|_| true).into_iter().map(|slot| {
            let member = model.member(slot).expect("the slot has a member");
            let place = &self.places[slot];
            // One that was killed soon after its first start may have told no name.
            let name = if member.up() { place.name } else { "" };
            let url = self.url(member.address);
            (place.id, name.to_owned(), vec![url], !member.voter)
        });
        let is_up = |id: u64| {
            let mut slots = model.slots(|it| it.up()).into_iter();
            slots.any(|slot| self.places[slot].id == id)
        };
        let listed = listed.iter().map(|it| {
            let name = if is_up(it.id) { it.name.as_str() } else { "" };
            (it.id, name.to_owned(), it.peer_ur_ls.clone(), it.is_learner)
        });
        let (wanted, found): (BTreeSet<_>, BTreeSet<_>) = (members.collect(), listed.collect());
        match wanted == found {
            true => Ok(()),
            false => Err(format!("it lists {found:x?} instead of {wanted:x?}")),
        }
    }
}

async fn put_again_and_again(address: String, key: String) -> String {
    loop {
        let request = Request::Put(key.clone());
        if request.send(&address, TRY_TIME).await.is_ok() {
            return key;
        }
        sleep(PAUSE).await;
    }
}
