//! Commands with the actor that asks for them, while users are checked, and with their place in a
//! trace, while that is recorded.
//!
//! ```text
//!   plain command         of a client without an identity; refused while users are checked
//!   As{user, command}     of a client with an identity
//!   As{member, command}   of a member itself: the end of a lease, an alarm, a renewed token
//! ```
//!
//! Between members: a protobuf header with its length in front, then the command in its own form.

use std::sync::Arc;

use auth::{Identity, Proof};
use bytes::{BufMut, Bytes};
use prost::Message;

use crate::{Command, Error, TraceContext};

/// The kind of a command with its actor (`wire.rs`).
const ACTING: u8 = 14;

/// A command with its actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Acting {
    pub actor: Actor,
    /// `None` if no trace is recorded.
    pub trace: Option<TraceContext>,
    /// Never an [`Command::As`] itself.
    pub command: Command,
}

/// The actor of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Actor {
    /// A member of the cluster, which may do everything.
    Member,
    User(Arc<Identity>),
    /// A client without an identity.
    Unknown,
}

#[derive(Clone, PartialEq, Message)]
struct ActorHeader {
    /// Whether the actor is a member; then there is nothing else.
    #[prost(bool, tag = "1")]
    member: bool,
    #[prost(string, tag = "2")]
    user: String,
    #[prost(uint64, optional, tag = "3")]
    generation: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    revision: Option<u64>,
    /// [`TraceContext`]; earlier releases skip it.
    #[prost(bytes = "vec", optional, tag = "5")]
    trace: Option<Vec<u8>>,
}

impl Command {
    /// The command without its actor.
    pub fn plain(&self) -> &Command {
        match self {
            Command::As(acting) => &acting.command,
            plain => plain,
        }
    }

    /// The same command, asked for by a user.
    #[must_use]
    pub fn by_user(self, identity: &Arc<Identity>) -> Command {
        self.by(Actor::User(Arc::clone(identity)))
    }

    /// The same command, asked for by a member.
    #[must_use]
    pub fn by_member(self) -> Command {
        self.by(Actor::Member)
    }

    /// The same command, as a part of a trace. To be called after [`Command::by_user`].
    #[must_use]
    pub fn with_trace(self, trace: TraceContext) -> Command {
        let mut acting = match self {
            Command::As(acting) => acting,
            plain => Box::new(Acting {
                actor: Actor::Unknown,
                trace: None,
                command: plain,
            }),
        };
        acting.trace = Some(trace);
        Command::As(acting)
    }

    /// The trace that the command belongs to.
    pub fn trace(&self) -> Option<TraceContext> {
        match self {
            Command::As(acting) => acting.trace,
            _ => None,
        }
    }

    fn by(self, actor: Actor) -> Command {
        assert!(!matches!(self, Command::As(_)), "a command has one actor");
        Command::As(Box::new(Acting {
            actor,
            trace: None,
            command: self,
        }))
    }
}

impl Acting {
    pub(crate) fn encoded_len(&self) -> usize {
        self.header().encoded_len() + self.command.size_bytes()
    }

    pub(crate) fn encode(&self, kind: u8) -> Bytes {
        assert_eq!(kind, ACTING, "decoding knows the kind");
        let (header, command) = (self.header(), self.command.encode());
        let mut bytes = Vec::with_capacity(16 + header.encoded_len() + command.len());
        bytes.put_u8(kind);
        header
            .encode_length_delimited(&mut bytes)
            .expect("a vector grows");
        bytes.put_slice(&command);
        bytes.into()
    }

    pub(crate) fn decode(mut body: Bytes) -> Result<Acting, Error> {
        let unreadable = |what: String| Error::Unreadable(what.into());
        let header = ActorHeader::decode_length_delimited(&mut body);
        let header = header.map_err(|error| unreadable(error.to_string()))?;
        let trace = header.trace.as_deref().and_then(TraceContext::decode);
        let actor = header.actor();
        let actor = actor.ok_or_else(|| unreadable("a command of no actor".into()))?;
        // Not decoded: actors inside of each other could be very many.
        if body.first() == Some(&ACTING) {
            return Err(unreadable("a command of two actors".into()));
        }
        let command = Command::decode(body)?;
        Ok(Acting {
            actor,
            trace,
            command,
        })
    }

    fn header(&self) -> ActorHeader {
        let trace = self.trace.as_ref().map(TraceContext::encode);
        let identity = match &self.actor {
            Actor::Member | Actor::Unknown => {
                return ActorHeader {
                    member: self.actor == Actor::Member,
                    trace,
                    ..ActorHeader::default()
                };
            }
            Actor::User(identity) => identity,
        };
        let (generation, revision) = match identity.proof {
            Proof::Generation(generation) => (Some(generation), None),
            Proof::Revision(revision) => (None, Some(revision)),
            Proof::Certificate => (None, None),
        };
        ActorHeader {
            member: false,
            user: identity.user.clone(),
            generation,
            revision,
            trace,
        }
    }
}

impl ActorHeader {
    fn actor(self) -> Option<Actor> {
        let proof = match (self.generation, self.revision) {
            (Some(generation), None) => Proof::Generation(generation),
            (None, Some(revision)) => Proof::Revision(revision),
            (None, None) => Proof::Certificate,
            (Some(_), Some(_)) => return None,
        };
        let user = self.user;
        match self.member {
            true => (user.is_empty() && proof == Proof::Certificate).then_some(Actor::Member),
            // No user has an empty name.
            false if user.is_empty() && proof == Proof::Certificate => Some(Actor::Unknown),
            false => Some(Actor::User(Arc::new(Identity { user, proof }))),
        }
    }
}
