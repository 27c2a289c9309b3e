//! Leases over time: pace of revocation, losing and winning the lead.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use environment::Clock;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{LeaseTimeToLiveRequest, PutRequest};
use revisions::{Error, Options};

use crate::store::{Store, put, small};

const SECOND: Duration = Duration::from_secs(1);

struct NoWaker;

impl Wake for NoWaker {
    fn wake(self: Arc<Self>) {}
}

fn ttl(store: &Store, id: i64) -> Result<i64, Error> {
    store
        .reader
        .lease_time_to_live(&LeaseTimeToLiveRequest { id, keys: false })
        .map(|it| it.ttl)
}

#[test]
fn revocations_are_paced() {
    let mut store = Store::with(Options {
        lease_revocations_per_second: 10,
        ..small()
    });
    for id in 1..=40 {
        store.grant(id, 5).unwrap();
    }
    store.advance(10 * SECOND);
    assert_eq!(store.expire(), 5, "half a second's worth at once");
    assert_eq!(store.expire(), 0);
    let mut revoked = 5;
    for _ in 0..10 {
        store.advance(SECOND / 10);
        revoked += store.expire();
    }
    assert_eq!(revoked, 15, "ten in a second");
    while !store.reader.lease_leases().leases.is_empty() {
        store.advance(SECOND);
        assert!(store.expire() <= 10);
    }
}

#[test]
fn a_lost_revocation_is_returned_again_after_the_retry_time() {
    let mut store = Store::new();
    store.grant(1, 5).unwrap();
    store.advance(5 * SECOND);
    assert_eq!(store.machine.own_commands(store.clock.now()).len(), 1);
    assert_eq!(store.machine.own_commands(store.clock.now()).len(), 0);
    store.advance(3 * SECOND);
    assert_eq!(store.machine.own_commands(store.clock.now()).len(), 1);
}

#[test]
fn leases_without_the_lead_do_not_expire_and_are_not_renewed() {
    let mut store = Store::new();
    store.grant(1, 5).unwrap();
    store.machine.demote();
    store.advance(60 * SECOND);
    assert_eq!(store.expire(), 0);
    assert!(matches!(
        ttl(&store, 1),
        Err(Error::Etcd(Refusal::NotLeader))
    ));
    store.machine.promote(2 * SECOND);
    assert_eq!(
        ttl(&store, 1).unwrap(),
        7,
        "its full time and the extension"
    );
    store.advance(7 * SECOND);
    assert_eq!(store.expire(), 1);
}

#[test]
fn leases_that_would_end_together_are_spread_when_the_lead_is_won() {
    let mut store = Store::with(Options {
        lease_revocations_per_second: 8,
        ..small()
    });
    for id in 1..=30 {
        store.grant(id, 5).unwrap();
    }
    store.machine.promote(Duration::ZERO);
    let ends: Vec<_> = (1..=30).map(|id| ttl(&store, id).unwrap()).collect();
    assert!(
        (5..10).all(|second| ends.iter().filter(|&&end| end == second).count() == 6),
        "{ends:?}"
    );
}

#[test]
fn keep_alive_of_an_expired_lease_waits_for_the_revocation() {
    let mut store = Store::new();
    store.grant(1, 5).unwrap();
    store
        .try_put(PutRequest {
            lease: 1,
            ..put("a", "1")
        })
        .unwrap();
    store.advance(5 * SECOND);
    let reader = store.reader.clone();
    let mut renewal = Box::pin(async move { reader.lease_keep_alive(1).await });
    let waker = Waker::from(Arc::new(NoWaker));
    let mut context = Context::from_waker(&waker);
    assert!(renewal.as_mut().poll(&mut context).is_pending());
    store.expire();
    match renewal.as_mut().poll(&mut context) {
        Poll::Ready(Ok(0)) => {}
        other => panic!("the lease is gone, not {other:?}"),
    }
}

#[test]
fn an_id_is_picked_when_none_is_given() {
    let mut store = Store::new();
    let ids: Vec<_> = (0..20).map(|_| store.grant(0, 10).unwrap().id).collect();
    assert!(ids.iter().all(|&id| id > 0));
    assert_eq!(store.reader.lease_leases().leases.len(), 20);
}
