//! Users of a cluster: what one member has issued or changed counts at all.

use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::{
    AuthEnableRequest, AuthUserAddRequest, AuthUserChangePasswordRequest, AuthUserGrantRoleRequest,
    AuthenticateRequest,
};
use tonic::Request;
use tonic::transport::Channel;

use crate::three::{LOOK, LOOKS_MAX, Three, put};

const INVALID: &str = "etcdserver: invalid auth token";
const EMPTY: &str = "etcdserver: user name is empty";

fn auth(three: &Three, number: usize) -> AuthClient<Channel> {
    AuthClient::new(three.channel(number))
}

fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        request
            .metadata_mut()
            .insert("token", token.parse().unwrap());
    }
    request
}

/// Puts through one member; the error's text if it is about the caller. Any other error is one
/// of a cluster in change: it is tried again.
async fn put_as(three: &Three, number: usize, token: &str) -> Result<(), String> {
    let mut last = None;
    for _ in 0..LOOKS_MAX {
        let mut client = KvClient::new(three.channel(number));
        match client.put(with(token, put("k", "1"))).await {
            Ok(_) => return Ok(()),
            Err(status) if [INVALID, EMPTY].contains(&status.message()) => {
                return Err(status.message().to_owned());
            }
            Err(status) => last = Some(status),
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("member {number} took no put: {last:?}");
}

/// Adds `root` and switches users on, each step at another member; returns a token.
async fn enable(three: &Three) -> String {
    let root = || "root".to_owned();
    let add = AuthUserAddRequest {
        name: root(),
        password: "one".into(),
        ..Default::default()
    };
    auth(three, 0).user_add(add).await.unwrap();
    let grant = AuthUserGrantRoleRequest {
        user: root(),
        role: root(),
    };
    auth(three, 1).user_grant_role(grant).await.unwrap();
    let mut third = auth(three, 2);
    third.auth_enable(AuthEnableRequest {}).await.unwrap();
    authenticate(three, 0, "one").await
}

async fn authenticate(three: &Three, number: usize, password: &str) -> String {
    let request = AuthenticateRequest {
        name: "root".into(),
        password: password.into(),
    };
    let answer = auth(three, number).authenticate(request).await;
    answer.unwrap().into_inner().token
}

#[tokio::test]
async fn a_token_counts_at_every_member_through_a_rolling_restart() {
    let mut three = Three::start();
    three.put(0, "before", "1").await;
    let token = enable(&three).await;
    for number in 0..3 {
        assert_eq!(put_as(&three, number, &token).await, Ok(()));
        assert_eq!(put_as(&three, number, "").await, Err(EMPTY.to_owned()));
    }
    for number in 0..3 {
        three.kill(number);
        for other in (0..3).filter(|other| *other != number) {
            assert_eq!(put_as(&three, other, &token).await, Ok(()));
        }
        three.launch(number);
        assert_eq!(put_as(&three, number, &token).await, Ok(()));
    }
    // Where the password is changed does not matter either.
    let change = AuthUserChangePasswordRequest {
        name: "root".into(),
        password: "two".into(),
        ..Default::default()
    };
    let mut client = auth(&three, 1);
    client
        .user_change_password(with(&token, change))
        .await
        .unwrap();
    for number in 0..3 {
        assert_eq!(
            put_as(&three, number, &token).await,
            Err(INVALID.to_owned())
        );
    }
    let token = authenticate(&three, 2, "two").await;
    for number in 0..3 {
        assert_eq!(put_as(&three, number, &token).await, Ok(()));
    }
}
