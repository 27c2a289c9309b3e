//! Commands of a store that follows another cluster, in the language of the scripts.
//!
//! ```text
//! follow                       the source      follow begin|end CLUSTER REVISION
//! follow compacted CLUSTER N                   follow leases CLUSTER +ID:TTL -ID ...
//! follow given CLUSTER REVISION [put KEY VALUE created=N version=N [lease=N] | del KEY] ...
//! follow users CLUSTER REVISION on|off NAME ...
//! ```

use etcd_api::Fields;
use etcd_api::inkstonepb::follow_change::Change;
use etcd_api::inkstonepb::{
    FollowBegin, FollowChange, FollowEnd, GivenLease, GivenLeases, GivenRevision, GivenUsers,
};
use etcd_api::mvccpb::Event;
use etcd_api::mvccpb::event::EventType;
use etcd_api::{EncodedKeyValue, authpb};
use revisions::Command;

use crate::script::Words;

/// A command from the words behind `follow`.
pub fn command(verb: &str, words: &mut Words<'_>) -> Command {
    let cluster_id = words.number() as u64;
    let change = match verb {
        "begin" => Change::Begin(FollowBegin {
            revision: words.number(),
            name: "http://etcd:2379".to_owned(),
        }),
        "end" => Change::End(FollowEnd {
            revision: words.number(),
        }),
        "compacted" => Change::Compacted(words.number()),
        "leases" => Change::Leases(leases(words)),
        "given" => {
            let revision = words.number();
            let events = events(words, revision);
            Change::Revision(GivenRevision { revision, events })
        }
        "users" => Change::Users(users(words)),
        _ => panic!("no such step: {verb}"),
    };
    Command::Follow(FollowChange {
        cluster_id,
        change: Some(change),
    })
}

fn leases(words: &mut Words<'_>) -> GivenLeases {
    let mut leases = GivenLeases::default();
    while let Some((word, _)) = words.option() {
        match word.strip_prefix('+').and_then(|it| it.split_once(':')) {
            Some((id, ttl)) => leases.granted.push(GivenLease {
                id: id.parse().unwrap(),
                ttl: ttl.parse().unwrap(),
            }),
            None => leases.revoked.push(word[1..].parse().unwrap()),
        }
    }
    leases
}

fn users(words: &mut Words<'_>) -> GivenUsers {
    let mut users = GivenUsers {
        revision: words.number() as u64,
        enabled: words.next() == "on",
        ..GivenUsers::default()
    };
    while let Some((name, _)) = words.option() {
        users.users.push(authpb::User {
            name: bytes::Bytes::copy_from_slice(name.as_bytes()),
            password: "$2a$04$hash".into(),
            roles: vec!["root".to_owned()],
            options: None,
        });
    }
    users
}

fn events(words: &mut Words<'_>, revision: i64) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some((kind, _)) = words.option() {
        let key = words.next().replace("''", "");
        let mut fields = Fields {
            key: key.as_bytes(),
            mod_revision: revision,
            ..Fields::default()
        };
        if kind == "put" {
            fields.value = words.next().as_bytes();
            fields.create_revision = words.number_of("created");
            fields.version = words.number_of("version");
            fields.lease = words.number_of("lease");
        }
        let EncodedKeyValue(bytes) = fields.encode();
        let mut event = Event {
            kv: Some(EncodedKeyValue(bytes)),
            ..Event::default()
        };
        if kind == "del" {
            event.set_type(EventType::Delete);
        }
        events.push(event);
    }
    events
}
