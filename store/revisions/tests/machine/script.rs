//! The language of the golden scripts.
//!
//! ```text
//! put KEY VALUE [lease=N] [prev] [keep_value] [keep_lease]
//! get KEYS [rev=N] [limit=N] [sort=key|version|create|mod|value] [asc|desc]
//!          [keys_only] [count_only] [minmod=N] [maxmod=N] [mincreate=N] [maxcreate=N]
//! del KEYS [prev]                       KEYS: a  a..c  a.. (no end)
//! txn [if COND ...] then { OP ; OP } [else { OP }]     COND: mod(a)=1 value(a..c)!=x
//! compact N      grant ID TTL      revoke ID      ttl ID      keepalive ID      leases
//! advance SECONDS   expire   reopen   revision
//! watch STREAM KEYS [from=N] [id=N] [prev] [nodelete] [noput] [fragment] [progress]
//! cancel STREAM ID   progress STREAM   tick STREAM   next STREAM
//! alarm get|raise|clear [nospace|corrupt]
//! member add URLS [learner]      member update ID URLS      member publish ID NAME URLS
//! member remove ID      member promote ID      members      (ids in hexadecimal)
//! downgrade validate|enable VERSION      downgrade cancel      downgrade      (the target)
//! as, users, user, role: users.rs      follow: following.rs
//! ```

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::downgrade_request::DowngradeAction;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::response_op::Response as Outcome;
use etcd_api::etcdserverpb::{
    AlarmRequest, Compare, DeleteRangeRequest, DeleteRangeResponse, DowngradeRequest,
    LeaseTimeToLiveRequest, PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp,
    ResponseHeader, TxnRequest, TxnResponse, WatchCreateRequest, WatchResponse,
};
use revisions::{Command, Error, Response, WatchStream, validate};

use crate::following;
use crate::membership;
use crate::store::{Store, bytes};
use crate::users;

pub struct Session {
    store: Option<Store>,
    streams: HashMap<String, WatchStream>,
    runtime: tokio::runtime::Runtime,
}

/// The words of a command, taken from the front.
pub struct Words<'a> {
    rest: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Words<'a> {
        let mut rest: Vec<_> = text.split_whitespace().collect();
        rest.reverse();
        Words { rest }
    }

    pub fn next(&mut self) -> &'a str {
        self.rest.pop().expect("another word")
    }

    /// The number of an option, if it is next; 0 otherwise.
    pub fn number_of(&mut self, name: &str) -> i64 {
        let next = self.rest.last().and_then(|word| word.split_once('='));
        match next {
            Some((found, value)) if found == name => {
                self.rest.pop();
                number(value)
            }
            _ => 0,
        }
    }

    pub fn number(&mut self) -> i64 {
        self.next().parse().expect("a number")
    }

    /// The next word unless it ends an operation.
    pub fn option(&mut self) -> Option<(&'a str, &'a str)> {
        match self.rest.last() {
            None | Some(&(";" | "}")) => None,
            Some(_) => {
                let word = self.next();
                Some(word.split_once('=').unwrap_or((word, "")))
            }
        }
    }

    pub fn take(&mut self, word: &str) -> bool {
        let found = self.rest.last() == Some(&word);
        if found {
            self.rest.pop();
        }
        found
    }

    pub fn keys(&mut self) -> (bytes::Bytes, bytes::Bytes) {
        keys(self.next())
    }
}

