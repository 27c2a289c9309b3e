//! A call on one system, repeated as a client repeats it.
//!
//! A client that got no answer to a change of the members looks at the member list
//! before it asks again: the change may have been done. It asks until the answer
//! is the one that the model expects, or its patience ends.

use std::{fmt, time::Duration};

use etcd_api::etcdserverpb::Member as Listed;
use tokio::time::{Instant, sleep};
use tonic::Status;

use super::{
    answer::{Answer, Expected},
    model::Model,
    step::{Address, At, Call, Role, Slot, Target},
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
}

impl fmt::Display for Performed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answer, seconds) = (self.answer.words(), self.took.as_secs_f64());
        let requests = self.requests;
        write!(formatter, "{answer} ({requests} requests, {seconds:.1} s)")
    }
}

impl System {
    /// Asks until the answer settles the matter; `again`: it was asked for before, and the
    /// answer was open.
    pub async fn perform(
        &mut self,
        (call, at): (Call, At),
        again: bool,
        model: &Model,
    ) -> Outcome<Performed> {
        let began = Instant::now();
        let expected = model.expects_once_more(call, at, again);
        let patience = match expected {
            Expected::Done => PATIENCE,
            _ => REFUSAL_PATIENCE,
        };
        let (mut requests, mut in_doubt) = (0, again);
        loop {
            self.look_after(model)?;
            requests += 1;
            let mut answer = self.ask_once(call, at, model).await;
            let hopes = expected == Expected::Done && call.changes_members();
            in_doubt |= hopes && matches!(answer, Answer::Unavailable(_));
            let may_be_done = in_doubt && answer != Answer::Done && model.has_majority();
            if may_be_done && self.is_done(call, model).await == Some(true) {
                answer = Answer::Done;
            }
            if expected.is_settled_by(&answer) || began.elapsed() > patience {
                let took = began.elapsed();
                return Ok(Performed {
                    answer,
                    requests,
                    took,
                });
            }
            sleep(PAUSE).await;
        }
    }

    async fn ask_once(&mut self, call: Call, at: At, model: &Model) -> Answer {
        match self.find(at, model).await {
            Some(slot) => match self.ask(slot, call, model).await {
                Ok(()) => Answer::Done,
                Err(status) => Answer::of(&status),
            },
            None => Answer::Unavailable("no member is up".to_owned()),
        }
    }

    /// Makes a call at a member, with this system's ids and addresses.
    async fn ask(&mut self, slot: Slot, call: Call, model: &Model) -> Result<(), Status> {
        let url_of = |slot: Slot| {
            let member = model.member(slot).expect("the slot has a member");
            self.url(member.address)
        };
        let id = |target: Target| target.map_or(UNKNOWN_ID, |slot| self.places[slot].id);
        let client = self.client(slot, CALL_TIME);
        match call {
            Call::Put => {
                let key = self.next_key();
                client.put(&key).await?;
                self.acknowledged.push(key);
                Ok(())
            }
            Call::Get => client.keys(false).await.map(drop),
            Call::List => client.members().await.map(drop),
            Call::Add(slot, role, address) => {
                let is_learner = role == Role::Learner;
                self.places[slot].id = client.add(self.url(address), is_learner).await?;
                Ok(())
            }
            Call::AddTaken(of) => client.add(url_of(of), true).await.map(drop),
            Call::Update(target, address) => client.update(id(target), self.url(address)).await,
            Call::UpdateTaken(slot, of) => client.update(id(Some(slot)), url_of(of)).await,
            Call::Promote(target) => client.promote(id(target)).await,
            Call::Remove(_) | Call::RemoveLeader(_) => client.remove(id(call.removes())).await,
            Call::MoveLeader(to) => {
                let client = self.client(slot, MOVE_LEADER_TIME);
                client.move_leader(id(Some(to))).await
            }
        }
    }

    /// The slot of the member to ask.
    async fn find(&mut self, at: At, model: &Model) -> Option<Slot> {
        if let At::Slot(slot) = at {
            return Some(slot);
        }
        // Without a majority no member leads.
        let leader = match model.has_majority() {
            true => self.leader(model).await,
            false => None,
        };
        let voters = model.voters_up();
        let first = voters.first().copied();
        let mut others = voters.iter().copied().filter(|it| Some(*it) != leader);
        match at {
            At::Leader => leader.or(first),
            _ => others.next().or(first),
        }
    }

    /// The slot of the leader, once a member names itself.
    async fn leader(&mut self, model: &Model) -> Option<Slot> {
        let began = Instant::now();
        while began.elapsed() < LEADER_PATIENCE {
            for slot in model.voters_up() {
                let leader = self.client(slot, LOOK_TIME).leader().await;
                if leader.is_ok_and(|id| id == self.places[slot].id) {
                    return Some(slot);
                }
            }
            self.look_after(model).ok()?;
            sleep(PAUSE).await;
        }
        None
    }

    /// Tries for a while to move the lead to a member.
    pub async fn make_lead(&mut self, slot: Slot, model: &Model) {
        let began = Instant::now();
        while began.elapsed() < LEADER_PATIENCE {
            match self.leader(model).await {
                Some(leader) if leader == slot => return,
                Some(leader) => {
                    let client = self.client(leader, LOOK_TIME);
                    // The next look shows whether it helped.
                    drop(client.move_leader(self.places[slot].id).await);
                }
                None => {}
            }
            sleep(PAUSE).await;
        }
    }

    /// The members as the cluster knows them now; `None`: it could not be asked.
    async fn list(&self, model: &Model) -> Option<Vec<Listed>> {
        for slot in model.voters_up() {
            if let Ok(members) = self.client(slot, LOOK_TIME).members().await {
                return Some(members);
            }
        }
        None
    }

    /// Whether the member list shows the change.
    async fn is_done(&mut self, call: Call, model: &Model) -> Option<bool> {
        let listed = self.list(model).await?;
        let with_url = |address: Address| {
            let url = self.url(address);
            listed.iter().find(|it| it.peer_ur_ls.contains(&url))
        };
        let with_id = |slot: Slot| listed.iter().find(|it| it.id == self.places[slot].id);
        Some(match call {
            Call::Add(slot, _, address) => {
                let added = with_url(address).map(|it| it.id);
                self.places[slot].id = added.unwrap_or(self.places[slot].id);
                added.is_some()
            }
            Call::Update(_, address) => with_url(address).is_some(),
            Call::Promote(Some(slot)) => with_id(slot).is_some_and(|it| !it.is_learner),
            Call::Remove(Some(slot)) | Call::RemoveLeader(slot) => with_id(slot).is_none(),
            _ => false,
        })
    }

    /// Learns the ids of the members that begin the cluster.
    pub async fn learn_ids(&mut self, model: &Model) -> Outcome {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for listed in self.list(model).await.unwrap_or_default() {
                let mut places = self.places.iter_mut();
                if let Some(place) = places.find(|it| it.name() == listed.name) {
                    place.id = listed.id;
                }
            }
            let members = model.slots(|_| true);
            if members.iter().all(|slot| self.places[*slot].id != 0) {
                return Ok(());
            }
            self.look_after(model)?;
            sleep(PAUSE).await;
        }
        Err("the members that begin do not come to list each other".into())
    }
}
