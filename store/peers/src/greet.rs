//! Greetings, the first bytes of a connection, from both sides.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::format::{
    GREETING_BYTES, GREETING_BYTES_MAX, Hello, MAGIC, Unreadable, VERSION, Welcome, greeting_bytes,
};
use crate::socket::Socket;
use crate::{Lane, PeersOptions, Refusal};

/// Error of reading a greeting.
#[derive(Debug)]
pub(crate) enum NoGreeting {
    /// The connection ended or failed.
    Io(io::Error),
    /// The connection began with these bytes instead of the magic.
    Foreign([u8; MAGIC.len()]),
    /// The greeting has another version, is damaged, or names an unknown lane.
    Unreadable(Unreadable),
    /// One side refuses the other, with a text for people.
    Refused(Refusal, String),
    /// The other side did not prove that it has the secret. It gets no answer; this is the
    /// text for the log.
    Unproven(String),
}

impl From<io::Error> for NoGreeting {
    fn from(error: io::Error) -> NoGreeting {
        NoGreeting::Io(error)
    }
}

/// Sends `hello` and returns the other side's welcome.
pub(crate) async fn introduce(socket: &mut Socket, hello: &Hello) -> Result<Welcome, NoGreeting> {
    socket.write_all(&hello.encode()).await?;
    expect_magic(socket).await?;
    welcome_behind_magic(socket).await
}

/// Waits for the rest of a hello after its magic.
pub(crate) async fn hello_behind_magic(socket: &mut Socket) -> Result<Hello, NoGreeting> {
    let bytes = read_behind_magic(socket).await?;
    Hello::decode(&bytes).map_err(NoGreeting::Unreadable)
}

/// Waits for the rest of a welcome after its magic.
pub(crate) async fn welcome_behind_magic(socket: &mut Socket) -> Result<Welcome, NoGreeting> {
    let bytes = read_behind_magic(socket).await?;
    Welcome::decode(&bytes).map_err(NoGreeting::Unreadable)
}

/// Waits for the magic of a greeting.
pub(crate) async fn expect_magic(socket: &mut Socket) -> Result<(), NoGreeting> {
    match read_magic(socket).await? {
        MAGIC => Ok(()),
        foreign => Err(NoGreeting::Foreign(foreign)),
    }
}

/// Reads the first eight bytes of a connection.
pub(crate) async fn read_magic(socket: &mut Socket) -> io::Result<[u8; MAGIC.len()]> {
    let mut magic = MAGIC;
    socket.read_exact(&mut magic).await?;
    Ok(magic)
}

/// Reads the rest of a greeting after its magic, and not a byte more, because frames follow.
/// Returns the whole greeting. What follows the version is read only if this release knows the
/// version.
async fn read_behind_magic(socket: &mut Socket) -> Result<Vec<u8>, NoGreeting> {
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

/// Checks that the sender of `hello` belongs to the same cluster as this member and was created
/// with the same agreement; the error is the reason for a refusal.
pub(crate) fn judge(hello: &Hello, us: &PeersOptions) -> Result<(), (Refusal, String)> {
    let (theirs, ours) = (&hello.agreement, &us.agreement);
    if hello.cluster != us.cluster_id {
        let text = format!(
            "member {:016x} belongs to cluster {:016x}, this member to cluster {:016x}; \
             check the peer addresses and the initial cluster of both",
            hello.sender, hello.cluster, us.cluster_id
        );
        Err((Refusal::Cluster, text))
    } else if hello.receiver != us.member_id {
        let text = format!(
            "this is member {:016x}, not {:016x}; check the peer addresses of both",
            us.member_id, hello.receiver
        );
        Err((Refusal::Member, text))
    } else if hello.sender == us.member_id {
        let text = format!(
            "this is member {:016x} itself; two members must not share an id",
            us.member_id
        );
        Err((Refusal::Member, text))
    } else if !theirs.is_empty() && !ours.is_empty() && theirs != ours {
        let text = format!(
            "member {:016x} was created with {theirs}, this member {:016x} with {ours}, and all \
             members need the same; start the new member with the flag of the others, in an \
             empty directory",
            hello.sender, us.member_id
        );
        Err((Refusal::Agreement, text))
    } else {
        Ok(())
    }
}

pub(crate) fn removed(sender: u64) -> String {
    format!(
        "member {sender:016x} was removed from this cluster; \
         to use this machine again, start it as a new member in an empty directory"
    )
}

/// Text of a refusal for a sender that the listener does not know.
pub(crate) fn stranger(sender: u64, us: u64) -> String {
    format!(
        "member {sender:016x} is not among the members that member {:016x} knows; a new member \
         is let in as soon as this one has learnt of it from a member that it knows, or from one \
         that its --initial-cluster lists",
        us
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
