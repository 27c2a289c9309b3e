//! The service grpc.health.v1.Health: the library's answers, counted like every other call.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::backend::Backend;
use crate::calls::{self, Answers, Call};
use crate::methods::Method;

pub(crate) struct HealthCheckService {
    pub(crate) backend: Arc<Backend>,
}

#[tonic::async_trait]
impl Health for HealthCheckService {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

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
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut call = Call::begin(&self.backend, Method::HealthWatch, request.metadata())?;
        match self.backend.health.watch(request).await {
            Ok(notices) => {
                let inner = notices.into_inner().boxed();
                Ok(Response::new(
                    calls::answers(Notices { inner, call }).boxed(),
                ))
            }
            Err(status) => {
                call.close(Err(&status));
                Err(status)
            }
        }
    }
}

/// The statuses for a client of `Watch`.
struct Notices {
    inner: BoxStream<'static, Result<HealthCheckResponse, Status>>,
    call: Call,
}

impl Answers for Notices {
    type Answer = HealthCheckResponse;

    async fn next(&mut self) -> Result<Option<HealthCheckResponse>, Status> {
        self.inner.next().await.transpose()
    }

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }
}
