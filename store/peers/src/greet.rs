//! Greetings, the first bytes of a connection, from both sides.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::format::{
    GREETING_BYTES, GREETING_BYTES_MAX, Hello, MAGIC, Unreadable, VERSION, Welcome, greeting_bytes,
};
use crate::{Lane, Refusal};

/// Error of reading a greeting.
#[derive(Debug)]
pub(crate) enum NoGreeting {
    /// The connection ended or failed.
    Io(io::Error),
    /// The connection began with these bytes instead of the magic.
    Foreign([u8; MAGIC.len()]),
    /// The greeting has another version, is damaged, or names an unknown lane.
    Unreadable(Unreadable),
}

impl From<io::Error> for NoGreeting {
    fn from(error: io::Error) -> NoGreeting {
        NoGreeting::Io(error)
    }
}

/// Sends `hello` and returns the other side's welcome.
pub(crate) async fn introduce(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
    hello: &Hello,
) -> Result<Welcome, NoGreeting> {
    socket.write_all(&hello.encode()).await?;
    let bytes = read_greeting(socket).await?;
    Welcome::decode(&bytes).map_err(NoGreeting::Unreadable)
}

/// Waits for a hello.
pub(crate) async fn receive(socket: &mut (impl AsyncRead + Unpin)) -> Result<Hello, NoGreeting> {
    let bytes = read_greeting(socket).await?;
    Hello::decode(&bytes).map_err(NoGreeting::Unreadable)
}

/// Waits for the rest of a hello after its magic.
pub(crate) async fn receive_behind_magic(
    socket: &mut (impl AsyncRead + Unpin),
) -> Result<Hello, NoGreeting> {
    let bytes = read_behind_magic(socket).await?;
    Hello::decode(&bytes).map_err(NoGreeting::Unreadable)
}

/// Reads the first eight bytes of a connection.
pub(crate) async fn read_magic(
    socket: &mut (impl AsyncRead + Unpin),
) -> Result<[u8; MAGIC.len()], NoGreeting> {
    let mut magic = MAGIC;
    socket.read_exact(&mut magic).await?;
    Ok(magic)
}

/// Reads a greeting, and not a byte more, because frames follow.
async fn read_greeting(socket: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, NoGreeting> {
    let magic = read_magic(socket).await?;
    if magic != MAGIC {
        return Err(NoGreeting::Foreign(magic));
    }
    read_behind_magic(socket).await
}

/// Reads the rest of a greeting after its magic, and returns the whole greeting. What follows
/// the version is read only if this release knows the version.
pub(crate) async fn read_behind_magic(
    socket: &mut (impl AsyncRead + Unpin),
) -> Result<Vec<u8>, NoGreeting> {
    const VERSIONED: usize = 12;
    let mut head = [0; GREETING_BYTES];
    let (magic, rest) = head.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    let (versioned, rest) = rest.split_at_mut(VERSIONED - MAGIC.len());
    socket.read_exact(versioned).await?;
    let version = u16::from_le_bytes([versioned[0], versioned[1]]);
    if version != VERSION {
        return Err(NoGreeting::Unreadable(Unreadable::Version(version)));
    }
    socket.read_exact(rest).await?;
    let length = greeting_bytes(&head);
    if length > GREETING_BYTES_MAX {
        return Err(NoGreeting::Unreadable(Unreadable::Damaged));
    }
    let mut bytes = head.to_vec();
    bytes.resize(length, 0);
    socket.read_exact(&mut bytes[GREETING_BYTES..]).await?;
    Ok(bytes)
}

/// Ids of this member and its cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub cluster: u64,
    pub member: u64,
}

/// Checks the ids in `hello`; the error is the reason for a refusal. An inquiry needs no id.
pub(crate) fn judge(hello: &Hello, us: Identity) -> Result<(), (Refusal, String)> {
    if hello.lane == Lane::Inquiry {
        return Ok(());
    }
    if hello.cluster != us.cluster {
        let text = format!(
            "member {:016x} belongs to cluster {:016x}, this member to cluster {:016x}; \
             check the peer addresses and the initial cluster of both",
            hello.sender, hello.cluster, us.cluster
        );
        return Err((Refusal::Cluster, text));
    }
    if hello.receiver != us.member {
        let text = format!(
            "this is member {:016x}, not {:016x}; check the peer addresses of both",
            us.member, hello.receiver
        );
        return Err((Refusal::Member, text));
    }
    if hello.sender == us.member {
        let text = format!(
            "this is member {:016x} itself; two members must not share an id",
            us.member
        );
        return Err((Refusal::Member, text));
    }
    Ok(())
}

/// Checks that the sender's agreement is that of this member, if both have one.
pub(crate) fn compare(hello: &Hello, us: Identity, ours: &str) -> Result<(), (Refusal, String)> {
    let theirs = hello.agreement.as_str();
    if hello.lane == Lane::Inquiry || theirs.is_empty() || ours.is_empty() || theirs == ours {
        return Ok(());
    }
    let text = format!(
        "member {:016x} was created with {theirs}, this member {:016x} with {ours}, and all \
         members need the same; start the new member with the flag of the others, in an \
         empty directory",
        hello.sender, us.member
    );
    Err((Refusal::Agreement, text))
}

/// Text of a refusal for a removed member.
pub(crate) fn removed(sender: u64) -> String {
    format!(
        "member {sender:016x} was removed from this cluster; \
         to use this machine again, start it as a new member in an empty directory"
    )
}

/// Text of a refusal for a sender that the listener does not know.
pub(crate) fn stranger(sender: u64, us: Identity) -> String {
    format!(
        "member {sender:016x} is not among the members that member {:016x} knows; a new member \
         is let in as soon as this one has learnt of it from a member that it knows, or from one \
         that its --initial-cluster lists",
        us.member
    )
}

/// Refusal and text for a hello that could not be read.
pub(crate) fn explain(unreadable: Unreadable) -> (Refusal, String) {
    match unreadable {
        Unreadable::Version(version) => {
            let text = format!(
                "protocol version {version} came, this release speaks version {VERSION}; \
                 run releases that differ by one at most"
            );
            (Refusal::Version, text)
        }
        Unreadable::Lane(Lane::RETIRED) => {
            let text = "this release no longer uses lane 3; members of both releases work together";
            (Refusal::Lane, text.to_owned())
        }
        Unreadable::Lane(lane) => {
            let text = format!(
                "this release does not know lane {lane}; update the member that refuses it"
            );
            (Refusal::Lane, text)
        }
        Unreadable::Damaged => {
            let text = "the greeting came damaged; check the proxies and links between the members";
            (Refusal::Damaged, text.to_owned())
        }
    }
}
