//! Commands, answers and refusals between members: a follower hands a client's
//! command to the leader and gets the answer back.
//!
//! ```text
//!   command, response   kind u8 | the request or response in protobuf
//!   error               kind u8 | what the kind says
//!
//!   1 put    2 delete range   3 txn             4 compact         5 lease grant   6 lease revoke
//!   7 alarm  8 member add     9 member remove  10 member update  11 member promote
//!  12 member publish
//!  13 auth (command: the request of users and roles; response: a header)
//!  14 a command with its actor: the actor's header with its length, then the command
//!  15 downgrade  16 follow
//!
//!   request, response   kind u8 | the request or response in protobuf
//!
//!   1 keep alive    2 time to live    (of a lease)
//!
//!   error 1  one of etcd's: its text, which is the contract
//!         2  no memory for more keys: index bytes u64, limit u64   (little-endian)
//!         3  larger than a batch: bytes u64, limit u64
//!         4  anything else: a text for people
//!         5  reads more than a command that writes may: limit u64
//!         6  needs a damaged value: a text for people
//!         7  not the next change of the cluster that is followed: a text for people
//! ```
//!
//! Bytes from elsewhere are never trusted: what does not decode is an error,
//! and protobuf messages nest at most as deep as a client's may.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;

use crate::{Acting, Command, Error, LeaseRequest, LeaseResponse, Response};

const ETCD: u8 = 1;
const MEMORY_LIMIT: u8 = 2;
const TOO_LARGE: u8 = 3;
const OTHER: u8 = 4;
const READS_TOO_MUCH: u8 = 5;
const DAMAGED: u8 = 6;
const FOLLOW: u8 = 7;

/// How the text of a shortage begins, by which it is known: members of releases before
/// this kind of error take it for any other text.
const SHORT: &str = "nothing was written, try again later: ";

macro_rules! codec {
    (
        $type:ident, $what:literal, $($kind:literal $name:ident),* $(,)?
        $(; $outer_kind:literal $outer:ident $outer_type:ident)?
    ) => {
        impl $type {
            /// Encoded size of the message, by which queues are limited.
            pub fn size_bytes(&self) -> usize {
                match self {
                    $($type::$name(message) => message.encoded_len(),)*
                    $($type::$outer(message) => message.encoded_len(),)?
                }
            }

            /// As it travels between members.
            pub fn encode(&self) -> Bytes {
                match self {
                    $($type::$name(message) => framed($kind, message),)*
                    $($type::$outer(message) => message.encode($outer_kind),)?
                }
            }

            #[doc = concat!("Reads what [`", stringify!($type), "::encode`] wrote, wherever it comes from.")]
            pub fn decode(bytes: Bytes) -> Result<$type, Error> {
                let (kind, body) = split(bytes)?;
                match kind {
                    $($kind => parsed(body).map($type::$name),)*
                    $($outer_kind => {
                        $outer_type::decode(body).map(|it| $type::$outer(Box::new(it)))
                    })?
                    _ => Err(unreadable(format!("{} of the unknown kind {kind}", $what))),
                }
            }
        }
    };
}

codec!(
    Command, "a command",
    1 Put, 2 DeleteRange, 3 Txn, 4 Compact, 5 LeaseGrant, 6 LeaseRevoke, 7 Alarm,
    8 MemberAdd, 9 MemberRemove, 10 MemberUpdate, 11 MemberPromote, 12 MemberPublish,
    13 Auth, 15 Downgrade, 16 Follow;
    14 As Acting
);

codec!(
    Response, "an answer",
    1 Put, 2 DeleteRange, 3 Txn, 4 Compact, 5 LeaseGrant, 6 LeaseRevoke, 7 Alarm,
    8 MemberAdd, 9 MemberRemove, 10 MemberUpdate, 11 MemberPromote, 12 MemberPublish,
    13 Auth, 15 Downgrade, 16 Follow,
);

codec!(
    LeaseRequest, "a request about a lease",
    1 KeepAlive, 2 TimeToLive,
);

codec!(
    LeaseResponse, "an answer about a lease",
    1 KeepAlive, 2 TimeToLive,
);

