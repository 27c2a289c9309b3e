//! A call on one system, repeated as a client repeats it.
//!
//! A client that got no answer to a change of the members looks at the member list
//! before it asks again: the change may have been done. It asks until the answer
//! is the one that the model expects, or its patience ends.

use std::{fmt, time::Duration};

use etcd_api::etcdserverpb::Member as Listed;
use tokio::time::{Instant, sleep};

use super::{
    answer::{Answer, Expected},
    model::Model,
    step::{Address, At, Call, Target},
    system::System,
};
use crate::{
    process::Outcome,
    request::{Reply, Request},
};

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
        write!(
            formatter,
            "{answer} ({} requests, {seconds:.1} s)",
            self.requests
        )
    }
}

/// A call as the walk wants it made.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub call: Call,
    pub at: At,
    pub expected: Expected,
    /// It was asked for before, and the answer was open.
    pub again: bool,
}

impl System {
    /// Asks until the answer settles the matter.
    pub async fn perform(&mut self, order: Order, model: &Model) -> Outcome<Performed> {
        let Order { call, expected, .. } = order;
        let began = Instant::now();
        let patience = match expected {
            Expected::Done => PATIENCE,
            _ => REFUSAL_PATIENCE,
        };
        let (mut requests, mut in_doubt) = (0, order.again);
        loop {
            self.look_after(model)?;
            requests += 1;
            let mut answer = self.ask_once(call, order.at, model).await;
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
        let Some(slot) = self.find(at, model).await else {
            return Answer::Unavailable("no member is up".to_owned());
        };
        let (request, patience) = (self.request(call, model), patience(call));
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
    fn request(&mut self, call: Call, model: &Model) -> Request {
        let url_of = |slot: usize| {
            let member = model.member(slot).expect("the slot has a member");
            self.url(member.address)
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
            Call::Add {
                learner, address, ..
            } => Request::Add {
                peer_url: self.url(address),
                learner,
            },
            Call::AddTaken { of } => Request::Add {
                peer_url: url_of(of),
                learner: true,
            },
            Call::Update { target, address } => Request::Update {
                id: id(target),
                peer_url: self.url(address),
            },
            Call::UpdateTaken { slot, of } => Request::Update {
                id: id(Target::Slot(slot)),
                peer_url: url_of(of),
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
    async fn is_done(&mut self, call: Call, model: &Model) -> Option<bool> {
        let listed = self.list(model).await?;
        let find_url = |address: Address| {
            let url = self.url(address);
            listed.iter().find(move |it| it.peer_ur_ls.contains(&url))
        };
        let find = |slot: usize| listed.iter().find(|it| it.id == self.places[slot].id);
        Some(match call {
            Call::Add { slot, address, .. } => match find_url(address).map(|it| it.id) {
                Some(id) => {
                    self.places[slot].id = id;
                    true
                }
                None => false,
            },
            Call::Update { address, .. } => find_url(address).is_some(),
            Call::Promote(Target::Slot(slot)) => find(slot).is_some_and(|it| !it.is_learner),
            Call::Remove {
                target: Target::Slot(slot),
                ..
            } => find(slot).is_none(),
            _ => false,
        })
    }

    /// Learns the ids of the members that begin the cluster.
    pub async fn learn_ids(&mut self, model: &Model) -> Outcome {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let listed = self.list(model).await.unwrap_or_default();
            for member in &listed {
                let mut places = self.places.iter_mut();
                if let Some(place) = places.find(|it| it.name == member.name) {
                    place.id = member.id;
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

fn patience(call: Call) -> Duration {
    match call {
        Call::MoveLeader { .. } => MOVE_LEADER_TIME,
        _ => CALL_TIME,
    }
}
