//! Connections that come in.

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
use crate::shared::{Received, Shared};
use crate::socket::{self, Socket};
use crate::{Lane, PeerSecret, Refusal, inquiry, prove, stream, visitor};

/// Pause after the system refused to hand out a connection: out of file
/// descriptors, most often.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections until it is aborted.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((tcp, from)) => {
                let greeting = shared.greetings.enter(Some(from.ip()));
                tokio::spawn(receive(Arc::clone(&shared), tcp, greeting));
            }
            Err(error) => {
                let line = format!("cannot take a connection from another member: {error}");
                shared.refusals.warn(shared.clock.now(), line);
                sleep(REFUSED_PAUSE).await;
            }
        }
    }
}

/// The life of one connection.
async fn receive(shared: Arc<Shared>, tcp: TcpStream, greeting: Greeting) {
    let Ok(socket) = socket::prepare(tcp, &shared.limits) else {
        // It ended before it began.
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
    // A sender's addresses are its own words: what is no address is passed over.
    if check_addresses(hello.sender, &hello.addresses).is_ok() {
        shared.handler.announced(hello.sender, &hello.addresses);
    }
    if let Some(member) = shared.member(hello.sender) {
        member.dialled_us.send_replace(());
    }
    serve(&shared, hello, socket).await;
}

/// The greetings of one connection: who it is of, if it is let in. Inquiries are answered
/// here, since their senders may be strangers.
async fn let_in(shared: &Shared, mut socket: Socket) -> Option<(Hello, Socket)> {
    let meeting = meet(shared, &mut socket);
    let hello = match timeout(shared.limits.greeting_timeout, meeting).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(unmet)) => {
            turn_away(shared, socket, unmet).await;
            return None;
        }
        Err(_) => return None,
    };
    if let Err((refusal, text)) = judge(shared, &hello) {
        refuse(shared, socket, refusal, text).await;
        return None;
    }
    socket::suit(&socket, hello.lane, &shared.limits).ok()?;
    let welcome = welcome(shared, Ok(()), String::new());
    let welcomed = timeout(shared.limits.greeting_timeout, socket.write_all(&welcome)).await;
    welcomed.ok()?.ok()?;
    if hello.lane == Lane::Inquiry {
        inquiry::serve(shared, socket).await;
        return None;
    }
    Some((hello, socket))
}

/// Why a dialer's hello was not heard, or not believed.
enum Unmet {
    NoGreeting(NoGreeting),
    Refused(Refusal, String),
    /// It did not prove that it has the secret, and hears no more.
    Unproven(String),
}

impl From<NoGreeting> for Unmet {
    fn from(error: NoGreeting) -> Unmet {
        Unmet::NoGreeting(error)
    }
}

