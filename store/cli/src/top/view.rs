//! The text of `top`: a line about the cluster, a row for each member, the hottest prefixes.

use etcd_api::etcdserverpb::StatusResponse;

use super::Known;
use super::reading::{MemberReading, Reading, is_leader};
use crate::client::printable;
use crate::table::{Table, size};

const PREFIXES_SHOWN: usize = 10;
/// Stands where nothing is known.
const UNKNOWN: &str = "-";

const COLUMNS: [&str; 15] = [
    "<NAME",
    "<ENDPOINT",
    "<ROLE",
    "TERM",
    "INDEX",
    "LAG",
    "PUT/s",
    "RANGE/s",
    "TXN/s",
    "FLUSH",
    "FLUSH 99%",
    "DB SIZE",
    "IN USE",
    "<ID",
    "<ERRORS",
];

/// The whole text, without anything that a terminal would take for a command.
pub(super) fn text(known: &Known) -> String {
    let mut table = Table::new(COLUMNS);
    let members = known.now.members.iter().zip(&known.before.members);
    for (now, before) in members {
        table.row(row(known, now, before));
    }
    let mut text = format!(
        "{}\n\n{}",
        headline(&known.now, &known.before),
        lines(&table)
    );
    if let Some(prefixes) = &known.prefixes {
        let mut table = Table::new(["EVENTS/s", "<PREFIX"]);
        for (prefix, rate) in prefixes.hottest(PREFIXES_SHOWN) {
            table.row(vec![format!("{rate:.1}"), printable(prefix)]);
        }
        text += &match prefixes.interruption() {
            "" => format!("\n{}", lines(&table)),
            reason => format!("\nno watch of the keys: {}\n", printable(reason.as_bytes())),
        };
    }
    text
}

fn lines(table: &Table) -> String {
    let mut bytes = Vec::new();
    table.write(&mut bytes).expect("a Vec takes every byte");
    String::from_utf8(bytes).expect("a table is text")
}

fn statuses(reading: &Reading) -> impl Iterator<Item = &StatusResponse> {
    let members = reading.members.iter();
    members.filter_map(|member| member.status.as_ref().ok())
}

fn headline(now: &Reading, before: &Reading) -> String {
    let revision = |reading: &Reading| {
        let headers = statuses(reading).filter_map(|status| status.header);
        headers.map(|header| header.revision).max()
    };
    let cluster = statuses(now).find_map(|status| status.header);
    let cluster = cluster.map_or(UNKNOWN.to_owned(), |it| format!("{:x}", it.cluster_id));
    let leader = statuses(now)
        .map(|status| status.leader)
        .find(|it| *it != 0);
    let leader = leader.map_or("none".to_owned(), |id| name_of(now, id));
    let (reached, all) = (statuses(now).count(), now.members.len());
    let newest = revision(now).map_or(UNKNOWN.to_owned(), |it| it.to_string());
    let rate = revision(now)
        .zip(revision(before))
        .and_then(|(now_at, before_at)| rate(now, before, now_at as f64, before_at as f64));
    format!(
        "cluster {cluster}   leader {leader}   {reached} of {all} members answer   \
         revision {newest} ({}/s)",
        number(rate)
    )
}

fn name_of(reading: &Reading, id: u64) -> String {
    match reading.names.get(&id).filter(|name| !name.is_empty()) {
        Some(name) => printable(name.as_bytes()),
        None => format!("{id:x}"),
    }
}

fn row(known: &Known, now: &MemberReading, before: &MemberReading) -> Vec<String> {
    let endpoint = printable(now.endpoint.as_bytes());
    let status = match &now.status {
        Ok(status) => status,
        Err(reason) => {
            let mut row = vec![UNKNOWN.to_owned(); COLUMNS.len()];
            row[1] = endpoint;
            row[2] = "down".to_owned();
            row[COLUMNS.len() - 1] = printable(reason.as_bytes());
            return row;
        }
    };
    let id = status.header.map_or(0, |header| header.member_id);
    let lag = known
        .now
        .newest_index()
        .saturating_sub(status.raft_applied_index);
    let mut row = vec![
        name_of(&known.now, id),
        endpoint,
        role(status).to_owned(),
        status.raft_term.to_string(),
        status.raft_index.to_string(),
        lag.to_string(),
    ];
    row.extend(rates(known, now, before));
    row.extend([
        size(status.db_size.unsigned_abs()),
        size(status.db_size_in_use.unsigned_abs()),
        format!("{id:x}"),
        printable(status.errors.join(", ").as_bytes()),
    ]);
    row
}

fn role(status: &StatusResponse) -> &'static str {
    match status {
        status if is_leader(status) => "leader",
        StatusResponse {
            is_learner: true, ..
        } => "learner",
        StatusResponse { leader: 0, .. } => "no leader",
        _ => "follower",
    }
}

/// Puts, ranges and transactions each second, and times of flushes.
fn rates(known: &Known, now: &MemberReading, before: &MemberReading) -> [String; 5] {
    let Some((new, old)) = now.metrics.as_ref().zip(before.metrics.as_ref()) else {
        return [UNKNOWN; 5].map(str::to_owned);
    };
    let rate = |new, old| number(rate(&known.now, &known.before, new, old));
    let flushes = new.flushes.since(&old.flushes);
    [
        rate(new.puts, old.puts),
        rate(new.ranges, old.ranges),
        rate(new.txns, old.txns),
        milliseconds(flushes.mean()),
        milliseconds(flushes.bound_of_most()),
    ]
}

/// Growth of a counter each second; `None` if it has begun again, or no time has passed.
fn rate(now: &Reading, before: &Reading, new: f64, old: f64) -> Option<f64> {
    let seconds = now.since(before).as_secs_f64();
    (seconds > 0.0 && new >= old).then(|| (new - old) / seconds)
}

fn number(number: Option<f64>) -> String {
    number.map_or(UNKNOWN.to_owned(), |number| format!("{number:.1}"))
}

fn milliseconds(seconds: Option<f64>) -> String {
    match seconds {
        None => UNKNOWN.to_owned(),
        Some(seconds) if seconds.is_finite() => format!("{:.2} ms", seconds * 1e3),
        Some(_) => "more".to_owned(),
    }
}
