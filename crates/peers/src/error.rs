//! What can go wrong, and what the caller may conclude from it.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::Refusal;

/// Why there is no connection on a lane.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The host's name has no address.
    #[error("{address}: cannot be resolved: {reason}")]
    Resolve {
        /// As it was given to [`crate::Peers::set_member`].
        address: String,
        /// What the resolver said.
        reason: String,
    },
    /// Nobody listens there, or nothing leads there.
    #[error("{address}: cannot connect: {reason}")]
    Connect {
        /// As it was given to [`crate::Peers::set_member`].
        address: String,
        /// What the system said.
        reason: String,
    },
    /// Nobody answered in time.
    #[error("{address}: no answer within {within:?}")]
    Timeout {
        /// As it was given to [`crate::Peers::set_member`].
        address: String,
        /// How long was waited.
        within: Duration,
    },
    /// Something else listens there.
    #[error("{address}: what listens there is no Inkstone member; check the member's peer address")]
    NotPeers {
        /// As it was given to [`crate::Peers::set_member`].
        address: String,
    },
    /// A member listens there and does not let us in.
    #[error("{address}: refused: {text}")]
    Refused {
        /// As it was given to [`crate::Peers::set_member`].
        address: String,
        /// The kind of reason.
        refusal: Refusal,
        /// The reason for people.
        text: String,
    },
    /// There was a connection, and it ended.
    #[error("the connection to {address} broke: {reason}")]
    Broken {
        /// As it was given to [`crate::Peers::set_member`].
        address: String,
        /// What ended it.
        reason: String,
    },
}

/// Why connections could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The release text does not fit into a greeting.
    #[error("the release text has {bytes} bytes, at most {bytes_max} are allowed: {release}")]
    Release {
        /// The text.
        release: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A limit contradicts another one or makes no sense.
    #[error("{0}")]
    Limits(String),
    /// An address of this member is none, or the list of them is too long.
    #[error("{0}")]
    Addresses(String),
    /// The system did not give what is needed.
    #[error("cannot start the connections between members: {0}")]
    System(#[from] io::Error),
}

/// Why a member was not taken into the table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MemberError {
    /// Nobody connects to himself.
    #[error("member {0:x} is this member")]
    Own(u64),
    /// A member without addresses cannot be reached.
    #[error("member {0:x} has no address; give at least one host:port")]
    NoAddress(u64),
    /// An address is not host:port.
    #[error("member {member:x}: {address} is no address; write host:port, such as 10.0.0.1:2380")]
    Address {
        /// The member.
        member: u64,
        /// What was given.
        address: String,
    },
    /// There are no connections any more.
    #[error("the connections of this member are stopped")]
    Stopped,
}

/// Why a message was not queued. It is counted and gone: repeat it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Dropped {
    /// The table has no such member.
    #[error("member {0:x} is not in the table")]
    UnknownMember(u64),
    /// The last attempt to connect failed.
    #[error("the member cannot be reached")]
    Unreachable,
    /// Too many bytes wait already.
    #[error("the lane's queue is full")]
    Full,
    /// No repetition helps.
    #[error("a message of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// The limit, [`crate::Limits::payload_bytes_max`].
        bytes_max: usize,
    },
}

/// Why a stream cannot be opened, or ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The table has no such member.
    #[error("member {0:x} is not in the table")]
    UnknownMember(u64),
    /// There is no connection; try again later.
    #[error("member {member:x} cannot be reached: {reason}")]
    Unreachable {
        /// Whom the stream was for.
        member: u64,
        /// What the attempt met.
        reason: String,
    },
    /// The connection ended before the sender's last frame: what came is not
    /// the whole transfer.
    #[error("the stream with member {member:x} broke: {reason}")]
    Broken {
        /// The other end.
        member: u64,
        /// What ended it.
        reason: String,
    },
    /// No repetition helps.
    #[error("a frame of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLong {
        /// Bytes of the frame's payload.
        bytes: usize,
        /// The limit, [`crate::Limits::payload_bytes_max`].
        bytes_max: usize,
    },
    /// The connections of this member are stopped.
    #[error("the connections of this member are stopped")]
    Stopped,
}
