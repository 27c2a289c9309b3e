//! The service Cluster: the list of members, and changes of the membership.
//!
//! The members of a cluster are in its log. A member that is alone and has no peer port
//! publishes neither its name nor its client URLs to the log: its list is itself, with the
//! name and client URLs of its flags.

use std::sync::Arc;

use etcd_api::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse, ResponseHeader,
};
use revisions::{Command, Response as Outcome};
use tonic::Status;

use crate::answer_body::{Answered, Handled};
use crate::backend::{Backend, answer_of};
use crate::client::Client;
use crate::config::Url;
use crate::reconfiguration;

/// Refusal of membership changes by a member without a peer port.
const NO_PEER_PORT: &str = "inkstone: this member began its cluster alone and listens at no peer \
                            URL: start it with --listen-peer-urls so that members can join";

pub(crate) async fn list(
    client: Arc<Client>,
    request: MemberListRequest,
) -> Handled<MemberListResponse> {
    let backend = &client.backend;
    if request.linearizable {
        backend.confirm_reads().await?;
    }
    // etcd's answers about members carry no revision.
    let mut header = ResponseHeader::default();
    backend.sign(&mut header);
    let members = match backend.alone {
        true => vec![this_member(backend)],
        false => backend.reader().members().to_messages(),
    };
    Ok(Answered::Small(MemberListResponse {
        header: Some(header),
        members,
    }))
}

pub(crate) async fn add(
    client: Arc<Client>,
    request: MemberAddRequest,
) -> Handled<MemberAddResponse> {
    let outcome = change(&client.backend, Command::MemberAdd(request)).await?;
    Ok(Answered::Small(answer_of!(MemberAdd, outcome)))
}

pub(crate) async fn remove(
    client: Arc<Client>,
    request: MemberRemoveRequest,
) -> Handled<MemberRemoveResponse> {
    let outcome = change(&client.backend, Command::MemberRemove(request)).await?;
    Ok(Answered::Small(answer_of!(MemberRemove, outcome)))
}

pub(crate) async fn update(
    client: Arc<Client>,
    request: MemberUpdateRequest,
) -> Handled<MemberUpdateResponse> {
    let outcome = change(&client.backend, Command::MemberUpdate(request)).await?;
    Ok(Answered::Small(answer_of!(MemberUpdate, outcome)))
}

pub(crate) async fn promote(
    client: Arc<Client>,
    request: MemberPromoteRequest,
) -> Handled<MemberPromoteResponse> {
    let outcome = change(&client.backend, Command::MemberPromote(request)).await?;
    client.backend.metrics.promotions.add(1);
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
async fn change(backend: &Arc<Backend>, command: Command) -> Result<Outcome, Status> {
    if backend.alone {
        return Err(Status::failed_precondition(NO_PEER_PORT));
    }
    if let Some(what) = unusable_url(&command) {
        return Err(Status::invalid_argument(what));
    }
    reconfiguration::check(backend, &command).map_err(|refusal| refusal.to_status())?;
    backend.execute_for_members(command).await
}

/// Why a member could not be reached at a URL of the change; `None` if it could. A text that
/// is no URL at all is refused later, in etcd's words.
fn unusable_url(command: &Command) -> Option<String> {
    let urls = match command {
        Command::MemberAdd(request) => &request.peer_ur_ls,
        Command::MemberUpdate(request) => &request.peer_ur_ls,
        _ => return None,
    };
    urls.iter().find_map(|url| {
        let (scheme, rest) = url.trim().split_once(':')?;
        let why = match &scheme.to_ascii_lowercase()[..] {
            "https" | "unixs" => "TLS between members is not supported yet",
            "unix" => "members meet over TCP",
            "http" if rest.starts_with("//:") => "it has no host",
            _ => return None,
        };
        Some(format!(
            "inkstone: peer URL {url}: {why}; write http://host:port"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_peer_urls_are_refused_with_the_remedy() {
        for (url, part) in [
            ("https://a:1", Some("TLS")),
            ("HTTPS://a:1", Some("TLS")),
            ("unixs://a", Some("TLS")),
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
                let refusal = unusable_url(&command);
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
