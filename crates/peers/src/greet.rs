//! The first bytes of a connection, from both sides.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::format::{
    GREETING_BYTES, GREETING_BYTES_MAX, Hello, MAGIC, Unreadable, VERSION, Welcome, greeting_bytes,
};
use crate::{Lane, Refusal};

/// Why no greeting came.
#[derive(Debug)]
pub(crate) enum NoGreeting {
    /// The connection ended or failed.
    Io(io::Error),
    /// Other bytes came; the first of them.
    Foreign([u8; MAGIC.len()]),
    /// A greeting that cannot be understood.
    Unreadable(Unreadable),
}

impl From<io::Error> for NoGreeting {
    fn from(error: io::Error) -> NoGreeting {
        NoGreeting::Io(error)
    }
}

/// Says hello; the other side's answer.
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

/// Waits for the rest of a hello whose magic has come.
pub(crate) async fn receive_behind_magic(
    socket: &mut (impl AsyncRead + Unpin),
) -> Result<Hello, NoGreeting> {
    let bytes = read_behind_magic(socket).await?;
    Hello::decode(&bytes).map_err(NoGreeting::Unreadable)
}

/// Waits for the first bytes of a dialer.
pub(crate) async fn read_magic(
    socket: &mut (impl AsyncRead + Unpin),
) -> Result<[u8; MAGIC.len()], NoGreeting> {
    let mut magic = MAGIC;
    socket.read_exact(&mut magic).await?;
    Ok(magic)
}

/// Not a byte more than the greeting: frames follow. What follows the version
/// is read only if we know it.
async fn read_greeting(socket: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, NoGreeting> {
    let magic = read_magic(socket).await?;
    if magic != MAGIC {
        return Err(NoGreeting::Foreign(magic));
    }
    read_behind_magic(socket).await
}

/// The same where the magic has come: the whole greeting.
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

/// Who listens here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub cluster: u64,
    pub member: u64,
}

/// Whether the member that says `hello` may come in; if not, why. Who only asks
/// need not know any id.
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

/// Whether the member was begun as this one was.
pub(crate) fn compare(hello: &Hello, us: Identity, ours: &str) -> Result<(), (Refusal, String)> {
    let theirs = hello.agreement.as_str();
    if hello.lane == Lane::Inquiry || theirs.is_empty() || ours.is_empty() || theirs == ours {
        return Ok(());
    }
    let text = format!(
        "member {:016x} was begun with {theirs}, this member {:016x} with {ours}, and all \
         members need the same; start the one that is new with the flag of the others, in an \
         empty directory",
        hello.sender, us.member
    );
    Err((Refusal::Agreement, text))
}

/// What a member is told that was removed.
pub(crate) fn removed(sender: u64) -> String {
    format!(
        "member {sender:016x} was removed from this cluster; \
         begin anew in an empty directory, as a new member"
    )
}

/// What a sender is told that the listener does not know.
pub(crate) fn stranger(sender: u64, us: Identity) -> String {
    format!(
        "member {sender:016x} is not among the members that member {:016x} knows; a new member \
         is let in as soon as this one has heard of it from a member that it knows, or from one \
         that its --initial-cluster lists",
        us.member
    )
}

/// The same for a hello that could not be read.
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
            let text = "lane 3 carries nothing since this release; members of both work together";
            (Refusal::Lane, text.to_owned())
        }
        Unreadable::Lane(lane) => {
            let text = format!("lane {lane} is not known to this release; update it");
            (Refusal::Lane, text)
        }
        Unreadable::Damaged => {
            let text = "the greeting came damaged; check what stands between the members";
            (Refusal::Damaged, text.to_owned())
        }
    }
}
