//! The same operations against real etcd and against Inkstone: every answer
//! and every HashKV must be equal.
//!
//! Skips, loudly, where etcd is not installed (`cargo xtask etcd` builds it;
//! `INKSTONE_ETCD` names another one). `INKSTONE_DIFFERENTIAL_OPERATIONS` and
//! `INKSTONE_DIFFERENTIAL_SEED` set length and seed.

mod generate;
mod operation;
mod processes;

use environment::randomness::Random;
use generate::Generator;
use operation::Peer;

/// Below this the promise of 10,000 would not be kept.
const OPERATIONS_DEFAULT: u64 = 12_000;
/// Operations between two comparisons of HashKV.
const HASH_EVERY: u64 = 250;

#[tokio::test]
async fn random_operations_have_equal_answers_and_equal_hashes() {
    let Some(etcd) = processes::etcd_binary() else {
        eprintln!(
            "SKIPPED: etcd is not installed, nothing was compared. \
             `cargo xtask etcd` builds it where Go is installed."
        );
        return;
    };
    let seed = processes::number("INKSTONE_DIFFERENTIAL_SEED").unwrap_or(1);
    let operations =
        processes::number("INKSTONE_DIFFERENTIAL_OPERATIONS").unwrap_or(OPERATIONS_DEFAULT);
    let theirs = processes::start_etcd(&etcd);
    let ours = processes::start_inkstone();
    let mut theirs = Peer::connect("etcd", &theirs).await;
    let mut ours = Peer::connect("inkstone", &ours).await;
    let mut generator = Generator::new(Random::from_seed(seed));
    let mut counted = std::collections::BTreeMap::new();
    for number in 1..=operations {
        let operation = generator.operation();
        let expected = theirs.run(&operation).await;
        let found = ours.run(&operation).await;
        assert_eq!(
            found, expected,
            "operation {number} of seed {seed} is answered differently: {operation:?}"
        );
        generator.learn(&expected);
        *counted.entry(operation.name()).or_insert(0_u64) += 1;
        if number % HASH_EVERY == 0 {
            compare_hashes(&mut theirs, &mut ours, &mut generator, number).await;
        }
    }
    eprintln!("{operations} operations of seed {seed}, all equal: {counted:?}");
    assert!(
        counted.len() >= 8,
        "the generator stopped making some kinds of operations"
    );
}

async fn compare_hashes(theirs: &mut Peer, ours: &mut Peer, generator: &mut Generator, at: u64) {
    for revision in generator.revisions_to_hash() {
        let expected = theirs.hash_kv(revision).await;
        let found = ours.hash_kv(revision).await;
        assert_eq!(found, expected, "HashKV({revision}) after operation {at}");
    }
}
