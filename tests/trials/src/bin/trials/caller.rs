//! One request to one member, recorded in the history.

use std::{sync::Arc, time::Duration};

use environment::randomness::Random;
use history::{Operation, Outcome as Known, Request};
use tonic::transport::Channel;

use super::member::{self, Member};
use crate::{client, recorder::Recorder};

/// A client, which is connected to one member at a time.
pub struct Caller {
    client: u32,
    members: Vec<Arc<Member>>,
    recorder: Arc<Recorder>,
    /// Index into `members`, and the connection to it.
    connection: Option<(usize, Channel)>,
    /// Number of the only member in the history, for a client that stays with one.
    only: Option<usize>,
}

impl Caller {
    pub fn new(client: u32, members: &[Arc<Member>], recorder: &Arc<Recorder>) -> Caller {
        Caller {
            client,
            members: members.to_vec(),
            recorder: Arc::clone(recorder),
            connection: None,
            only: None,
        }
    }

    /// A client that stays with one member.
    pub fn to_one(
        client: u32,
        index: usize,
        member: &Arc<Member>,
        recorder: &Arc<Recorder>,
    ) -> Caller {
        Caller {
            only: Some(index),
            ..Caller::new(client, std::slice::from_ref(member), recorder)
        }
    }

    /// Sends a request once, waits no longer than `patience`, and records the outcome.
    /// Returns `None` if there was no connection, so that nothing was sent.
    pub async fn call(
        &mut self,
        request: Request,
        patience: Duration,
        random: &mut Random,
    ) -> Option<Operation> {
        // Clients sometimes change to another member.
        if random.chance(1, 50) {
            self.connection = None;
        }
        let (member, channel) = self.connect(random).await?;
        let life = self.members[member].life();
        let called = self.recorder.moment();
        let outcome = client::outcome(channel, &request, patience).await;
        let returned = self.recorder.moment();
        let life = (life == self.members[member].life()).then_some(life);
        // Half of the failed calls make the client change to another member.
        if !matches!(outcome, Known::Done(_)) && random.chance(1, 2) {
            self.connection = None;
        }
        let operation = Operation {
            client: self.client,
            member: self.only.unwrap_or(member) as u32,
            life,
            called,
            returned,
            request,
            outcome,
        };
        self.recorder.record(operation.clone());
        Some(operation)
    }

    async fn connect(&mut self, random: &mut Random) -> Option<(usize, Channel)> {
        if self.connection.is_none() {
            let member = member::any_present(&self.members, random)?;
            let channel = dial(&self.members[member]).await?;
            self.connection = Some((member, channel));
        }
        self.connection.clone()
    }
}

/// Opens a new connection; `None` if the member does not accept one.
pub async fn dial(member: &Member) -> Option<Channel> {
    client::dial(member.url()).await.ok()
}
