//! Both sides prove that they have the secret before they exchange a greeting.
//!
//! ```text
//!   dialer                                   listener
//!     │ opening: ids, challenge ──────────────► │
//!     │ ◄──── answer: challenge, its own proof  │
//!     │ the dialer's proof ───────────────────► │
//!     │ ◄═════════ hello, welcome, frames ════► │  in records (`sealed.rs`)
//! ```
//!
//! A listener without a secret refuses an opening, and a listener with a secret refuses a
//! hello without a proof. It recognizes both by their magic.

mod format;

use std::io;

use environment::randomness::secret_bytes;
use hmac::Mac;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::PeerSecret;
use crate::format::{MAGIC as GREETING_MAGIC, Welcome};
use crate::greet::{self, NoGreeting};
use crate::sealed::{Opener, Sealer};
use crate::secret::{HASH_BYTES, Label};
use crate::socket::Socket;
use format::{ANSWER_BYTES, ANSWER_HEAD_BYTES, OPENING_BYTES};

pub(crate) use format::{Ids, MAGIC};

/// Error of a dialer before it could send its hello.
#[derive(Debug)]
pub(crate) enum Unproven {
    /// The answer was missing or unreadable.
    NoGreeting(NoGreeting),
    /// The listener answered with a refusal.
    Refused(Welcome),
    /// The listener's proof does not match: it has another secret.
    AnotherSecret,
    /// The listener uses this other version of the proof.
    Version(u16),
}

impl From<io::Error> for Unproven {
    fn from(error: io::Error) -> Unproven {
        Unproven::NoGreeting(NoGreeting::Io(error))
    }
}

/// Exchanges proofs on the dialer's side. Afterwards the socket sends and receives records.
pub(crate) async fn dialer(
    socket: &mut Socket,
    secret: &PeerSecret,
    ids: Ids,
) -> Result<(), Unproven> {
    let opening = format::opening(ids, &secret_bytes()?);
    socket.write_all(&opening).await?;
    let mut answer = [0; ANSWER_BYTES];
    let (magic, rest) = answer.split_at_mut(MAGIC.len());
    socket.read_exact(magic).await?;
    if magic == GREETING_MAGIC {
        return Err(refusal(socket).await);
    }
    if magic != MAGIC {
        let mut first = MAGIC;
        first.copy_from_slice(magic);
        return Err(Unproven::NoGreeting(NoGreeting::Foreign(first)));
    }
    socket.read_exact(rest).await?;
    if format::version(&answer) != format::VERSION {
        return Err(Unproven::Version(format::version(&answer)));
    }
    let (head, proof) = answer.split_at(ANSWER_HEAD_BYTES);
    let said = [&opening[..], head];
    let expected = secret.keyed(Label::ListenerProves, &said);
    if expected.verify_slice(proof).is_err() {
        return Err(Unproven::AnotherSecret);
    }
    let own = secret.hash(Label::DialerProves, &said);
    socket.write_all(&own).await?;
    socket.seal(
        Opener::new(&secret.hash(Label::FromListener, &said)),
        Sealer::new(&secret.hash(Label::FromDialer, &said)),
    );
    Ok(())
}

async fn refusal(socket: &mut Socket) -> Unproven {
    let bytes = match greet::read_behind_magic(socket).await {
        Ok(bytes) => bytes,
        Err(error) => return Unproven::NoGreeting(error),
    };
    match Welcome::decode(&bytes) {
        Ok(welcome) => Unproven::Refused(welcome),
        Err(unreadable) => Unproven::NoGreeting(NoGreeting::Unreadable(unreadable)),
    }
}

/// Exchanges proofs on the listener's side, after the magic of an opening. Returns the ids that
/// the dialer's proof covers; afterwards the socket sends and receives records. The error is a
/// text for the log.
pub(crate) async fn listener(socket: &mut Socket, secret: &PeerSecret) -> Result<Ids, String> {
    exchange(socket, secret).await.map_err(|error| match error {
        Disproved::Version(version) => format!(
            "a proof of version {version} came, this release knows version {}; \
             run releases that differ by one at most",
            format::VERSION
        ),
        Disproved::Secret => "the sender has another peer secret than this member; give all \
                              members the same --peer-secret-file"
            .to_owned(),
    })
}

enum Disproved {
    Version(u16),
    /// The dialer's proof is wrong or missing.
    Secret,
}

impl From<io::Error> for Disproved {
    /// A dialer with another secret closes the connection when it sees the listener's proof.
    fn from(_: io::Error) -> Disproved {
        Disproved::Secret
    }
}

async fn exchange(socket: &mut Socket, secret: &PeerSecret) -> Result<Ids, Disproved> {
    let mut opening = [0; OPENING_BYTES];
    opening[..MAGIC.len()].copy_from_slice(&MAGIC);
    socket.read_exact(&mut opening[MAGIC.len()..]).await?;
    if format::version(&opening) != format::VERSION {
        return Err(Disproved::Version(format::version(&opening)));
    }
    let head = format::answer_head(&secret_bytes()?);
    let said = [&opening[..], &head];
    let own = secret.hash(Label::ListenerProves, &said);
    socket.write_all(&[&head[..], &own].concat()).await?;
    let mut proof = [0; HASH_BYTES];
    socket.read_exact(&mut proof).await?;
    let expected = secret.keyed(Label::DialerProves, &said);
    if expected.verify_slice(&proof).is_err() {
        return Err(Disproved::Secret);
    }
    socket.seal(
        Opener::new(&secret.hash(Label::FromDialer, &said)),
        Sealer::new(&secret.hash(Label::FromListener, &said)),
    );
    Ok(format::ids(&opening))
}
