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

use environment::randomness::secret_bytes;
use hmac::Mac;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::format::MAGIC as GREETING_MAGIC;
use crate::greet::{self, NoGreeting};
use crate::sealed::{Opener, Sealer};
use crate::secret::{HASH_BYTES, Label};
use crate::socket::{Socket, seal};
use crate::{PeerSecret, Refusal};
use format::{ANSWER_BYTES, ANSWER_HEAD_BYTES, OPENING_BYTES};

pub(crate) use format::{Ids, MAGIC};

/// The listener's text for its log.
const ANOTHER_SECRET: &str = "the sender has another peer secret than this member; give all \
                              members the same --peer-secret-file";

/// Exchanges proofs on the dialer's side. Afterwards the socket sends and receives records.
pub(crate) async fn dialer(
    socket: &mut Socket,
    secret: &PeerSecret,
    ids: Ids,
) -> Result<(), NoGreeting> {
    let proven = exchange_as_dialer(socket, secret, ids).await;
    proven.map_err(|error| match error {
        NoGreeting::Io(error) => NoGreeting::Unproven(format!(
            "it did not prove that it has the peer secret: {error}; it may be of a release \
             before --peer-secret-file"
        )),
        error => error,
    })
}

async fn exchange_as_dialer(
    socket: &mut Socket,
    secret: &PeerSecret,
    ids: Ids,
) -> Result<(), NoGreeting> {
    let opening = format::opening(ids, &secret_bytes()?);
    socket.write_all(&opening).await?;
    match greet::read_magic(socket).await? {
        MAGIC => {}
        GREETING_MAGIC => {
            let welcome = greet::welcome_behind_magic(socket).await?;
            let refusal = welcome.verdict.err().unwrap_or(Refusal::Secret);
            return Err(NoGreeting::Refused(refusal, welcome.reason));
        }
        foreign => return Err(NoGreeting::Foreign(foreign)),
    }
    let mut answer = [0; ANSWER_BYTES];
    answer[..MAGIC.len()].copy_from_slice(&MAGIC);
    socket.read_exact(&mut answer[MAGIC.len()..]).await?;
    let version = format::version(&answer);
    if version != format::VERSION {
        let text =
            format!("it proves its peer secret in version {version}, which is not known here");
        return Err(NoGreeting::Refused(Refusal::Version, text));
    }
    let (head, proof) = answer.split_at(ANSWER_HEAD_BYTES);
    let said = [&opening[..], head];
    let expected = secret.keyed(Label::ListenerProves, &said);
    if expected.verify_slice(proof).is_err() {
        let text = "it has another peer secret than this member; give all members the same \
                    --peer-secret-file";
        return Err(NoGreeting::Refused(Refusal::Secret, text.to_owned()));
    }
    let own = secret.hash(Label::DialerProves, &said);
    socket.write_all(&own).await?;
    seal(
        socket,
        Opener::new(&secret.hash(Label::FromListener, &said)),
        Sealer::new(&secret.hash(Label::FromDialer, &said)),
    );
    Ok(())
}

/// Exchanges proofs on the listener's side, after the magic of an opening. Returns the ids that
/// the dialer's proof covers; afterwards the socket sends and receives records.
pub(crate) async fn listener(socket: &mut Socket, secret: &PeerSecret) -> Result<Ids, NoGreeting> {
    let proven = exchange_as_listener(socket, secret).await;
    proven.map_err(|error| match error {
        // A dialer with another secret closes the connection when it sees the listener's proof.
        NoGreeting::Io(_) => NoGreeting::Unproven(ANOTHER_SECRET.to_owned()),
        error => error,
    })
}

async fn exchange_as_listener(socket: &mut Socket, secret: &PeerSecret) -> Result<Ids, NoGreeting> {
    let mut opening = [0; OPENING_BYTES];
    opening[..MAGIC.len()].copy_from_slice(&MAGIC);
    socket.read_exact(&mut opening[MAGIC.len()..]).await?;
    let version = format::version(&opening);
    if version != format::VERSION {
        return Err(NoGreeting::Unproven(format!(
            "a proof of version {version} came, this release knows version {}; \
             run releases that differ by one at most",
            format::VERSION
        )));
    }
    let head = format::answer_head(&secret_bytes()?);
    let said = [&opening[..], &head];
    let own = secret.hash(Label::ListenerProves, &said);
    socket.write_all(&[&head[..], &own].concat()).await?;
    let mut proof = [0; HASH_BYTES];
    socket.read_exact(&mut proof).await?;
    let expected = secret.keyed(Label::DialerProves, &said);
    if expected.verify_slice(&proof).is_err() {
        return Err(NoGreeting::Unproven(ANOTHER_SECRET.to_owned()));
    }
    seal(
        socket,
        Opener::new(&secret.hash(Label::FromDialer, &said)),
        Sealer::new(&secret.hash(Label::FromListener, &said)),
    );
    Ok(format::ids(&opening))
}