impl Error {
    /// As it travels between members. What clients treat by its kind keeps its
    /// kind; the rest is a text.
    pub fn encode(&self) -> Bytes {
        use engine::Error as Storage;
        let Error::Storage(storage) = self else {
            return match self {
                Error::Etcd(error) => text(ETCD, error.message()),
                Error::Elsewhere(what) => text(OTHER, what),
                Error::DamagedElsewhere(what) => text(DAMAGED, what),
                Error::Follow(what) => text(FOLLOW, what),
                Error::ReadsTooMuch { bytes_max } => {
                    [&[READS_TOO_MUCH][..], &bytes_max.to_le_bytes()]
                        .concat()
                        .into()
                }
                other => text(OTHER, &other.to_string()),
            };
        };
        match **storage {
            Storage::NoSpace { .. } => text(ETCD, etcd_api::Error::NoSpace.message()),
            Storage::Compacted { .. } => text(ETCD, etcd_api::Error::Compacted.message()),
            Storage::MemoryLimit {
                index_bytes,
                memory_bytes_max,
            } => numbers(MEMORY_LIMIT, index_bytes, memory_bytes_max),
            Storage::TooLarge {
                batch_bytes,
                batch_bytes_max,
            } => numbers(TOO_LARGE, batch_bytes, batch_bytes_max),
            Storage::DamagedValue { .. } => text(DAMAGED, &self.to_string()),
            Storage::NoSegment { .. } => text(OTHER, &storage.to_string()),
            _ => text(OTHER, &self.to_string()),
        }
    }

    /// Reads what [`Error::encode`] wrote. The outer error: it is unreadable.
    pub fn decode(bytes: Bytes) -> Result<Error, Error> {
        let (kind, mut body) = split(bytes)?;
        match kind {
            ETCD | OTHER | DAMAGED | FOLLOW => {
                let text = std::str::from_utf8(&body)
                    .map_err(|error| unreadable(format!("an error's text: {error}")))?;
                if kind == DAMAGED {
                    return Ok(Error::DamagedElsewhere(text.into()));
                }
                if kind == FOLLOW {
                    return Ok(Error::Follow(text.into()));
                }
                if kind == OTHER && text.starts_with(SHORT) {
                    return Ok(Error::Short(text.into()));
                }
                let known = etcd_api::Error::from_message(text).filter(|_| kind == ETCD);
                Ok(known.map_or_else(|| Error::Elsewhere(text.into()), Error::Etcd))
            }
            MEMORY_LIMIT | TOO_LARGE if body.len() == 16 => {
                let (found, limit) = (body.get_u64_le(), body.get_u64_le());
                Ok(Error::Storage(Arc::new(limit_error(kind, found, limit))))
            }
            READS_TOO_MUCH if body.len() == 8 => Ok(Error::ReadsTooMuch {
                bytes_max: body.get_u64_le(),
            }),
            _ => Err(unreadable(format!(
                "an error of kind {kind} with {} bytes",
                body.len()
            ))),
        }
    }
}

fn limit_error(kind: u8, found: u64, limit: u64) -> engine::Error {
    if kind == MEMORY_LIMIT {
        engine::Error::MemoryLimit {
            index_bytes: found,
            memory_bytes_max: limit,
        }
    } else {
        engine::Error::TooLarge {
            batch_bytes: found,
            batch_bytes_max: limit,
        }
    }
}

fn framed(kind: u8, message: &impl Message) -> Bytes {
    let mut bytes = Vec::with_capacity(1 + message.encoded_len());
    bytes.put_u8(kind);
    message.encode_raw(&mut bytes);
    bytes.into()
}

fn text(kind: u8, text: &str) -> Bytes {
    [&[kind], text.as_bytes()].concat().into()
}

fn numbers(kind: u8, first: u64, second: u64) -> Bytes {
    let mut bytes = Vec::with_capacity(17);
    bytes.put_u8(kind);
    bytes.put_u64_le(first);
    bytes.put_u64_le(second);
    bytes.into()
}

fn split(mut bytes: Bytes) -> Result<(u8, Bytes), Error> {
    if bytes.is_empty() {
        return Err(unreadable("it is empty".into()));
    }
    Ok((bytes.get_u8(), bytes))
}

fn parsed<M: Message + Default>(body: Bytes) -> Result<M, Error> {
    M::decode(body).map_err(|error| unreadable(error.to_string()))
}

fn unreadable(what: String) -> Error {
    Error::Unreadable(what.into())
}
