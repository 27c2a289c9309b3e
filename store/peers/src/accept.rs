//! Incoming connections: greetings, refusals, and delivery of messages to the handler.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::format::{Hello, MAGIC, Welcome};
use crate::frames::FrameReader;
use crate::greet::{self, NoGreeting};
use crate::greetings::Greeting;
use crate::member::check_addresses;
use crate::senders::Received;
use crate::shared::Shared;
use crate::socket::{self, Socket};
use crate::{Lane, PeerSecret, Refusal, inquiry, open_stream, prove, visitor};

/// Pause after `accept` failed, most often because the process has no file descriptor left.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until it is aborted.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((tcp, from)) => {
                let greeting = shared.greetings.enter(Some(from.ip()));
                tokio::spawn(receive(Arc::clone(&shared), tcp, greeting));
            }
            Err(error) => {
                let line = format!("cannot take a connection from another member: {error}");
                shared.refusals.warn(shared.local.clock.now(), line);
                sleep(REFUSED_PAUSE).await;
            }
        }
    }
}

/// Serves one connection from its greeting to its end.
async fn receive(shared: Arc<Shared>, tcp: TcpStream, greeting: Greeting) {
    let Ok(socket) = socket::prepare(tcp, &shared.local.limits) else {
        // The connection has already ended.
        return;
    };
    let let_in = tokio::select! {
        let_in = let_in(&shared, socket) => let_in,
        () = greeting.ended() => return,
    };
    drop(greeting);
    let Some((hello, socket)) = let_in else {
        return;
    };
    // The addresses come from the sender and are ignored if they are invalid.
    if check_addresses(hello.sender, &hello.addresses).is_ok() {
        shared
            .local
            .handler
            .announced(hello.sender, &hello.addresses);
    }
    if let Some(member) = shared.member(hello.sender) {
        member.dialled_us.send_replace(());
    }
    serve(&shared, hello, socket).await;
}

/// Exchanges the greetings of one connection. Returns the hello and the socket if the sender
/// is let in. An inquiry is answered here and returns `None`, because its sender need not be
/// a member.
async fn let_in(shared: &Shared, mut socket: Socket) -> Option<(Hello, Socket)> {
    let meeting = meet(shared, &mut socket);
    let hello = match timeout(shared.local.limits.greeting_timeout, meeting).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(unmet)) => {
            refuse_unmet(shared, socket, unmet).await;
            return None;
        }
        Err(_) => return None,
    };
    if let Err((refusal, text)) = judge(shared, &hello) {
        refuse(shared, socket, refusal, text).await;
        return None;
    }
    socket::suit(&socket, hello.lane, &shared.local.limits).ok()?;
    let welcome = welcome(shared, Ok(()), String::new());
    let welcomed = timeout(
        shared.local.limits.greeting_timeout,
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

/// Why a dialer was not let in before its hello could be judged.
enum Unmet {
    NoGreeting(NoGreeting),
    Refused(Refusal, String),
    /// The dialer did not prove that it has the secret. It gets no answer; this is the line
    /// for the log.
    Unproven(String),
}

impl From<NoGreeting> for Unmet {
    fn from(error: NoGreeting) -> Unmet {
        Unmet::NoGreeting(error)
    }
}

/// Waits for a hello, and before it for the dialer's proof if this member has a secret.
async fn meet(shared: &Shared, socket: &mut Socket) -> Result<Hello, Unmet> {
    let magic = greet::read_magic(socket).await?;
    let text = match (&shared.local.secret, magic) {
        (Some(secret), prove::MAGIC) => return meet_proven(secret, socket).await,
        (None, prove::MAGIC) => {
            "the sender has a peer secret, and this member has none; start both with the same \
             --peer-secret-file, or both without"
        }
        (None, MAGIC) => return Ok(greet::receive_behind_magic(socket).await?),
        (Some(_), MAGIC) => {
            greet::receive_behind_magic(socket).await?;
            "this member has a peer secret, and the sender has none; start both with the same \
             --peer-secret-file, or both without"
        }
        (_, foreign) => return Err(NoGreeting::Foreign(foreign).into()),
    };
    Err(Unmet::Refused(Refusal::Secret, text.to_owned()))
}

async fn meet_proven(secret: &PeerSecret, socket: &mut Socket) -> Result<Hello, Unmet> {
    let proven = prove::listener(socket, secret).await;
    let proven = proven.map_err(Unmet::Unproven)?;
    let hello = greet::receive(socket).await?;
    if proven != prove::Ids::of(&hello) {
        let text = "the hello has other ids than the proof before it".to_owned();
        return Err(Unmet::Refused(Refusal::Damaged, text));
    }
    Ok(hello)
}

/// Decides whether the sender of `hello` is let in; the error is the reason for a refusal.
fn judge(shared: &Shared, hello: &Hello) -> Result<(), (Refusal, String)> {
    greet::judge(hello, shared.local.identity)?;
    greet::compare(hello, shared.local.identity, &shared.local.agreement)?;
    if hello.lane == Lane::Inquiry {
        return Ok(());
    }
    if shared.local.handler.is_removed(hello.sender) {
        return Err((Refusal::Removed, greet::removed(hello.sender)));
    }
    if !admits(shared, hello.sender) {
        let text = greet::stranger(hello.sender, shared.local.identity);
        return Err((Refusal::Stranger, text));
    }
    Ok(())
}

/// Whether the handler admits the sender, or the sender has proved the secret.
fn admits(shared: &Shared, sender: u64) -> bool {
    // The handler is called in both cases: it may have to find out about the sender.
    shared.local.handler.admits(sender) || shared.local.secret.is_some()
}

/// Answers a dialer after a missing, unreadable or refused hello.
async fn refuse_unmet(shared: &Shared, socket: Socket, unmet: Unmet) {
    let error = match unmet {
        Unmet::NoGreeting(error) => error,
        Unmet::Refused(refusal, text) => return refuse(shared, socket, refusal, text).await,
        Unmet::Unproven(text) => return log_refusal(shared, &socket, &text),
    };
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
        NoGreeting::Io(_) => {}
    }
}

