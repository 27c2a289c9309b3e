//! Help page for a running cluster: addresses and commands.

use std::{path::Path, time::Duration};

use harness::Member;
use serde_json::Value;

use crate::process::root;

use super::layout::Layout;

const STATUS_PATIENCE: Duration = Duration::from_secs(2);

pub const WORDS: &str = "\
type  who | kill a | stop a | start a | quit   (a: any member)";

/// The whole page.
pub fn page(members: &[Member], layout: &Layout) -> String {
    let endpoints: Vec<&str> = members.iter().map(|it| it.config.client.as_str()).collect();
    let (first, last) = (endpoints[0], endpoints[endpoints.len() - 1]);
    let victim = &members[0];
    let count = match members.len() {
        1 => "1 member".to_owned(),
        many => format!("{many} members"),
    };
    format!(
        "
A cluster of {count} is ready.

{table}

Use it
  export ETCDCTL_ENDPOINTS={endpoints}
  etcdctl put greeting hello
  etcdctl endpoint status -w table
  {inkstone} put greeting hello --endpoint http://{first}
  {inkstone} get greeting --endpoint http://{last}

Lose a member and have it back
  kill -9 {pid}, or type here: kill {name}
  {inkstone} get greeting --endpoint http://{last}
  type here: start {name}

Data and logs are in {directory}; the next call goes on with them, --fresh
creates a new cluster. Ctrl-C stops all members.
{WORDS}",
        table = table(members),
        endpoints = endpoints.join(","),
        inkstone = short(&victim.program.binary),
        pid = victim.pid().unwrap_or_default(),
        name = victim.config.name,
        directory = short(&layout.directory),
    )
}

/// A row for each member.
pub fn table(members: &[Member]) -> String {
    let mut text = format!(
        "  {:6} {:7} {:>8}  {:23} {:>6} {:>9}  log",
        "member", "", "process", "clients", "term", "revision"
    );
    for member in members {
        let status = status(&member.config.client);
        let leads = match &status {
            Some(status) if status.leader.is_none() => "no lead",
            Some(status) if status.leader == status.member => "leads",
            Some(_) => "follows",
            None => "is down",
        };
        let number = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        text.push_str(&row(&[
            &member.config.name,
            leads,
            &number(member.pid().map(|pid| pid.to_string())),
            &format!("http://{}", member.config.client),
            &number(status.as_ref().and_then(|status| status.term.clone())),
            &number(status.as_ref().and_then(|status| status.revision.clone())),
            &short(&member.config.log),
        ]));
    }
    text
}

fn row(cells: &[&str; 7]) -> String {
    let [name, leads, process, clients, term, revision, log] = cells;
    format!("\n  {name:6} {leads:7} {process:>8}  {clients:23} {term:>6} {revision:>9}  {log}")
}

/// Numbers of a member's answer to Status, as texts; JSON leaves zeros out.
struct Status {
    member: Option<String>,
    leader: Option<String>,
    term: Option<String>,
    revision: Option<String>,
}

fn status(client: &str) -> Option<Status> {
    let page = harness::page::post(client, "/v3/maintenance/status", "{}", STATUS_PATIENCE).ok()?;
    let answer: Value = serde_json::from_str(&page.body).ok()?;
    let number = |place: &str| {
        answer
            .pointer(place)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    (page.status == 200).then(|| Status {
        member: number("/header/member_id"),
        leader: number("/leader"),
        term: number("/raftTerm"),
        revision: number("/header/revision"),
    })
}

/// As seen from the root of the repository, where that is possible.
pub fn short(path: &Path) -> String {
    let inside = path.strip_prefix(root()).unwrap_or(path);
    inside.display().to_string()
}