fn keys(word: &str) -> (bytes::Bytes, bytes::Bytes) {
    match word.split_once("..") {
        None => (bytes(&word.replace("''", "")), bytes("")),
        Some((start, "")) => (bytes(start), bytes("\0")),
        Some((start, end)) => (bytes(start), bytes(end)),
    }
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

impl Session {
    pub fn new() -> Session {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        Session {
            store: Some(Store::new()),
            streams: HashMap::new(),
            runtime,
        }
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
    }

    pub fn run(&mut self, line: &str) -> String {
        let mut words = Words::of(line);
        let verb = words.next();
        match verb {
            "put" | "get" | "del" | "txn" => self.operation(verb, &mut words),
            "watch" | "cancel" | "progress" | "tick" | "next" | "close" => {
                self.watching(verb, &mut words)
            }
            "grant" | "revoke" | "ttl" | "keepalive" | "leases" => self.leasing(verb, &mut words),
            "compact" => show(self.store().compact(words.number()), |rev| {
                format!("revision {rev}")
            }),
            "advance" => {
                self.store()
                    .advance(Duration::from_secs(words.number() as u64));
                "ok".into()
            }
            "expire" => format!(
                "{} revoked, revision {}",
                self.store().expire(),
                self.store().reader.revision()
            ),
            "reopen" => {
                self.streams.clear();
                self.store = self.store.take().map(Store::reopen);
                format!(
                    "revision {}, compacted {}",
                    self.store().reader.revision(),
                    self.store().reader.compacted()
                )
            }
            "revision" => format!("{}", self.store().reader.revision()),
            "alarm" => self.alarm(&mut words),
            "member" => {
                let changed = self.store().run(membership::command(&mut words));
                show(changed, |answer| membership::show(&answer))
            }
            "downgrade" => self.downgrade(&mut words),
            "follow" => self.follow(&mut words),
            "as" => users::act_as(self.store(), &mut words),
            "users" | "user" | "role" => users::run(self.store(), verb, &mut words),
            "members" => membership::list(&self.store().reader.members()),
            _ => panic!("no such verb: {verb}"),
        }
    }

    fn downgrade(&mut self, words: &mut Words<'_>) -> String {
        let Some((verb, _)) = words.option() else {
            return format!("{:?}", self.store().reader.downgrade());
        };
        let action = match verb {
            "validate" => DowngradeAction::Validate,
            "enable" => DowngradeAction::Enable,
            _ => DowngradeAction::Cancel,
        };
        let version = words.option().map(|(version, _)| version.to_owned());
        let changed = self.store().run(Command::Downgrade(DowngradeRequest {
            action: action as i32,
            version: version.unwrap_or_default(),
        }));
        show(changed, |answer| match answer {
            Response::Downgrade(answer) => format!("cluster {}", answer.version),
            other => panic!("not of a downgrade: {other:?}"),
        })
    }

    fn follow(&mut self, words: &mut Words<'_>) -> String {
        let Some((verb, _)) = words.option() else {
            return match self.store().reader.source() {
                Some(source) => format!("cluster {} at {}", source.cluster_id, source.name),
                None => "no cluster".to_owned(),
            };
        };
        let changed = self.store().run(following::command(verb, words));
        show(changed, |mut answer| {
            format!("revision {}", answer.header_mut().revision)
        })
    }

    fn operation(&mut self, verb: &str, words: &mut Words<'_>) -> String {
        match operation(verb, words) {
            Operation::RequestRange(request) => {
                let checked = validate::range(&request).map_err(Error::from);
                let checked = checked.and_then(|()| {
                    users::check_read(self.store(), &request.key, &request.range_end)
                });
                show(
                    checked.and_then(|()| self.store().reader.range(&request)),
                    |answer| show_range(&answer),
                )
            }
            Operation::RequestPut(request) => self.command(Command::Put(request)),
            Operation::RequestDeleteRange(request) => self.command(Command::DeleteRange(request)),
            Operation::RequestTxn(request) => self.command(Command::Txn(request)),
        }
    }

    fn command(&mut self, command: Command) -> String {
        let checked = validate::command(&command, 8).map_err(Error::from);
        show(
            checked.and_then(|()| self.store().run(command)),
            |answer| match answer {
                Response::Put(answer) => show_put(&answer),
                Response::DeleteRange(answer) => show_delete(&answer),
                Response::Txn(answer) => show_txn(&answer, ""),
                other => panic!("not of an operation: {other:?}"),
            },
        )
    }

    fn leasing(&mut self, verb: &str, words: &mut Words<'_>) -> String {
        match verb {
            "grant" => {
                let (id, ttl) = (words.number(), words.number());
                show(self.store().grant(id, ttl), |it| {
                    format!("lease {} for {} s, {}", it.id, it.ttl, header(&it.header))
                })
            }
            "revoke" => show(self.store().revoke(words.number()), |rev| {
                format!("revision {rev}")
            }),
            "ttl" => {
                let request = LeaseTimeToLiveRequest {
                    id: words.number(),
                    keys: true,
                };
                show(self.store().reader.lease_time_to_live(&request), |it| {
                    format!("{} of {} s, keys {:?}", it.ttl, it.granted_ttl, it.keys)
                })
            }
            "keepalive" => {
                let reader = self.store().reader.clone();
                show(
                    self.runtime
                        .block_on(reader.lease_keep_alive(words.number())),
                    |ttl| format!("{ttl} s"),
                )
            }
            _ => {
                let leases = self.store().reader.lease_leases().leases;
                format!(
                    "{:?}",
                    leases.iter().map(|lease| lease.id).collect::<Vec<_>>()
                )
            }
        }
    }

    fn watching(&mut self, verb: &str, words: &mut Words<'_>) -> String {
        let name = words.next().to_owned();
        let hub = self.store().reader.watch_hub().clone();
        if verb == "close" {
            return format!("{}", self.streams.remove(&name).is_some());
        }
        let stream = self.streams.entry(name).or_insert_with(|| hub.subscribe());
        match verb {
            "watch" => stream.create(watch(words)),
            "cancel" => stream.cancel(words.number()),
            "progress" => stream.request_progress(),
            "tick" => stream.progress_tick(),
            _ => {}
        }
        let mut shown = String::new();
        while let Some(response) = self.runtime.block_on(soon(stream)) {
            writeln!(shown, "{}", show_watch(&response)).unwrap();
        }
        if shown.is_empty() {
            "nothing".into()
        } else {
            shown
        }
    }

    fn alarm(&mut self, words: &mut Words<'_>) -> String {
        let action = ["get", "raise", "clear"]
            .iter()
            .position(|it| words.take(it))
            .unwrap() as i32;
        let alarm = ["none", "nospace", "corrupt"]
            .iter()
            .position(|it| words.take(it))
            .unwrap_or(0) as i32;
        let request = AlarmRequest {
            action,
            member_id: 7,
            alarm,
        };
        show(
            self.store().run(Command::Alarm(request)),
            |answer| match answer {
                Response::Alarm(answer) => {
                    let names: Vec<_> = answer
                        .alarms
                        .iter()
                        .map(|it| (it.member_id, it.alarm().as_str_name()))
                        .collect();
                    format!("{names:?}")
                }
                other => panic!("not of an alarm: {other:?}"),
            },
        )
    }
}

/// The next response, if there is one without anything else happening.
pub async fn soon(stream: &WatchStream) -> Option<WatchResponse> {
    let idle = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        response = stream.next() => response,
        () = idle => None,
    }
}

