//! A call on one system, repeated as a client repeats it.
//!
//! A client that got no answer to a change of the members looks at the member list
//! before it asks again: the change may have been done. It asks until the answer
//! is the one that the model expects, or its patience ends.

use std::time::Duration;

use etcd_api::etcdserverpb::Member as Listed;
use tokio::time::{Instant, sleep};

use super::{
    answer::{Answer, Expected},
    model::Model,
    request::{Reply, Request},
    step::{At, Call, SLOTS, Target},
    system::System,
};
use crate::process::Outcome;

/// A server gives up after 5 s and two election timeouts.
const CALL_TIME: Duration = Duration::from_secs(9);
/// etcd tries to move the lead for as long as its client waits.
const MOVE_LEADER_TIME: Duration = Duration::from_secs(4);
/// Looks at a leader's name or a list are cut off earlier, and repeated.
const LOOK_TIME: Duration = Duration::from_secs(2);
/// A member has been connected for 5 s before it counts as healthy.
const PATIENCE: Duration = Duration::from_secs(20);
/// A refusal comes sooner.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(6);
const LEADER_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);
/// An id that no member has.
const UNKNOWN_ID: u64 = 0x1234_5678_9abc_def0;

/// What came of a call, and of how many requests.
#[derive(Clone, Debug)]
pub struct Performed {
    pub answer: Answer,
    pub requests: u32,
    pub took: Duration,
    /// Of a removed member whose process ran.
    pub departure: Option<Departure>,
}

impl System {
    /// Asks until the answer settles the matter. `in_doubt`: it was asked for before,
    /// and the answer was open.
    pub async fn perform(
        &mut self,
        (call, at): (Call, At),
        expected: Expected,
        mut in_doubt: bool,
        model: &Model,
    ) -> Outcome<Performed> {
        let began = Instant::now();
        let patience = match expected {
            Expected::Done => PATIENCE,
            _ => REFUSAL_PATIENCE,
        };
        self.prepare(call)?;
        let mut requests = 0;
        loop {
            self.look_after(model)?;
            requests += 1;
            let mut answer = self.ask_once(call, at, model).await;
            in_doubt |= call.changes_members() && matches!(answer, Answer::Unavailable(_));
            let may_be_done = in_doubt && answer != Answer::Done && model.has_majority();
            if may_be_done && self.is_done(call, model).await == Some(true) {
                answer = Answer::Done;
            }
            if expected.is_settled_by(&answer) || began.elapsed() > patience {
                let took = began.elapsed();
                let departure = match &answer {
                    Answer::Done => self.departure(call).await?,
                    _ => None,
                };
                self.leaving = None;
                return Ok(Performed {
                    answer,
                    requests,
                    took,
                    departure,
                });
            }
            sleep(PAUSE).await;
        }
    }

    /// Chooses the address that a change brings, once for all its requests; a member
    /// that is to be removed may end from now on.
    fn prepare(&mut self, call: Call) -> Outcome {
        self.leaving = match call {
            Call::Remove {
                target: Target::Slot(slot),
                ..
            } => Some(slot),
            _ => None,
        };
        if let Call::Add { slot, .. } | Call::Update(Target::Slot(slot)) = call
            && self.places[slot].proposed.is_none()
        {
            self.places[slot].proposed = Some(self.ports.address()?);
        }
        Ok(())
    }

    async fn ask_once(&mut self, call: Call, at: At, model: &Model) -> Answer {
        let Some(slot) = self.find(at, model).await else {
            return Answer::Unavailable("no member is up".to_owned());
        };
        let (request, patience) = (self.request(call), patience(call));
        let key = match &request {
            Request::Put(key) => Some(key.clone()),
            _ => None,
        };
        match request.send(&self.places[slot].client, patience).await {
            Ok(reply) => {
                self.acknowledged.extend(key);
                if let (Call::Add { slot, .. }, Reply::Added(id)) = (call, reply) {
                    self.places[slot].id = id;
                }
                Answer::Done
            }
            Err(status) => Answer::of(&status),
        }
    }

    /// The request for a call, with this system's ids and addresses.
    fn request(&mut self, call: Call) -> Request {
        let proposed = |slot: usize| self.places[slot].proposed.clone();
        let url = |address: Option<String>| {
            format!("http://{}", address.expect("an address is proposed first"))
        };
        let id = |target| match target {
            Target::Slot(slot) => self.places[slot].id,
            Target::Unknown => UNKNOWN_ID,
        };
        match call {
            Call::Put => Request::Put(self.next_key()),
            Call::Get => Request::Read {
                serializable: false,
            },
            Call::List => Request::List { linearizable: true },
            Call::Add { slot, learner } => Request::Add {
                peer_url: url(proposed(slot)),
                learner,
            },
            Call::AddTaken { of } => Request::Add {
                peer_url: url(Some(self.places[of].peer.clone())),
                learner: true,
            },
            Call::Update(target) => Request::Update {
                id: id(target),
                peer_url: match target {
                    Target::Slot(slot) => url(proposed(slot)),
                    Target::Unknown => "http://127.0.0.1:9".to_owned(),
                },
            },
            Call::UpdateTaken { slot, of } => Request::Update {
                id: id(Target::Slot(slot)),
                peer_url: url(Some(self.places[of].peer.clone())),
            },
            Call::Promote(target) => Request::Promote(id(target)),
            Call::Remove { target, .. } => Request::Remove(id(target)),
            Call::MoveLeader { to } => Request::MoveLeader(id(Target::Slot(to))),
        }
    }

