//! A client with requests that are recorded in the history.

use std::{sync::Arc, time::Duration};

use environment::randomness::Random;
use history::{Operation, Outcome as Known, Request};
use tonic::transport::Channel;

use crate::{
    client::{self, Connection},
    member::{Member, Standing},
    recorder::Recorder,
};

/// A client, which is connected to one member at a time.
pub struct Caller {
    pub client: u32,
    pub members: Vec<Arc<Member>>,
    pub recorder: Arc<Recorder>,
    pub random: Random,
    /// The only member that it asks; `None`: any.
    only: Option<usize>,
    /// It opens a new connection once in this many calls.
    calls_each: u64,
    /// Number of a member, and the connection to it.
    connection: Option<(usize, Connection)>,
}

impl Caller {
    pub fn new(
        client: u32,
        calls_each: u64,
        members: &[Arc<Member>],
        recorder: &Arc<Recorder>,
        seed: u64,
    ) -> Caller {
        Caller {
            client,
            members: members.to_vec(),
            recorder: Arc::clone(recorder),
            random: Random::from_seed(seed),
            only: None,
            calls_each,
            connection: None,
        }
    }

    /// A client that asks one member only.
    pub fn to_one(
        client: u32,
        place: usize,
        members: &[Arc<Member>],
        recorder: &Arc<Recorder>,
    ) -> Caller {
        Caller {
            only: Some(place),
            ..Caller::new(client, u64::MAX, members, recorder, client.into())
        }
    }

    /// Sends a request once, waits no longer than `patience`, and records the outcome.
    /// Returns `None` if there was no connection, so that nothing was sent.
    pub async fn call(&mut self, request: Request, patience: Duration) -> Option<Operation> {
        if self.connection.is_none() || self.random.chance(1, self.calls_each) {
            let dialed = self.dial().await;
            self.connection = dialed.map(|(member, it)| (member, Connection::over(it)));
        }
        let (member, connection) = self.connection.as_mut()?;
        let member = *member;
        let life = self.members[member].life();
        let called = self.recorder.moment();
        let outcome = connection.ask(&request, patience).await;
        let operation = Operation {
            client: self.client,
            member: member as u32,
            life: (life == self.members[member].life()).then_some(life),
            called,
            returned: self.recorder.moment(),
            request,
            outcome,
        };
        // Half of the failed calls make the client change to another member.
        if !matches!(operation.outcome, Known::Done(_)) && self.random.chance(1, 2) {
            self.connection = None;
        }
        self.recorder.record(operation.clone());
        Some(operation)
    }

    /// Opens a new connection to a member; `None` if the member does not accept one.
    pub async fn dial(&mut self) -> Option<(usize, Channel)> {
        let member = self.only.or_else(|| self.any_member())?;
        self.recorder.count("connection", "opened");
        match client::dial(self.members[member].url()).await {
            Ok(channel) => Some((member, channel)),
            Err(error) => {
                self.recorder.complain("connection", error);
                None
            }
        }
    }

    /// A random present member, as a client finds it in the member list.
    fn any_member(&mut self) -> Option<usize> {
        let members = self.members.iter().enumerate();
        let present = members.filter(|(_, it)| it.standing() != Standing::Absent);
        let present: Vec<usize> = present.map(|(place, _)| place).collect();
        (!present.is_empty()).then(|| *self.random.pick(&present))
    }
}