fn operation(verb: &str, words: &mut Words<'_>) -> Operation {
    match verb {
        "put" => Operation::RequestPut(put(words)),
        "get" => Operation::RequestRange(get(words)),
        "del" => {
            let (key, range_end) = words.keys();
            let prev_kv = words.option().is_some_and(|(word, _)| word == "prev");
            Operation::RequestDeleteRange(DeleteRangeRequest {
                key,
                range_end,
                prev_kv,
            })
        }
        "txn" => Operation::RequestTxn(txn(words)),
        _ => panic!("no such operation: {verb}"),
    }
}

fn put(words: &mut Words<'_>) -> PutRequest {
    let (key, _) = words.keys();
    let mut request = PutRequest {
        key,
        value: bytes(&words.next().replace("''", "")),
        ..PutRequest::default()
    };
    while let Some((name, value)) = words.option() {
        match name {
            "lease" => request.lease = number(value),
            "prev" => request.prev_kv = true,
            "keep_value" => request.ignore_value = true,
            "keep_lease" => request.ignore_lease = true,
            _ => panic!("no such option of put: {name}"),
        }
    }
    request
}

fn get(words: &mut Words<'_>) -> RangeRequest {
    let (key, range_end) = words.keys();
    let mut request = RangeRequest {
        key,
        range_end,
        ..RangeRequest::default()
    };
    while let Some((name, value)) = words.option() {
        match name {
            "rev" => request.revision = number(value),
            "limit" => request.limit = number(value),
            "sort" => {
                let targets = ["key", "version", "create", "mod", "value"];
                request.sort_target = targets
                    .iter()
                    .position(|it| *it == value)
                    .map_or(99, |at| at as i32);
            }
            "asc" => request.sort_order = 1,
            "desc" => request.sort_order = 2,
            "keys_only" => request.keys_only = true,
            "count_only" => request.count_only = true,
            "minmod" => request.min_mod_revision = number(value),
            "maxmod" => request.max_mod_revision = number(value),
            "mincreate" => request.min_create_revision = number(value),
            "maxcreate" => request.max_create_revision = number(value),
            _ => panic!("no such option of get: {name}"),
        }
    }
    request
}