    /// The slot of the member to ask.
    async fn find(&mut self, at: At, model: &Model) -> Option<usize> {
        let voters = model.voters_up();
        let first = voters.first().copied();
        if let At::Slot(slot) = at {
            return Some(slot);
        }
        // Without a majority no member leads.
        let leader = match model.has_majority() {
            true => self.leader(model).await,
            false => None,
        };
        match at {
            At::Leader => leader.or(first),
            _ => {
                let mut others = voters.into_iter().filter(|it| Some(*it) != leader);
                others.next().or(first)
            }
        }
    }

    /// The slot of the leader, once all members that are up name the same.
    pub async fn leader(&mut self, model: &Model) -> Option<usize> {
        let began = Instant::now();
        while began.elapsed() < LEADER_PATIENCE {
            if let Some(leader) = self.leader_now(model).await {
                return Some(leader);
            }
            self.look_after(model).ok()?;
            sleep(PAUSE).await;
        }
        None
    }

    /// The leader that a member names which is that leader itself.
    async fn leader_now(&self, model: &Model) -> Option<usize> {
        for slot in model.voters_up() {
            let place = &self.places[slot];
            let reply = Request::Leader.send(&place.client, LOOK_TIME).await;
            if matches!(reply, Ok(Reply::Leader(id)) if id == place.id) {
                return Some(slot);
            }
        }
        None
    }

    /// Moves the lead to a member; false if it did not come there in time.
    pub async fn make_lead(&mut self, slot: usize, model: &Model) -> bool {
        let began = Instant::now();
        while began.elapsed() < LEADER_PATIENCE {
            match self.leader(model).await {
                Some(leader) if leader == slot => return true,
                Some(leader) => {
                    let request = Request::MoveLeader(self.places[slot].id);
                    let address = &self.places[leader].client;
                    // The next look shows whether it helped.
                    drop(request.send(address, LOOK_TIME).await);
                }
                None => {}
            }
            sleep(PAUSE).await;
        }
        false
    }

    /// The members as the cluster knows them now; `None`: it could not be asked.
    pub async fn list(&self, model: &Model) -> Option<Vec<Listed>> {
        for slot in model.voters_up() {
            let request = Request::List { linearizable: true };
            let reply = request.send(&self.places[slot].client, LOOK_TIME).await;
            if let Ok(Reply::Members(members)) = reply {
                return Some(members);
            }
        }
        None
    }

    /// Whether the member list shows the change.
    async fn is_done(&self, call: Call, model: &Model) -> Option<bool> {
        let listed = self.list(model).await?;
        let has_url = |slot: usize| {
            let url = self.places[slot].proposed.as_ref();
            url.is_some_and(|url| find_url(&listed, url).is_some())
        };
        let find = |slot: usize| listed.iter().find(|it| it.id == self.places[slot].id);
        Some(match call {
            Call::Add { slot, .. } | Call::Update(Target::Slot(slot)) => has_url(slot),
            Call::Promote(Target::Slot(slot)) => find(slot).is_some_and(|it| !it.is_learner),
            Call::Remove {
                target: Target::Slot(slot),
                ..
            } => find(slot).is_none(),
            _ => false,
        })
    }

    /// Sees a removed member off.
    async fn departure(&mut self, call: Call) -> Outcome<Option<Departure>> {
        let Call::Remove {
            target: Target::Slot(slot),
            ..
        } = call
        else {
            return Ok(None);
        };
        let had_process = self.places[slot].has_process();
        let ended = self.see_off(slot).await?;
        Ok(had_process.then_some(Departure { slot, ended }))
    }

    /// Takes over what a change that was done has brought.
    pub async fn adopt(&mut self, call: Call, model: &Model) -> Outcome {
        if let Call::Add { slot, .. } | Call::Update(Target::Slot(slot)) = call {
            let address = self.places[slot].proposed.take();
            self.places[slot].peer = address.expect("an address is proposed first");
            // An addition that was found in the member list has brought no id.
            if self.places[slot].id == 0 {
                self.learn_id(slot, model).await?;
            }
        }
        Ok(())
    }

    async fn learn_id(&mut self, slot: usize, model: &Model) -> Outcome {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let listed = self.list(model).await.unwrap_or_default();
            if let Some(member) = find_url(&listed, &self.places[slot].peer) {
                self.places[slot].id = member.id;
                return Ok(());
            }
            self.look_after(model)?;
            sleep(PAUSE).await;
        }
        let name = self.places[slot].name;
        Err(format!("no member list shows the added member {name}").into())
    }

    /// Learns the ids of the members that begin the cluster.
    pub async fn learn_ids(&mut self, model: &Model) -> Outcome {
        for slot in 0..SLOTS {
            if model.member(slot).is_some() {
                self.learn_id(slot, model).await?;
            }
        }
        Ok(())
    }
}

/// A removed member whose process ran.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    pub slot: usize,
    /// `None`: it did not end by itself.
    pub ended: Option<Duration>,
}

fn patience(call: Call) -> Duration {
    match call {
        Call::MoveLeader { .. } => MOVE_LEADER_TIME,
        _ => CALL_TIME,
    }
}

fn find_url<'l>(listed: &'l [Listed], address: &str) -> Option<&'l Listed> {
    let url = format!("http://{address}");
    listed.iter().find(|it| it.peer_ur_ls.contains(&url))
}
