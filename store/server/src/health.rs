//! The service grpc.health.v1.Health: the library's answers, counted like every other call.

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use tonic::{Request, Status};
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::answer_body::{Answered, Handled};
use crate::callers::Caller;
use crate::calls::{self, Answers, Call};

pub(crate) async fn check(
    caller: Caller,
    request: HealthCheckRequest,
) -> Handled<HealthCheckResponse> {
    let answer = caller.backend.health.check(Request::new(request)).await?;
    Ok(Answered::Small(answer.into_inner()))
}

pub(crate) fn watch(
    caller: Caller,
    call: Call,
    request: HealthCheckRequest,
) -> impl Stream<Item = Result<HealthCheckResponse, Status>> {
    calls::answers(Notices {
        caller,
        call,
        asked: Some(request),
        statuses: stream::empty().boxed(),
    })
}

/// The statuses for a client of `Watch`.
struct Notices {
    caller: Caller,
    call: Call,
    /// The request, until the library knows of it.
    asked: Option<HealthCheckRequest>,
    statuses: BoxStream<'static, Result<HealthCheckResponse, Status>>,
}

impl Answers for Notices {
    type Answer = HealthCheckResponse;

    async fn next(&mut self) -> Result<Option<HealthCheckResponse>, Status> {
        if let Some(request) = self.asked.take() {
            let health = &self.caller.backend.health;
            self.statuses = health
                .watch(Request::new(request))
                .await?
                .into_inner()
                .boxed();
        }
        self.statuses.next().await.transpose()
    }

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }
}
