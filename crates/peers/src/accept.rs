//! Connections that come in.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::format::{Hello, Welcome};
use crate::frames::FrameReader;
use crate::greet::{self, NoGreeting};
use crate::shared::{Received, Shared};
use crate::socket::{self, Socket};
use crate::{Lane, Refusal, answers, inquiry, stream, visitor};

/// Pause after the system refused to hand out a connection: out of file
/// descriptors, most often.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections until it is aborted.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let permit = Arc::clone(&shared.greetings).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((tcp, _)) => {
                tokio::spawn(receive(Arc::clone(&shared), tcp, permit));
            }
            Err(error) => {
                tracing::warn!("cannot take a connection from another member: {error}");
                sleep(REFUSED_PAUSE).await;
            }
        }
    }
}

/// The life of one connection.
async fn receive(shared: Arc<Shared>, tcp: TcpStream, permit: OwnedSemaphorePermit) {
    let Ok(mut socket) = socket::prepare(tcp, &shared.limits) else {
        // It ended before it began.
        return;
    };
    let greeting = greet::receive(&mut socket);
    let hello = match timeout(shared.limits.greeting_timeout, greeting).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(error)) => return turn_away(&shared, socket, error).await,
        Err(_) => return,
    };
    let judged = greet::judge(&hello, shared.identity);
    let judged = judged.and_then(|()| greet::compare(&hello, shared.identity, &shared.agreement));
    if let Err((refusal, text)) = judged {
        return refuse(&shared, socket, refusal, text).await;
    }
    if shared.handler.is_removed(hello.sender) {
        let text = greet::removed(hello.sender);
        return refuse(&shared, socket, Refusal::Removed, text).await;
    }
    if hello.lane != Lane::Inquiry && !shared.handler.admits(hello.sender) {
        let text = greet::stranger(hello.sender, shared.identity);
        return refuse(&shared, socket, Refusal::Stranger, text).await;
    }
    if socket::suit(&socket, hello.lane, &shared.limits).is_err() {
        return;
    }
    let welcome = welcome(&shared, Ok(()), String::new());
    let Ok(Ok(())) = timeout(shared.limits.greeting_timeout, socket.write_all(&welcome)).await
    else {
        return;
    };
    if hello.lane == Lane::Inquiry {
        // Counted with the greetings: strangers are many, and nobody knows them.
        return inquiry::serve(&shared, socket).await;
    }
    drop(permit);
    if let Some(member) = shared.member(hello.sender) {
        member.dialled_us.send_replace(());
    }
    serve(&shared, hello, socket).await;
}

/// Answers who is no member, or none that we understand.
async fn turn_away(shared: &Shared, socket: Socket, error: NoGreeting) {
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
            if shared.handler.is_removed(from) || !shared.handler.admits(from) {
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
    match lane {
        Lane::Request => answers::serve(shared, from, received, socket).await,
        lane => deliver(shared, from, lane, received, socket).await,
    }
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
    let mut frames = FrameReader::new(read, shared.limits.payload_bytes_max);
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
