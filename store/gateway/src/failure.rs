//! Errors as the gateway answers them: JSON, and a code of HTTP.

use serde_json::json;
use tonic::codegen::http::StatusCode;
use tonic::{Code, Status};

/// The code of HTTP for a code of gRPC.
pub fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        // "Client closed request": a code that has no name in the standard.
        Code::Cancelled => StatusCode::from_u16(499).expect("a code of three digits"),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The answer of a call that failed: `{"code":3,"message":"…"}`.
pub fn of_call(status: &Status) -> String {
    body(status).to_string()
}

/// The line with which a stream ends that failed: `{"error":{"code":3,"message":"…"}}`.
pub fn in_stream(status: &Status) -> String {
    let mut line = json!({ "error": body(status) }).to_string();
    line.push('\n');
    line
}

/// As everywhere in the gateway, a field with its default value is left out.
fn body(status: &Status) -> serde_json::Value {
    let code = i32::from(status.code());
    match status.message() {
        "" => json!({ "code": code }),
        message => json!({ "code": code, "message": message }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_grpc_gateway_s_status() {
        let expected = [
            200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401,
        ];
        for (code, status) in expected.into_iter().enumerate() {
            let code = Code::from(code as i32);
            assert_eq!(http_status(code).as_u16(), status, "{code}");
        }
    }

    #[test]
    fn a_failure_is_its_code_and_its_message() {
        let status = Status::not_found("Not \"Found\"");
        assert_eq!(of_call(&status), r#"{"code":5,"message":"Not \"Found\""}"#);
        let unknown = Status::unknown("");
        assert_eq!(in_stream(&unknown), "{\"error\":{\"code\":2}}\n");
    }
}