async fn refuse(shared: &Shared, mut socket: Socket, refusal: Refusal, text: String) {
    log_refusal(shared, &socket, &text);
    let welcome = welcome(shared, Err(refusal), text);
    // A dialer that does not read the refusal is disconnected all the same.
    let _ = timeout(shared.local.limits.greeting_timeout, async {
        socket.write_all(&welcome).await?;
        socket.shutdown().await
    })
    .await;
}

fn log_refusal(shared: &Shared, socket: &Socket, text: &str) {
    let from = match socket.peer_addr() {
        Ok(address) => address.ip().to_string(),
        Err(_) => "an unknown address".to_owned(),
    };
    let line = format!("refused a connection from {from}: {text}");
    shared.refusals.warn(shared.local.clock.now(), line);
}

fn welcome(shared: &Shared, verdict: Result<(), Refusal>, reason: String) -> Vec<u8> {
    let welcome = Welcome {
        verdict,
        cluster: shared.local.identity.cluster,
        member: shared.local.identity.member,
        release: shared.local.release.clone(),
        reason,
    };
    welcome.encode()
}

async fn serve(shared: &Arc<Shared>, hello: Hello, socket: Socket) {
    let from = hello.sender;
    let reason = match hello.lane {
        Lane::Snapshot => return open_stream::serve(shared, from, socket).await,
        lane => {
            let entry = Incoming::enter(shared, from, lane);
            // `judge` ran before this entry existed, so a removal in between could not find
            // the connection. A later `Peers::disconnect` does.
            if shared.local.handler.is_removed(from) || !admits(shared, from) {
                return;
            }
            tokio::select! {
                reason = serve_lane(shared, from, lane, &entry.received, socket) => reason,
                () = entry.replaced.notified() => {
                    "a newer connection replaced it, or the member was turned away".to_owned()
                }
            }
        }
    };
    let lane = hello.lane;
    tracing::debug!(member = format!("{from:x}"), %lane, "an incoming connection ended: {reason}");
}

async fn serve_lane(
    shared: &Arc<Shared>,
    from: u64,
    lane: Lane,
    received: &Received,
    socket: Socket,
) -> String {
    deliver(shared, from, lane, received, socket).await
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
    let (read, _write) = socket::split(socket);
    let gate = shared.intake.gate(from);
    let mut frames = FrameReader::new(read, shared.local.limits.payload_bytes_max, Some(gate));
    loop {
        match frames.next().await {
            Ok(Some(frame)) => {
                received.count(lane, frame.wire_bytes());
                let (kind, payload) = (frame.kind, frame.payload);
                if let Err(reason) = shared.local.handler.message(from, lane, kind, payload) {
                    let line = format!("closed a connection of member {from:x}: {reason}");
                    shared.refusals.warn(shared.local.clock.now(), line);
                    return reason;
                }
            }
            Ok(None) => return "the member closed it".to_owned(),
            Err(error) => {
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
