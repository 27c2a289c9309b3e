//! Commands at followers while leadership moves.

use crate::scene;

use scene::{Cluster, is_done};
use tokio::sync::oneshot;

#[test]
fn a_command_at_a_follower_is_carried_out_by_the_next_leader_after_a_transfer() {
    for asked in [2, 3] {
        let mut cluster = Cluster::new(3);
        let term = cluster.replica(1).term();
        let (answer, _) = oneshot::channel();
        cluster.replica(1).transfer_leadership(3, answer);
        let mut put = cluster.put(asked, "k");
        cluster.until(|cluster| cluster.leader() == 3 && cluster.agrees());
        assert_eq!(cluster.replica(3).term(), term + 1);
        assert!(is_done(&mut put), "asked at member {asked}: {put:?}");
        assert!(cluster.has(asked, "k"));
    }
}

#[test]
fn a_follower_soon_answers_that_the_outcome_is_unknown_when_its_leader_is_lost() {
    let mut cluster = Cluster::new(3);
    cluster.cut.extend([(1, 2), (1, 3)]);
    let mut put = cluster.put(2, "k");
    cluster.part(&[1]);
    cluster.until(|cluster| cluster.leader() > 1);
    (0..3).for_each(|_| cluster.tick());
    let lost = put.try_recv().unwrap().unwrap_err().to_string();
    assert!(lost.contains("previous leader failure"), "{lost}");
}
