//! Begins streams: dials for an outgoing one, and hands an incoming one to the handler.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::timeout;

use crate::dial::dial;
use crate::member::Member;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::{Lane, Stream, StreamError, StreamFrame};

/// Connects to `member` and sends the first frame. Runs on the network thread.
pub(crate) async fn open(
    shared: Arc<Shared>,
    member: Arc<Member>,
    kind: u8,
    header: Bytes,
) -> Result<Stream, StreamError> {
    let addresses = Arc::clone(&member.addresses.borrow());
    let dialled = dial(&shared, member.id, &addresses, Lane::Snapshot).await;
    let dialled = dialled.map_err(|error| StreamError::Unreachable {
        member: member.id,
        reason: error.to_string(),
    })?;
    let mut stream = Stream::new(&shared, member.id, dialled.socket);
    stream.send(kind, header).await?;
    Ok(stream)
}

/// Hands an incoming stream to the handler, and waits until the handler is done with it.
pub(crate) async fn serve(shared: &Shared, from: u64, socket: Socket) {
    let Some(_place) = shared.intake.stream(from) else {
        let line = format!("refused a stream of member {from:x}: it has too many streams open");
        return shared.warn(line);
    };
    let mut stream = Stream::new(shared, from, socket);
    match timeout(shared.options.limits.greeting_timeout, stream.receive()).await {
        Ok(Ok(Some(StreamFrame { kind, payload }))) => {
            shared.handler.stream(from, kind, payload, stream).await;
        }
        Ok(Ok(None)) => tracing::debug!(
            member = format!("{from:x}"),
            "a stream ended before its first frame"
        ),
        Ok(Err(error)) => tracing::debug!(
            member = format!("{from:x}"),
            "a stream failed before its first frame: {error}"
        ),
        Err(_) => tracing::debug!(
            member = format!("{from:x}"),
            "the first frame of a stream did not come in time"
        ),
    }
}
