//! Refusals of etcd's calls that this release does not support.
//!
//! Each refusal names what is missing and what to do instead, and is counted like every call.

use std::future::ready;

use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::callers::Caller;
use crate::calls::Call;
use crate::dispatch::Answer;
use crate::methods::Method;

const HEALTH_LIST: &str = "inkstone: grpc.health.v1.Health/List is not supported yet: ask with \
    Check, where the service \"\" stands for the whole server";

/// Answers a call that no handler serves: first as any call to a caller that may not make it.
pub(crate) fn refuse(caller: Caller, method: Method, metadata: MetadataMap) -> Answer {
    Box::pin(async move {
        let refused = match Call::begin(&caller.backend, method, &metadata) {
            Ok(call) => {
                let admitted = caller.admit(method.needs()).await;
                call.end::<()>(admitted.and_then(|()| Err(refusal(method))))
            }
            Err(status) => Err(status),
        };
        Ok(refused.expect_err("a refusal is an error").into_http())
    })
}

fn refusal(method: Method) -> Status {
    match (method, method.about().0) {
        (Method::HealthList, _) => Status::unimplemented(HEALTH_LIST),
        _ => Status::unimplemented(format!("inkstone: {method:?} is not supported yet")),
    }
}

/// Answers a call of an unknown method: of one of etcd's services without a text, of any
/// other service in grpc-go's words.
pub(crate) fn refuse_unknown(path: &str) -> Answer {
    let service = path.trim_start_matches('/');
    let service = service
        .rsplit_once('/')
        .map_or(service, |(service, _)| service);
    let serves =
        |method: &Method| method.about().0 == service && method.is_shown_before_its_first_call();
    answer(Status::unimplemented(
        match Method::ALL.iter().any(serves) {
            true => String::new(),
            false => format!("unknown service {service}"),
        },
    ))
}

fn answer(status: Status) -> Answer {
    Box::pin(ready(Ok(status.into_http())))
}
