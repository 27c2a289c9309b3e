//! Renewals of a lease, from one endpoint to the next.
//!
//! ```text
//!   renewed ──a third of its time──► renewed ──► ...
//!      │ no answer: half a second, then the next endpoint that answers
//!      └──► the lease has ended: not found, or no answer for as long as it lasts
//! ```

use std::time::Duration;

use etcd_api::etcdserverpb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use tokio::time::{Instant, sleep, sleep_until};
use tonic::{Request, Response, Status};

use super::connection::Connection;
use super::endpoints::Endpoints;
use crate::failure::Failure;

const PAUSE: Duration = Duration::from_millis(500);

/// Renewals of one lease.
pub(crate) struct KeepAlive<'a> {
    endpoints: &'a Endpoints,
    connection: Option<Connection>,
    id: i64,
    /// When the next renewal is due; `None` before the first.
    due: Option<Instant>,
    /// When the lease has ended unless it is renewed.
    ends: Option<Instant>,
}

impl KeepAlive<'_> {
    /// Renewals of a lease that nothing is known of yet.
    pub(crate) fn new(endpoints: &Endpoints, id: i64) -> KeepAlive<'_> {
        KeepAlive {
            endpoints,
            connection: None,
            id,
            due: None,
            ends: None,
        }
    }

    /// Renewals of a lease that was granted just now for `ttl` seconds.
    pub(crate) fn granted(endpoints: &Endpoints, id: i64, ttl: i64) -> KeepAlive<'_> {
        let mut renewals = KeepAlive::new(endpoints, id);
        renewals.note(ttl);
        renewals
    }

    /// Waits until the next renewal is due, and makes it; `None` once the lease has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<LeaseKeepAliveResponse>, Failure> {
        if let Some(due) = self.due {
            sleep_until(due).await;
        }
        loop {
            match (self.renew().await, self.ends) {
                (Ok(answer), _) => return Ok(answer),
                (Err(failure), None) => return Err(failure),
                (Err(_), Some(ends)) if Instant::now() >= ends => return Ok(None),
                (Err(_), Some(_)) => sleep(PAUSE).await,
            }
        }
    }

    /// Renews the lease now; `None` if it has ended.
    pub(crate) async fn renew(&mut self) -> Result<Option<LeaseKeepAliveResponse>, Failure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.endpoints.any().await?,
        };
        let message = LeaseKeepAliveRequest { id: self.id };
        let send = async |request| exchange(&connection, request).await;
        let answer = connection.call(message, send).await?;
        self.connection = Some(connection);
        if answer.ttl <= 0 {
            return Ok(None);
        }
        self.note(answer.ttl);
        Ok(Some(answer))
    }

    fn note(&mut self, ttl: i64) {
        let ttl = Duration::from_secs(ttl.unsigned_abs());
        let now = Instant::now();
        self.due = now.checked_add(ttl / 3);
        self.ends = now.checked_add(ttl);
    }
}

/// A stream of one request and one answer.
async fn exchange(
    connection: &Connection,
    request: Request<LeaseKeepAliveRequest>,
) -> Result<Response<LeaseKeepAliveResponse>, Status> {
    let (metadata, extensions, message) = request.into_parts();
    let stream = tokio_stream::once(message);
    let request = Request::from_parts(metadata, extensions, stream);
    let mut answers = connection.lease().lease_keep_alive(request).await?;
    match answers.get_mut().message().await? {
        Some(answer) => Ok(Response::new(answer)),
        None => Err(Status::unavailable(
            "the server ended the stream of renewals",
        )),
    }
}
