//! Incoming connections: greetings, refusals, and delivery of messages to the handler.

use std::sync::Arc;
use std::time::Duration;

use tls::{Accepts, Greeting};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::format::{Hello, MAGIC, Welcome};
use crate::frames::FrameReader;
use crate::greet::{self, NoGreeting};
use crate::member::check_addresses;
use crate::secure::Accepted;
use crate::senders::Received;
use crate::shared::Shared;
use crate::socket::{self, Socket};
use crate::{Lane, PeerSecret, Refusal, inquiry, open_stream, prove, visitor};

/// Pause after `accept` failed, most often because the process has no file descriptor left.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until it is aborted.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener, accepts: Option<Accepts>) {
    loop {
        match listener.accept().await {
            Ok((tcp, from)) => {
                let greeting = shared.greetings.enter(Some(from.ip()));
                tokio::spawn(receive(Arc::clone(&shared), tcp, accepts, greeting));
            }
            Err(error) => {
                let line = format!("cannot take a connection from another member: {error}");
                shared.warn(line);
                sleep(REFUSED_PAUSE).await;
            }
        }
    }
}

/// Serves one connection from its greeting to its end.
async fn receive(
    shared: Arc<Shared>,
    tcp: TcpStream,
    accepts: Option<Accepts>,
    greeting: Greeting,
) {
    if socket::prepare(&tcp, &shared.options.limits).is_err() {
        // The connection has already ended.
        return;
    }
    let entering = async {
        let socket = begin(&shared, tcp, accepts).await?;
        let_in(&shared, socket).await
    };
    let let_in = tokio::select! {
        let_in = entering => let_in,
        () = greeting.ended() => return,
    };
    drop(greeting);
    let Some((hello, socket)) = let_in else {
        return;
    };
    // The addresses come from the sender and are ignored if they are invalid.
    if check_addresses(hello.sender, &hello.addresses).is_ok() {
        shared.handler.announced(hello.sender, &hello.addresses);
    }
    if let Some(member) = shared.member(hello.sender) {
        member.dialled_us.send_replace(());
    }
    serve(&shared, hello, socket).await;
}

/// The socket of an accepted connection, after its TLS handshake if there is one.
async fn begin(shared: &Shared, tcp: TcpStream, accepts: Option<Accepts>) -> Option<Socket> {
    let accepted = match (accepts, &shared.options.tls) {
        (None, _) => Accepted::Plain(tcp),
        (Some(accepts), Some(tls)) => tls.accept(tcp, accepts).await?,
        (Some(_), None) => {
            shared.warn("a listener accepts TLS, and there is no certificate".to_owned());
            return None;
        }
    };
    Some(socket::split(accepted))
}

/// Exchanges the greetings of one connection. Returns the hello and the socket if the sender
/// is let in. An inquiry is answered here and returns `None`, because its sender need not be
/// a member.
async fn let_in(shared: &Shared, mut socket: Socket) -> Option<(Hello, Socket)> {
    let meeting = meet(shared, &mut socket);
    let hello = match timeout(shared.options.limits.greeting_timeout, meeting).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(error)) => {
            refuse_unmet(shared, socket, error).await;
            return None;
        }
        Err(_) => {
            let seconds = shared.options.limits.greeting_timeout.as_secs();
            let text = format!(
                "its greeting was not complete after {seconds} s: find out what connects to the \
                 peer port and does not speak as a member does; a firewall can keep it out"
            );
            log_refusal(shared, &socket, &text);
            return None;
        }
    };
    if let Err((refusal, text)) = judge(shared, &hello) {
        refuse(shared, socket, refusal, text).await;
        return None;
    }
    socket::suit(&socket, hello.lane, &shared.options.limits).ok()?;
    let welcome = welcome(shared, Ok(()), String::new());
    let welcomed = timeout(
        shared.options.limits.greeting_timeout,
        socket.write_all(&welcome),
    )
    .await;
    welcomed.ok()?.ok()?;
    if hello.lane == Lane::Inquiry {
        inquiry::serve(shared, socket).await;
        return None;
    }
    Some((hello, socket))
}