fn txn(words: &mut Words<'_>) -> TxnRequest {
    let mut request = TxnRequest::default();
    if words.take("if") {
        while !words.take("then") {
            request.compare.push(compare(words.next()));
        }
    } else {
        assert!(words.take("then"), "a transaction says what to do then");
    }
    request.success = operations(words);
    if words.take("else") {
        request.failure = operations(words);
    }
    request
}

fn operations(words: &mut Words<'_>) -> Vec<RequestOp> {
    assert!(words.take("{"), "operations stand in braces");
    let mut list = Vec::new();
    while !words.take("}") {
        words.take(";");
        let verb = words.next();
        let request = if verb == "nothing" {
            None
        } else {
            Some(operation(verb, words))
        };
        list.push(RequestOp { request });
    }
    list
}

fn compare(text: &str) -> Compare {
    let (target, rest) = text.split_once('(').expect("target(keys)");
    let (range, rest) = rest.split_once(')').expect("target(keys)");
    let relations = [
        ("!=", CompareResult::NotEqual),
        ("=", CompareResult::Equal),
        (">", CompareResult::Greater),
        ("<", CompareResult::Less),
    ];
    let (wanted, result) = relations
        .iter()
        .find_map(|(sign, result)| rest.strip_prefix(sign).map(|wanted| (wanted, *result)))
        .expect("a relation");
    let (target, target_union) = match target {
        "value" => (CompareTarget::Value, TargetUnion::Value(bytes(wanted))),
        "version" => (CompareTarget::Version, TargetUnion::Version(number(wanted))),
        "create" => (
            CompareTarget::Create,
            TargetUnion::CreateRevision(number(wanted)),
        ),
        "mod" => (CompareTarget::Mod, TargetUnion::ModRevision(number(wanted))),
        "lease" => (CompareTarget::Lease, TargetUnion::Lease(number(wanted))),
        _ => panic!("no such target: {target}"),
    };
    let (key, range_end) = keys(range);
    Compare {
        result: result as i32,
        target: target as i32,
        key,
        range_end,
        target_union: Some(target_union),
    }
}

