//! The service grpc.health.v1.Health: the library's answers, counted like every other call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::HealthService;

use crate::backend::Backend;
use crate::calls::Call;
use crate::methods::Method;

pub(crate) struct HealthCheckService {
    pub(crate) backend: Arc<Backend>,
}

#[tonic::async_trait]
impl Health for HealthCheckService {
    type WatchStream = Notices;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let call = Call::begin(&self.backend, Method::HealthCheck, request.metadata())?;
        let outcome = self.backend.health.check(request).await;
        call.end(outcome.map(Response::into_inner))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Notices>, Status> {
        let mut call = Call::begin(&self.backend, Method::HealthWatch, request.metadata())?;
        match self.backend.health.watch(request).await {
            Ok(notices) => Ok(Response::new(Notices {
                inner: Box::pin(notices.into_inner()),
                call,
            })),
            Err(status) => {
                call.close(Err(&status));
                Err(status)
            }
        }
    }
}

/// The stream of statuses for a client of `Watch`.
pub(crate) struct Notices {
    inner: Pin<Box<<HealthService as Health>::WatchStream>>,
    call: Call,
}

impl Stream for Notices {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<HealthCheckResponse, Status>>> {
        let notice = ready!(self.inner.as_mut().poll_next(context));
        match &notice {
            Some(Ok(_)) => self.call.sent(),
            Some(Err(status)) => self.call.close(Err(status)),
            None => self.call.close(Ok(())),
        }
        Poll::Ready(notice)
    }
}
