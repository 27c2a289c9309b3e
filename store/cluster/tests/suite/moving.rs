//! Members that move to other addresses, or join, while others are down.

use crate::meeting;

use etcd_api::etcdserverpb::MemberRemoveRequest;
use peers::PeerSecret;
use revisions::{Command, Member};

use meeting::{Cluster, get, in_time, poll, put_surely, surely};

/// Members join here while another one is down, which etcd's strict check allows only for a
/// moment.
fn without_the_strict_check() -> Cluster {
    Cluster::start_with(|options| options.replica.strict_reconfiguration = false)
}

/// Moves leadership to a member, from any other.
async fn lead(cluster: &Cluster, number: usize) {
    let id = cluster.members[number].id;
    in_time(async {
        loop {
            for node in cluster.nodes.iter().flatten() {
                if node.status().leader == id {
                    return;
                }
                // A member that does not lead refuses.
                let _ = node.move_leader(id).await;
            }
        }
    })
    .await;
}

/// Checks that every running member takes puts, and sees those of the others.
async fn serves_everywhere(cluster: &Cluster, round: &str) {
    let nodes = || cluster.nodes.iter().flatten();
    for (number, node) in nodes().enumerate() {
        let value = format!("{round} {number}");
        in_time(put_surely(node, "k", &value)).await;
        for other in nodes() {
            assert_eq!(in_time(get(other, "k")).await.as_ref(), Some(&value));
        }
    }
}

/// The leader moves while another member is down, which then needs it for a majority.
#[tokio::test]
async fn a_member_that_was_down_finds_a_leader_that_moved() {
    let mut cluster = Cluster::start();
    serves_everywhere(&cluster, "before").await;
    cluster.stop(0);
    let update = cluster.moves(1);
    surely(cluster.node(2), &update).await;
    cluster.stop(1);
    cluster.restart(1);
    lead(&cluster, 1).await;
    cluster.restart(0);
    serves_everywhere(&cluster, "all").await;
    cluster.stop(2);
    serves_everywhere(&cluster, "without the third").await;
}

/// The third member, which knows the new address, is gone before the first returns.
#[tokio::test]
async fn a_member_that_was_down_finds_a_moved_one_without_the_help_of_a_third() {
    let mut cluster = Cluster::start();
    serves_everywhere(&cluster, "before").await;
    cluster.stop(0);
    let update = cluster.moves(1);
    surely(cluster.node(2), &update).await;
    cluster.stop(1);
    cluster.stop(2);
    cluster.restart(1);
    cluster.restart(0);
    serves_everywhere(&cluster, "two").await;
}

/// As with etcd, a member may be restarted at another address before the cluster is updated.
#[tokio::test]
async fn a_member_that_moved_before_any_update_is_found() {
    let mut cluster = Cluster::start();
    serves_everywhere(&cluster, "before").await;
    cluster.stop(0);
    cluster.stop(1);
    let _ = cluster.moves(1);
    cluster.restart(1);
    serves_everywhere(&cluster, "two").await;
    cluster.restart(0);
    serves_everywhere(&cluster, "three").await;
}

/// Two members that know only older addresses of each other, and a third that both know.
#[tokio::test]
async fn members_that_moved_at_different_times_find_each_other_through_a_third() {
    let mut cluster = Cluster::start();
    serves_everywhere(&cluster, "before").await;
    cluster.stop(0);
    let update = cluster.moves(1);
    surely(cluster.node(2), &update).await;
    cluster.stop(1);
    cluster.restart(1);
    serves_everywhere(&cluster, "two").await;
    // The first does not know the second's new address, nor do the others know its own.
    let _ = cluster.moves(0);
    cluster.restart(0);
    serves_everywhere(&cluster, "three").await;
    let connected = |from: usize, to: u64| cluster.node(from).connected_since(to).is_some();
    poll("the movers reach each other", || {
        (connected(0, 2) && connected(1, 1)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_member_that_was_down_while_the_leader_joined_serves_again() {
    let mut cluster = without_the_strict_check();
    serves_everywhere(&cluster, "before").await;
    cluster.stop(0);
    let joined = cluster.add_at(1, false).await;
    cluster.restart(joined);
    surely_equal(&cluster, 1, joined).await;
    lead(&cluster, joined).await;
    cluster.restart(0);
    serves_everywhere(&cluster, "all").await;
}

async fn surely_equal(cluster: &Cluster, one: usize, other: usize) {
    let revision = cluster.node(one).reader().revision();
    poll("the member that joined has caught up", || {
        (cluster.node(other).reader().revision() >= revision).then_some(())
    })
    .await;
}

/// The first member is down while a fourth joins, the second is removed and the third goes
/// down. The fourth, which the first does not know, needs the first for a majority. Returns
/// the fourth's number.
async fn only_a_stranger_is_left(cluster: &mut Cluster) -> usize {
    serves_everywhere(cluster, "before").await;
    cluster.stop(0);
    let joined = cluster.add_at(1, false).await;
    cluster.restart(joined);
    surely_equal(cluster, 1, joined).await;
    lead(cluster, joined).await;
    let Member { id, .. } = cluster.members[1];
    let remove = Command::MemberRemove(MemberRemoveRequest { id });
    surely(cluster.node(joined), &remove).await;
    cluster.stop(1);
    cluster.stop(2);
    joined
}

#[tokio::test]
async fn an_unknown_member_with_the_secret_is_admitted_and_answered() {
    let mut cluster = without_the_strict_check();
    (0..3).for_each(|number| cluster.stop(number));
    cluster.secret = Some(PeerSecret::new(&[7; 32]).unwrap());
    (0..3).for_each(|number| cluster.restart(number));
    only_a_stranger_is_left(&mut cluster).await;
    cluster.restart(0);
    serves_everywhere(&cluster, "first and fourth").await;
}

#[tokio::test]
async fn an_unknown_member_that_the_operator_lists_is_asked_and_admitted() {
    let mut cluster = without_the_strict_check();
    let joined = only_a_stranger_is_left(&mut cluster).await;
    cluster.listed = cluster.members[joined].peer_urls.clone();
    cluster.restart(0);
    serves_everywhere(&cluster, "first and fourth").await;
}

/// etcd's documented order: first the update of the cluster, then the member's move.
#[tokio::test]
async fn an_update_of_the_leader_s_address_interrupts_nothing_before_it_moves() {
    let mut cluster = Cluster::start_with_patience();
    in_time(put_surely(cluster.node(0), "k", "before")).await;
    let update = cluster.moves(0);
    surely(cluster.node(1), &update).await;
    let term = cluster.node(0).term();
    for round in 0..20 {
        serves_everywhere(&cluster, &format!("updated {round}")).await;
    }
    // Followers wait an hour before they stand for election, so the leader never changed.
    assert_eq!(cluster.node(2).term(), term);
    cluster.stop(0);
    cluster.restart(0);
    serves_everywhere(&cluster, "moved").await;
}
