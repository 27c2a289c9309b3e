//! A member's ids, across restarts with other flags.

use etcd_api::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::etcdserverpb::{Member, MemberListRequest, ResponseHeader};

use crate::serving::{Serving, put, refusal, serving};

/// The one member, and the header of the list.
async fn member(serving: &Serving) -> (Member, ResponseHeader) {
    let mut cluster = ClusterClient::new(serving.channel().await);
    let request = MemberListRequest { linearizable: true };
    let list = cluster.member_list(request).await.unwrap().into_inner();
    (list.members[0].clone(), list.header.unwrap())
}

#[tokio::test]
async fn ids_survive_a_restart_with_other_flags() {
    let mut serving = serving(&["--initial-cluster-token=first"]);
    let (before, header) = member(&serving).await;
    serving.restart_with(&[
        "--name=renamed",
        "--initial-cluster-token=second",
        "--initial-advertise-peer-urls=http://localhost:7777",
        "--initial-cluster=someone=http://localhost:1,else=http://localhost:2",
    ]);
    let (after, again) = member(&serving).await;
    assert_eq!(after.name, "renamed", "the name is the flag's, as in etcd");
    assert_eq!(after.peer_ur_ls, before.peer_ur_ls);
    assert_eq!((after.id, again.member_id), (before.id, before.id));
    assert_eq!(again.cluster_id, header.cluster_id);
    let put = serving.kv().await.put(put("a", "1")).await.unwrap();
    let put = put.into_inner().header.unwrap();
    assert_eq!(
        (put.member_id, put.cluster_id),
        (before.id, header.cluster_id)
    );
    let id = format!("etcd_server_id{{server_id=\"{:x}\"}} 1\n", before.id);
    let page = crate::http::get(&serving, "/metrics").await.body;
    assert!(page.contains(&id), "{id}");
    let itself = format!(
        "etcd_network_known_peers{{Local=\"{0:x}\",Remote=\"{0:x}\"}} 1\n",
        before.id
    );
    assert!(page.contains(&itself), "{itself}");
}

/// The one member, once it has published the client URL of this start.
async fn published(serving: &Serving) -> Member {
    for _ in 0..1_000 {
        let member = member(serving).await.0;
        if member.client_ur_ls == [serving.endpoint.clone()] {
            return member;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} is not in the list", serving.endpoint);
}

#[tokio::test]
async fn a_member_on_port_0_advertises_the_ports_where_it_listens() {
    let words = [
        "--advertise-client-urls=http://127.0.0.1:0",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--initial-advertise-peer-urls=http://127.0.0.1:0",
        "--initial-cluster=default=http://127.0.0.1:0",
    ];
    let mut serving = serving(&words);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let shown = published(&serving).await;
        let peer = shown.peer_ur_ls[0].trim_start_matches("http://");
        // A member that is alone announces a new port to no other member.
        if ids.is_empty() {
            std::net::TcpStream::connect(peer).unwrap();
        }
        ids.push(shown.id);
        serving.restart_with(&words);
    }
    assert_eq!(ids[0], ids[1], "the id outlives a start on other ports");
}

#[tokio::test]
async fn a_new_directory_begins_only_with_a_new_cluster_that_has_this_member() {
    for (word, part) in [
        (
            "--initial-cluster=b=http://localhost:1",
            "couldn't find local name",
        ),
        (
            "--initial-cluster-state=existing",
            "those that run included",
        ),
    ] {
        let error = refusal(&[word]);
        assert!(error.contains(part), "{word}: {error}");
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test takes a port by itself")]
async fn a_peer_port_in_use_is_reported_before_anything_is_written() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    let error = refusal(&[
        &format!("--listen-peer-urls={url}"),
        &format!("--initial-cluster=default=http://localhost:2380,b={url}"),
    ]);
    assert!(
        error.contains(&url) && error.contains("--listen-peer-urls"),
        "{error}"
    );
}
