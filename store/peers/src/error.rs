//! Errors of connections, messages and streams.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::Refusal;

/// Error of a lane or an inquiry: there is no connection, or it broke.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The host's name has no address.
    #[error("{address}: cannot be resolved: {reason}")]
    Resolve {
        /// The address that was dialled, as [`crate::Peers::set_member`] got it.
        address: String,
        /// Error of the resolver.
        reason: String,
    },
    /// No process listens at the address, or there is no route to it.
    #[error("{address}: cannot connect: {reason}")]
    Connect {
        /// The address that was dialled, as [`crate::Peers::set_member`] got it.
        address: String,
        /// Error of the system.
        reason: String,
    },
    /// No answer came in time.
    #[error("{address}: no answer within {within:?}")]
    Timeout {
        /// The address that was dialled, as [`crate::Peers::set_member`] got it.
        address: String,
        /// The time limit.
        within: Duration,
    },
    /// The process at the address does not speak this protocol.
    #[error("{address}: what listens there is no Inkstone member; check the member's peer address")]
    NotPeers {
        /// The address that was dialled, as [`crate::Peers::set_member`] got it.
        address: String,
    },
    /// The member at the address refuses this member.
    #[error("{address}: refused: {text}")]
    Refused {
        /// The address that was dialled, as [`crate::Peers::set_member`] got it.
        address: String,
        /// The kind of reason.
        refusal: Refusal,
        /// The reason, as text for people.
        text: String,
    },
    /// The connection ended.
    #[error("the connection to {address} broke: {reason}")]
    Broken {
        /// The address that was dialled, as [`crate::Peers::set_member`] got it.
        address: String,
        /// The error that ended the connection.
        reason: String,
    },
}

impl LinkError {
    pub(crate) fn broken(address: &str, reason: impl Into<String>) -> LinkError {
        LinkError::Broken {
            address: address.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn connect(address: &str, reason: impl Into<String>) -> LinkError {
        LinkError::Connect {
            address: address.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn refused(address: &str, refusal: Refusal, text: String) -> LinkError {
        LinkError::Refused {
            address: address.to_owned(),
            refusal,
            text,
        }
    }
}

/// Error of [`crate::Peers::start`].
#[derive(Debug, Error)]
pub enum StartError {
    /// The release text does not fit into a greeting.
    #[error("the release text has {bytes} bytes, at most {bytes_max} are allowed: {release}")]
    Release {
        /// The release text.
        release: String,
        /// Bytes of the text.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A limit contradicts another one or is out of range.
    #[error("{0}")]
    Limits(String),
    /// An address of this member is invalid, or the list of them is too long.
    #[error("{0}")]
    Addresses(String),
    /// The system could not provide a thread, a socket or random bytes.
    #[error("cannot start the connections between members: {0}")]
    System(#[from] io::Error),
}

/// Error of [`crate::Peers::set_member`]: the table is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MemberError {
    /// The id is that of this member, which does not connect to itself.
    #[error("member {0:x} is this member")]
    Own(u64),
    /// The list of addresses is empty.
    #[error("member {0:x} has no address; give at least one host:port")]
    NoAddress(u64),
    /// An address is not host:port.
    #[error("member {member:x}: {address} is no address; write host:port, such as 10.0.0.1:2380")]
    Address {
        /// Id of the member.
        member: u64,
        /// The invalid address.
        address: String,
    },
    /// [`crate::Peers::stop`] was called.
    #[error("the connections of this member are stopped")]
    Stopped,
}

/// Error of [`crate::Peers::send`]: the message was not queued. It is lost, and counted in
/// [`crate::LaneCounts`] where a lane was full or unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Dropped {
    /// The table has no such member.
    #[error("member {0:x} is not in the table")]
    UnknownMember(u64),
    /// The last attempt to connect failed.
    #[error("the member cannot be reached")]
    Unreachable,
    /// The bytes in the queue have reached their limit.
    #[error("the lane's queue is full")]
    Full,
    /// The message exceeds the payload limit; repeating it does not help.
    #[error("a message of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// The limit, [`crate::Limits::payload_bytes_max`].
        bytes_max: usize,
    },
}

/// Error of a stream: it cannot be opened, or it broke.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The table has no such member.
    #[error("member {0:x} is not in the table")]
    UnknownMember(u64),
    /// There is no connection; try again later.
    #[error("member {member:x} cannot be reached: {reason}")]
    Unreachable {
        /// The member that the stream was for.
        member: u64,
        /// Error of the attempt to connect.
        reason: String,
    },
    /// The connection ended before the sender's last frame, so the transfer is incomplete.
    #[error("the stream with member {member:x} broke: {reason}")]
    Broken {
        /// The member at the other end.
        member: u64,
        /// The error that ended the connection.
        reason: String,
    },
    /// The frame exceeds the payload limit; repeating it does not help.
    #[error("a frame of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLong {
        /// Bytes of the frame's payload.
        bytes: usize,
        /// The limit, [`crate::Limits::payload_bytes_max`].
        bytes_max: usize,
    },
    /// [`crate::Peers::stop`] was called on this member.
    #[error("the connections of this member are stopped")]
    Stopped,
}
