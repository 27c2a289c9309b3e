//! Pages for developers: `/debug/vars`, and with `--enable-pprof` profiles under `/debug/pprof/`.

use std::sync::Arc;

use serde_json::json;
use tonic::body::Body;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{Method, Response, StatusCode};

use super::page::{method_not_allowed, not_found, plain, response};
use super::profile;
use crate::backend::Backend;

const PROFILES: &str = "/debug/pprof/";
/// The page of profiles, for people.
const INDEX: &str = "\
profiles of this server:

/debug/pprof/profile?seconds=30   samples of the processors' time, for `go tool pprof`
/debug/pprof/cmdline              the command line
";

/// Answers a path under `/debug/`.
pub(super) async fn answer(backend: &Arc<Backend>, parts: &Parts) -> Response<Body> {
    if parts.method != Method::GET {
        return method_not_allowed();
    }
    let path = parts.uri.path();
    if path == "/debug/vars" {
        return response(
            StatusCode::OK,
            "application/json; charset=utf-8",
            variables(backend),
        );
    }
    match path.strip_prefix(PROFILES) {
        Some(page) if backend.config.http.profiles => match page {
            "" => plain(StatusCode::OK, INDEX.to_owned()),
            "cmdline" => plain(StatusCode::OK, command_line().join("\0")),
            "profile" => profile::answer(backend, parts.uri.query()).await,
            _ => not_found(),
        },
        _ => not_found(),
    }
}

/// Command line, limits and Raft's state, under etcd's names.
fn variables(backend: &Backend) -> String {
    let status = backend.node.status();
    let member = backend.identity.member;
    let state = match (status.leader == member, backend.node.is_learner()) {
        (true, _) => "StateLeader",
        (false, true) => "StateLearner",
        (false, false) => "StateFollower",
    };
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let variables = json!({
        "cmdline": command_line(),
        "file_descriptor_limit": files.current,
        "raft.status": {
            "id": format!("{member:x}"),
            "term": status.term,
            "lead": format!("{:x}", status.leader),
            "raftState": state,
            "commit": status.index,
            "applied": status.applied_index,
        },
    });
    format!("{variables:#}\n")
}

fn command_line() -> Vec<String> {
    let words = std::env::args_os();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}
