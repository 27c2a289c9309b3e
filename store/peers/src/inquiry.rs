//! Questions of processes that are not members, or do not know their ids yet.
//!
//! ```text
//!   asker                               member
//!     │ hello, without any id ───────────► │
//!     │ ◄──────────────────────── welcome  │  ids of the cluster and the member
//!     │ question ────────────────────────► │  one frame
//!     │ ◄───────────────────────── answer  │  one frame, then the end
//! ```
//!
//! A process that joins a cluster knows addresses and nothing else: neither the id of the
//! cluster nor those of the members, nor its own. So this lane requires no ids, and its
//! answers are public to every process that can reach the port (and has the peer secret, if
//! there is one).

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::dial::{connect, introduce, within};
use crate::format::{Hello, WireFrame, role};
use crate::frames::FrameReader;
use crate::outgoing::Outgoing;
use crate::secure;
use crate::shared::Shared;
use crate::socket::{self, Socket};
use crate::{Lane, Limits, LinkError, PeerSecret, PeerTls};

/// Longest question, which bounds the memory that an outsider can take.
const QUESTION_BYTES_MAX: usize = 4 << 10;

/// An answer, with the ids of the member that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Id of the member's cluster.
    pub cluster: u64,
    /// Id of the member.
    pub member: u64,
    /// The value that [`crate::Handler::inquiry`] returned there.
    pub answer: Bytes,
}

/// Asks the member that listens at `address` (`host:port` or `https://host:port`) one question, within
/// `connect_timeout` and `greeting_timeout` of `limits`. A member with a peer secret
/// answers only processes that have it too. Needs a tokio runtime, but no [`crate::Peers`].
pub async fn ask(
    address: &str,
    kind: u8,
    question: Bytes,
    limits: &Limits,
    secret: Option<&PeerSecret>,
    tls: Option<&PeerTls>,
) -> Result<Reply, LinkError> {
    let tcp = connect(limits, address).await?;
    let socket = socket::split(secure::connect(tls, tcp, limits, address).await?);
    let asking = exchange(address, (kind, question), limits, socket, secret);
    within(limits.greeting_timeout, address, asking).await
}

async fn exchange(
    address: &str,
    (kind, question): (u8, Bytes),
    limits: &Limits,
    mut socket: Socket,
    secret: Option<&PeerSecret>,
) -> Result<Reply, LinkError> {
    let hello = Hello {
        lane: Lane::Inquiry,
        cluster: 0,
        sender: 0,
        receiver: 0,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        agreement: String::new(),
        addresses: Vec::new(),
    };
    let welcome = introduce(address, &mut socket, &hello, secret).await?;
    if let Err(refusal) = welcome.verdict {
        return Err(LinkError::refused(address, refusal, welcome.reason));
    }
    match question_and_answer(kind, question, limits, socket).await {
        Ok(frame) if frame.role == role::ANSWER => Ok(Reply {
            cluster: welcome.cluster,
            member: welcome.member,
            answer: frame.payload,
        }),
        Ok(frame) => Err(LinkError::broken(
            address,
            String::from_utf8_lossy(&frame.payload),
        )),
        Err(reason) => Err(LinkError::broken(address, reason)),
    }
}

async fn question_and_answer(
    kind: u8,
    question: Bytes,
    limits: &Limits,
    socket: Socket,
) -> Result<WireFrame, String> {
    let (read, mut write) = socket.into_inner();
    let mut outgoing = Outgoing::default();
    outgoing.push(kind, role::PLAIN, &[question]);
    outgoing
        .write(&mut write)
        .await
        .map_err(|error| error.to_string())?;
    let mut frames = FrameReader::new(read, limits.payload_bytes_max, None);
    match frames.next().await {
        Ok(Some(frame)) => Ok(frame),
        Ok(None) => Err("the connection was closed before the answer".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Serves an inquiry on the listener's side, after the greetings.
pub(crate) async fn serve(shared: &Shared, socket: Socket) {
    // A process that sends no question, or does not read the answer, is disconnected.
    let _ = timeout(
        shared.options.limits.greeting_timeout,
        answer(shared, socket),
    )
    .await;
}

async fn answer(shared: &Shared, socket: Socket) {
    let (read, mut write) = socket.into_inner();
    let mut frames = FrameReader::new(read, QUESTION_BYTES_MAX, None);
    let question = match frames.next().await {
        Ok(Some(frame)) if frame.role == role::PLAIN => frame,
        Ok(_) => return,
        Err(error) => return tracing::debug!("a question cannot be read: {error}"),
    };
    let kind = question.kind;
    let (role, body) = match shared.handler.inquiry(kind, question.payload) {
        Ok(body) => (role::ANSWER, body),
        Err(reason) => (role::REFUSAL, Bytes::from(reason)),
    };
    let mut outgoing = Outgoing::default();
    outgoing.push(kind, role, &[body]);
    if outgoing.write(&mut write).await.is_ok() {
        // The asking process may have closed the connection after the answer.
        let _ = write.shutdown().await;
    }
}