/// Waits for a hello; where there is a secret, for the proof that the dialer has it.
async fn meet(shared: &Shared, socket: &mut Socket) -> Result<Hello, Unmet> {
    let magic = greet::read_magic(socket).await?;
    let text = match (&shared.secret, magic) {
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

/// Whether the sender of `hello` may come in; if not, why.
fn judge(shared: &Shared, hello: &Hello) -> Result<(), (Refusal, String)> {
    greet::judge(hello, shared.identity)?;
    greet::compare(hello, shared.identity, &shared.agreement)?;
    if hello.lane == Lane::Inquiry {
        return Ok(());
    }
    if shared.handler.is_removed(hello.sender) {
        return Err((Refusal::Removed, greet::removed(hello.sender)));
    }
    if !admits(shared, hello.sender) {
        let text = greet::stranger(hello.sender, shared.identity);
        return Err((Refusal::Stranger, text));
    }
    Ok(())
}

/// Whether the handler knows the sender, or the secret vouches for it.
fn admits(shared: &Shared, sender: u64) -> bool {
    // The handler is asked in any case: it may have to find out about the sender.
    shared.handler.admits(sender) || shared.secret.is_some()
}

/// Answers a dialer that is no member, or none that is understood.
async fn turn_away(shared: &Shared, socket: Socket, unmet: Unmet) {
    let error = match unmet {
        Unmet::NoGreeting(error) => error,
        Unmet::Refused(refusal, text) => return refuse(shared, socket, refusal, text).await,
        Unmet::Unproven(text) => return log_refusal(shared, &socket, &text),
    };
    match error {
        NoGreeting::Foreign(first) if visitor::speaks_http(&first) => {
            log_refusal(shared, &socket, "an HTTP client came to the peer port");
            // A visitor that hangs up first needs no answer.
            let _ = visitor::answer(socket).await;
        }
        NoGreeting::Foreign(_) => {
            log_refusal(shared, &socket, "what came to the peer port is no member");
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
    // Nothing is left to do for one who does not listen.
    let _ = timeout(shared.limits.greeting_timeout, async {
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
    shared.refusals.warn(shared.clock.now(), line);
}

fn welcome(shared: &Shared, verdict: Result<(), Refusal>, reason: String) -> Vec<u8> {
    let welcome = Welcome {
        verdict,
        cluster: shared.identity.cluster,
        member: shared.identity.member,
        release: shared.release.clone(),
        reason,
    };
    welcome.encode()
}

async fn serve(shared: &Arc<Shared>, hello: Hello, socket: Socket) {
    let from = hello.sender;
    let reason = match hello.lane {
        Lane::Snapshot => return stream::serve(shared, from, socket).await,
        lane => {
            let entry = Incoming::enter(shared, from, lane);
            // It was let in by what was known before it had this place; whoever turns it
            // away from now on finds it here.
            if shared.handler.is_removed(from) || !admits(shared, from) {
                return;
            }
            tokio::select! {
                reason = serve_lane(shared, from, lane, &entry.received, socket) => reason,
                () = entry.replaced.notified() => "it is wanted no more".to_owned(),
            }
        }
    };
    let lane = hello.lane;
    tracing::debug!(member = format!("{from:x}"), %lane, "a connection that came in ended: {reason}");
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

/// Hands messages to the handler until the connection ends: why.
async fn deliver(
    shared: &Shared,
    from: u64,
    lane: Lane,
    received: &Received,
    socket: Socket,
) -> String {
    // The other half stays open: closing it would tell the sender to stop.
    let (read, _write) = socket::split(socket);
    let gate = shared.intake.gate(from);
    let mut frames = FrameReader::new(read, shared.limits.payload_bytes_max, Some(gate));
    loop {
        match frames.next().await {
            Ok(Some(frame)) => {
                received.count(lane, frame.wire_bytes());
                let (kind, payload) = (frame.kind, frame.payload);
                if let Err(reason) = shared.handler.message(from, lane, kind, payload) {
                    let line = format!("closed a connection of member {from:x}: {reason}");
                    shared.refusals.warn(shared.clock.now(), line);
                    return reason;
                }
            }
            Ok(None) => return "the member closed it".to_owned(),
            Err(error) => {
                tracing::warn!(member = format!("{from:x}"), %lane, "a connection that came in broke: {error}");
                return error.to_string();
            }
        }
    }
}

/// A connection's place among those that came in.
struct Incoming<'a> {
    shared: &'a Shared,
    key: (u64, Lane),
    replaced: Arc<Notify>,
    received: Arc<Received>,
}

impl<'a> Incoming<'a> {
    /// Ends the connection that was in this place.
    fn enter(shared: &'a Shared, from: u64, lane: Lane) -> Incoming<'a> {
        assert!(Lane::KEPT.contains(&lane), "one of many has no place");
        let replaced = Arc::new(Notify::new());
        let received = shared.received_from(from);
        let elder = shared
            .incoming()
            .insert((from, lane), Arc::clone(&replaced));
        if let Some(elder) = elder {
            elder.notify_one();
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
        let mut incoming = self.shared.incoming();
        let current = incoming.get(&self.key);
        if current.is_some_and(|current| Arc::ptr_eq(current, &self.replaced)) {
            incoming.remove(&self.key);
            drop(incoming);
            self.received.connected().remove(&self.key.1);
            self.shared.forget_received(self.key.0);
        }
    }
}