/// Waits for a hello, and before it for the dialer's proof if this member has a secret.
async fn meet(shared: &Shared, socket: &mut Socket) -> Result<Hello, NoGreeting> {
    let magic = greet::read_magic(socket).await?;
    let text = match (&shared.options.secret, magic) {
        (Some(secret), prove::MAGIC) => return meet_proven(secret, socket).await,
        (None, prove::MAGIC) => {
            "the sender has a peer secret, and this member has none; start both with the same \
             --peer-secret-file, or both without"
        }
        (None, MAGIC) => return greet::hello_behind_magic(socket).await,
        (Some(_), MAGIC) => {
            greet::hello_behind_magic(socket).await?;
            "this member has a peer secret, and the sender has none; start both with the same \
             --peer-secret-file, or both without"
        }
        (_, foreign) => return Err(NoGreeting::Foreign(foreign)),
    };
    Err(NoGreeting::Refused(Refusal::Secret, text.to_owned()))
}

async fn meet_proven(secret: &PeerSecret, socket: &mut Socket) -> Result<Hello, NoGreeting> {
    let proven = prove::listener(socket, secret).await?;
    greet::expect_magic(socket).await?;
    let hello = greet::hello_behind_magic(socket).await?;
    if proven != prove::Ids::of(&hello) {
        let text = "the hello has other ids than the proof before it".to_owned();
        return Err(NoGreeting::Refused(Refusal::Damaged, text));
    }
    Ok(hello)
}

/// Decides whether the sender of `hello` is let in; the error is the reason for a refusal.
fn judge(shared: &Shared, hello: &Hello) -> Result<(), (Refusal, String)> {
    if hello.lane == Lane::Inquiry {
        return Ok(());
    }
    greet::judge(hello, &shared.options)?;
    if shared.handler.is_removed(hello.sender) {
        return Err((Refusal::Removed, greet::removed(hello.sender)));
    }
    if !admits(shared, hello.sender) {
        let text = greet::stranger(hello.sender, shared.options.member_id);
        return Err((Refusal::Stranger, text));
    }
    Ok(())
}

/// Whether the handler admits the sender, or the sender has proved the secret.
fn admits(shared: &Shared, sender: u64) -> bool {
    // The handler is called in both cases: it may have to find out about the sender.
    shared.handler.admits(sender) || shared.options.secret.is_some()
}

/// Answers a dialer after a missing, unreadable or refused hello.
async fn refuse_unmet(shared: &Shared, socket: Socket, error: NoGreeting) {
    match error {
        NoGreeting::Foreign(first) if visitor::speaks_http(&first) => {
            log_refusal(shared, &socket, "an HTTP client connected to the peer port");
            // A client that has closed the connection needs no answer.
            let _ = visitor::answer(socket).await;
        }
        NoGreeting::Foreign(_) => {
            log_refusal(
                shared,
                &socket,
                "the first bytes are not the greeting of a member",
            );
        }
        NoGreeting::Unreadable(unreadable) => {
            let (refusal, text) = greet::explain(unreadable);
            refuse(shared, socket, refusal, text).await;
        }
        NoGreeting::Refused(refusal, text) => refuse(shared, socket, refusal, text).await,
        NoGreeting::Unproven(text) => log_refusal(shared, &socket, &text),
        NoGreeting::Io(_) => {}
    }
}

async fn refuse(shared: &Shared, mut socket: Socket, refusal: Refusal, text: String) {
    log_refusal(shared, &socket, &text);
    let welcome = welcome(shared, Err(refusal), text);
    // A dialer that does not read the refusal is disconnected all the same.
    let _ = timeout(shared.options.limits.greeting_timeout, async {
        socket.write_all(&welcome).await?;
        socket.shutdown().await
    })
    .await;
}

