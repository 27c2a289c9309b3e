//! The scripts' words about members.

use etcd_api::etcdserverpb::{
    Member, MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest, MemberUpdateRequest,
};
use revisions::{Command, MemberPublishRequest, Members, Response};

use crate::script::Words;

pub fn command(words: &mut Words<'_>) -> Command {
    match words.next() {
        "add" => Command::MemberAdd(MemberAddRequest {
            peer_ur_ls: urls(words),
            is_learner: words.take("learner"),
        }),
        "remove" => Command::MemberRemove(MemberRemoveRequest { id: id(words) }),
        "promote" => Command::MemberPromote(MemberPromoteRequest { id: id(words) }),
        "update" => Command::MemberUpdate(MemberUpdateRequest {
            id: id(words),
            peer_ur_ls: urls(words),
        }),
        "publish" => Command::MemberPublish(MemberPublishRequest {
            id: id(words),
            name: words.next().into(),
            client_urls: urls(words),
        }),
        other => panic!("nothing that members do: {other}"),
    }
}

fn id(words: &mut Words<'_>) -> u64 {
    u64::from_str_radix(words.next(), 16).expect("a hexadecimal id")
}

fn urls(words: &mut Words<'_>) -> Vec<String> {
    let list = words.next().replace("''", "");
    let urls = list.split(',').filter(|url| !url.is_empty());
    urls.map(str::to_owned).collect()
}

pub fn show(response: &Response) -> String {
    match response {
        Response::MemberAdd(answer) => {
            let member = answer.member.as_ref().expect("the one that was added");
            format!("{:x}\n{}", member.id, lines(&answer.members))
        }
        Response::MemberRemove(answer) => lines(&answer.members),
        Response::MemberUpdate(answer) => lines(&answer.members),
        Response::MemberPromote(answer) => lines(&answer.members),
        Response::MemberPublish(_) => "ok".into(),
        other => panic!("not about members: {other:?}"),
    }
}

pub fn list(members: &Members) -> String {
    let removed: Vec<_> = members.removed().map(|id| format!("{id:x}")).collect();
    format!("{}  removed {removed:?}", lines(&members.to_messages()))
}

fn lines(members: &[Member]) -> String {
    let line = |it: &Member| {
        let role = if it.is_learner { "learner" } else { "voter" };
        let (peers, clients) = (it.peer_ur_ls.join(","), it.client_ur_ls.join(","));
        format!("  {:x} {role} '{}' {peers} '{clients}'\n", it.id, it.name)
    };
    members.iter().map(line).collect()
}
