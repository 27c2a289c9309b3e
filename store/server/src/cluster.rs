//! The service Cluster: the list of members, and changes of the membership.
//!
//! The members of a cluster are in its log. A member that is alone and has no peer port
//! publishes neither its name nor its client URLs to the log: its list is itself, with the
//! name and client URLs of its flags.

use etcd_api::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse, ResponseHeader,
};
use revisions::{Command, Response as Outcome, validate};
use tonic::Status;

use crate::answer_body::{Answered, Handled};
use crate::backend::{Backend, answer_of};
use crate::callers::{Caller, Need};
use crate::config::Url;
use crate::reconfiguration;

/// Refusal of membership changes by a member without a peer port.
const NO_PEER_PORT: &str = "inkstone: this member began its cluster alone and listens at no peer \
                            URL: start it with --listen-peer-urls so that members can join";

pub(crate) async fn list(
    caller: Caller,
    request: MemberListRequest,
) -> Handled<MemberListResponse> {
    let backend = &caller.backend;
    if request.linearizable {
        backend.confirm_reads().await?;
    }
    // etcd's answers about members carry no revision.
    let mut header = ResponseHeader::default();
    backend.sign(&mut header);
    Ok(Answered::Small(MemberListResponse {
        header: Some(header),
        members: members(backend),
    }))
}

/// The members that this one knows.
pub(crate) fn members(backend: &Backend) -> Vec<Member> {
    match backend.alone {
        true => vec![this_member(backend)],
        false => backend.reader().members().to_messages(),
    }
}

pub(crate) async fn add(caller: Caller, request: MemberAddRequest) -> Handled<MemberAddResponse> {
    // As in etcd, before the caller is checked.
    validate::peer_urls(&request.peer_ur_ls)?;
    caller.admit(Need::Administrator).await?;
    let outcome = change(&caller, Command::MemberAdd(request)).await?;
    Ok(Answered::Small(answer_of!(MemberAdd, outcome)))
}

pub(crate) async fn remove(
    caller: Caller,
    request: MemberRemoveRequest,
) -> Handled<MemberRemoveResponse> {
    let outcome = change(&caller, Command::MemberRemove(request)).await?;
    Ok(Answered::Small(answer_of!(MemberRemove, outcome)))
}

pub(crate) async fn update(
    caller: Caller,
    request: MemberUpdateRequest,
) -> Handled<MemberUpdateResponse> {
    let outcome = change(&caller, Command::MemberUpdate(request)).await?;
    Ok(Answered::Small(answer_of!(MemberUpdate, outcome)))
}

pub(crate) async fn promote(
    caller: Caller,
    request: MemberPromoteRequest,
) -> Handled<MemberPromoteResponse> {
    let outcome = change(&caller, Command::MemberPromote(request)).await?;
    caller.backend.metrics.promotions.add(1);
    Ok(Answered::Small(answer_of!(MemberPromote, outcome)))
}

fn this_member(backend: &Backend) -> Member {
    let config = &backend.config;
    let client = config.addresses.advertise_client.iter().map(Url::as_str);
    Member {
        id: backend.identity.member,
        name: config.name.clone(),
        peer_ur_ls: backend.identity.peer_urls.clone(),
        client_ur_ls: client.map(str::to_owned).collect(),
        is_learner: false,
    }
}

/// Proposes a change of the membership. A member without a peer port refuses it, because
/// the new member could not connect to it.
async fn change(caller: &Caller, command: Command) -> Result<Outcome, Status> {
    let backend = &caller.backend;
    if backend.alone {
        return Err(Status::failed_precondition(NO_PEER_PORT));
    }
    if let Some(what) = unusable_url(&command, backend.config.members_use_tls()) {
        return Err(Status::invalid_argument(what));
    }
    reconfiguration::check(backend, &command).map_err(|refusal| refusal.to_status())?;
    backend
        .execute_for_members(caller.sign(command).await?)
        .await
}

/// Why a member could not be reached at a URL of the change; `None` if it could. A text that
/// is no URL at all is refused later, in etcd's words.
fn unusable_url(command: &Command, has_tls: bool) -> Option<String> {
    let urls = match command {
        Command::MemberAdd(request) => &request.peer_ur_ls,
        Command::MemberUpdate(request) => &request.peer_ur_ls,
        _ => return None,
    };
    urls.iter().find_map(|url| {
        let (scheme, rest) = url.trim().split_once(':')?;
        let why = match &scheme.to_ascii_lowercase()[..] {
            "https" if !has_tls => {
                "this member has no certificate for other members; start it with --peer-cert-file \
                 and --peer-key-file"
            }
            "unix" | "unixs" => "members meet over TCP; write http://host:port",
            "http" | "https" if rest.starts_with("//:") => "it has no host; write http://host:port",
            _ => return None,
        };
        Some(format!("inkstone: peer URL {url}: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_peer_urls_are_refused_with_the_remedy() {
        for (url, part) in [
            ("https://a:1", Some("--peer-cert-file")),
            ("HTTPS://a:1", Some("--peer-cert-file")),
            ("unixs://a", Some("TCP")),
            ("unix://a:1", Some("TCP")),
            ("http://:2380", Some("no host")),
            ("http://a:1", None),
            ("http://[::1]:1", None),
            ("a:1", None),
        ] {
            let peer_ur_ls = vec!["http://b:1".to_owned(), url.to_owned()];
            let add = Command::MemberAdd(MemberAddRequest {
                peer_ur_ls: peer_ur_ls.clone(),
                is_learner: true,
            });
            let update = Command::MemberUpdate(MemberUpdateRequest { id: 1, peer_ur_ls });
            for command in [add, update] {
                let refusal = unusable_url(&command, false);
                match part {
                    None => assert_eq!(refusal, None, "{url}"),
                    Some(part) => {
                        let refusal = refusal.unwrap();
                        assert!(refusal.contains(url) && refusal.contains(part), "{refusal}");
                    }
                }
            }
        }
    }
}