fn log_refusal(shared: &Shared, socket: &Socket, text: &str) {
    let from = match socket::peer_addr(socket) {
        Ok(address) => address.ip().to_string(),
        Err(_) => "an unknown address".to_owned(),
    };
    let line = format!("refused a connection from {from}: {text}");
    shared.warn(line);
}

fn welcome(shared: &Shared, verdict: Result<(), Refusal>, reason: String) -> Vec<u8> {
    let welcome = Welcome {
        verdict,
        cluster: shared.options.cluster_id,
        member: shared.options.member_id,
        release: shared.options.release.clone(),
        reason,
    };
    welcome.encode()
}

async fn serve(shared: &Arc<Shared>, hello: Hello, socket: Socket) {
    let (from, lane) = (hello.sender, hello.lane);
    if lane == Lane::Snapshot {
        return open_stream::serve(shared, from, socket).await;
    }
    let entry = Incoming::enter(shared, from, lane);
    // `judge` ran before this entry existed, so a removal in between could not find the
    // connection. A later `Peers::disconnect` does.
    if shared.handler.is_removed(from) || !admits(shared, from) {
        return;
    }
    let reason = tokio::select! {
        reason = deliver(shared, from, lane, &entry.received, socket) => reason,
        () = entry.replaced.notified() => {
            "a newer connection replaced it, or the member was turned away".to_owned()
        }
    };
    tracing::debug!(member = format!("{from:x}"), %lane, "an incoming connection ended: {reason}");
}

/// Hands messages to the handler until the connection ends. Returns the reason of the end.
async fn deliver(
    shared: &Shared,
    from: u64,
    lane: Lane,
    received: &Received,
    socket: Socket,
) -> String {
    // The write half stays open, because the sender takes its end for the connection's.
    let (read, _write) = socket.into_inner();
    let gate = shared.intake.gate(from);
    let mut frames = FrameReader::new(read, shared.options.limits.payload_bytes_max, Some(gate));
    loop {
        match frames.next().await {
            Ok(Some(frame)) => {
                received.count(lane, frame.wire_bytes());
                let (kind, payload) = (frame.kind, frame.payload);
                if let Err(reason) = shared.handler.message(from, lane, kind, payload) {
                    let line = format!("closed a connection of member {from:x}: {reason}");
                    shared.warn(line);
                    received.count_failure();
                    return reason;
                }
            }
            Ok(None) => return "the member closed it".to_owned(),
            Err(error) => {
                received.count_failure();
                tracing::warn!(
                    member = format!("{from:x}"),
                    %lane,
                    "an incoming connection broke: {error}"
                );
                return error.to_string();
            }
        }
    }
}

/// Entry of a connection in the table of incoming connections.
struct Incoming<'a> {
    shared: &'a Shared,
    key: (u64, Lane),
    replaced: Arc<Notify>,
    received: Arc<Received>,
}

impl<'a> Incoming<'a> {
    /// Adds a connection, and ends the older one of the same sender and lane.
    fn enter(shared: &'a Shared, from: u64, lane: Lane) -> Incoming<'a> {
        assert!(Lane::KEPT.contains(&lane), "the {lane} lane may have many");
        let replaced = Arc::new(Notify::new());
        let received = shared.senders.received_from(from);
        let older = shared
            .senders
            .incoming()
            .insert((from, lane), Arc::clone(&replaced));
        if let Some(older) = older {
            older.notify_one();
        }
        received.connected().insert(lane);
        Incoming {
            shared,
            key: (from, lane),
            replaced,
            received,
        }
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        let mut incoming = self.shared.senders.incoming();
        let current = incoming.get(&self.key);
        if current.is_some_and(|current| Arc::ptr_eq(current, &self.replaced)) {
            incoming.remove(&self.key);
            drop(incoming);
            self.received.connected().remove(&self.key.1);
            self.shared.forget_received(self.key.0);
        }
    }
}
