//! A Go client that sends faster than it is answered: the server slows it down and never
//! ends its connection.

use crate::go;
use crate::served::Served;

fn served() -> (tempfile::TempDir, Served) {
    let place = tempfile::tempdir().unwrap();
    let served = Served::start(place.path(), &[]);
    (place, served)
}

#[test]
fn six_thousand_leases_of_a_go_client_are_renewed_and_its_connection_is_not_cut() {
    let (_place, served) = served();
    let Some(report) = go::run(&["leases", served.address(), "6000", "10", "15"]) else {
        return;
    };
    assert_eq!((&report["lost"], &report["cuts"]), (&0.into(), &0.into()));
    assert!(report["renewed"].as_u64() >= Some(6_000), "{report}");
}

#[test]
fn watches_that_a_go_client_asks_for_without_waiting_are_all_taken() {
    let (_place, served) = served();
    let Some(report) = go::run(&["watches", served.address(), "130000"]) else {
        return;
    };
    assert_eq!(report["taken"], 130_000, "{report}");
}