fn watch(words: &mut Words<'_>) -> WatchCreateRequest {
    let (key, range_end) = words.keys();
    let mut request = WatchCreateRequest {
        key,
        range_end,
        ..WatchCreateRequest::default()
    };
    while let Some((name, value)) = words.option() {
        match name {
            "from" => request.start_revision = number(value),
            "id" => request.watch_id = number(value),
            "prev" => request.prev_kv = true,
            "noput" => request.filters.push(0),
            "nodelete" => request.filters.push(1),
            "fragment" => request.fragment = true,
            "progress" => request.progress_notify = true,
            _ => panic!("no such option of watch: {name}"),
        }
    }
    request
}

fn show<T>(outcome: Result<T, Error>, shown: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(answer) => shown(answer),
        Err(error) => format!("refused: {error}"),
    }
}

fn header(header: &Option<ResponseHeader>) -> String {
    match header {
        Some(header) if header.revision != 0 => format!("revision {}", header.revision),
        Some(_) => "empty header".into(),
        None => "no header".into(),
    }
}

fn show_version(version: &EncodedKeyValue) -> String {
    let fields = version.fields();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut shown = format!(
        "{}={} (created {}, modified {}, version {}",
        text(fields.key),
        text(fields.value),
        fields.create_revision,
        fields.mod_revision,
        fields.version
    );
    if fields.lease != 0 {
        write!(shown, ", lease {}", fields.lease).unwrap();
    }
    shown + ")"
}

fn show_put(answer: &PutResponse) -> String {
    let mut shown = header(&answer.header);
    if let Some(previous) = &answer.prev_kv {
        write!(shown, ", was {}", show_version(previous)).unwrap();
    }
    shown
}

fn show_range(answer: &RangeResponse) -> String {
    let more = if answer.more { ", more" } else { "" };
    let mut shown = format!("{}, count {}{more}", header(&answer.header), answer.count);
    for version in &answer.kvs {
        write!(shown, "\n  {}", show_version(version)).unwrap();
    }
    shown
}

fn show_delete(answer: &DeleteRangeResponse) -> String {
    let mut shown = format!("{}, deleted {}", header(&answer.header), answer.deleted);
    for version in &answer.prev_kvs {
        write!(shown, "\n  was {}", show_version(version)).unwrap();
    }
    shown
}

fn show_txn(answer: &TxnResponse, indent: &str) -> String {
    let branch = if answer.succeeded { "then" } else { "else" };
    let mut shown = format!("{branch}, {}", header(&answer.header));
    let inner = format!("{indent}  ");
    for response in &answer.responses {
        let text = match &response.response {
            Some(Outcome::ResponsePut(it)) => format!("put: {}", show_put(it)),
            Some(Outcome::ResponseRange(it)) => format!(
                "get: {}",
                show_range(it).replace('\n', &format!("\n{inner}"))
            ),
            Some(Outcome::ResponseDeleteRange(it)) => format!(
                "del: {}",
                show_delete(it).replace('\n', &format!("\n{inner}"))
            ),
            Some(Outcome::ResponseTxn(it)) => format!("txn: {}", show_txn(it, &inner)),
            None => "nothing".into(),
        };
        write!(shown, "\n{inner}{text}").unwrap();
    }
    shown
}

pub fn show_watch(response: &WatchResponse) -> String {
    let mut shown = format!("watch {}: {}", response.watch_id, header(&response.header));
    for (set, word) in [
        (response.created, "created"),
        (response.canceled, "canceled"),
        (response.fragment, "fragment"),
    ] {
        if set {
            write!(shown, ", {word}").unwrap();
        }
    }
    if response.compact_revision != 0 {
        write!(shown, ", compacted {}", response.compact_revision).unwrap();
    }
    if !response.cancel_reason.is_empty() {
        write!(shown, ", {}", response.cancel_reason).unwrap();
    }
    for event in &response.events {
        let version = event.kv.as_ref().map(show_version).unwrap();
        write!(shown, "\n  {} {version}", event.r#type().as_str_name()).unwrap();
        if let Some(previous) = &event.prev_kv {
            write!(shown, ", was {}", show_version(previous)).unwrap();
        }
    }
    shown
}
