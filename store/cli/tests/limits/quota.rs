//! The space quota through the real server.

use etcd_api::etcdserverpb::DeleteRangeRequest;
use tonic::Code;

use crate::served::Served;

const QUOTA: &str = "--quota-backend-bytes=8388608";
const VALUE_BYTES: usize = 64 << 10;

#[tokio::test]
async fn at_the_quota_writes_are_refused_until_room_is_made_and_the_alarm_is_disarmed() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path();
    let mut served = Served::start(data, &[QUOTA, "--segment-bytes=1048576"]);
    let client = served.connect().await;
    let mut kept = 0;
    let refusal = loop {
        match client
            .put(&format!("{kept:04}"), vec![1; VALUE_BYTES])
            .await
        {
            Ok(_) => kept += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal.code(), Code::ResourceExhausted);
    assert_eq!(
        refusal.message(),
        "etcdserver: mvcc: database space exceeded"
    );
    assert!(kept > 50, "{kept} puts of 64 KiB fit into 8 MiB");

    served.kill();
    let served = Served::start(data, &[QUOTA, "--segment-bytes=1048576"]);
    let client = served.connect().await;
    assert_eq!(client.alarms().await.len(), 1, "alarms outlive a crash");
    for number in 0..kept {
        let found = client.get(&format!("{number:04}")).await.unwrap();
        assert_eq!(found, [1; VALUE_BYTES]);
    }
    let all = DeleteRangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..DeleteRangeRequest::default()
    };
    let deleted = client.kv().delete_range(all).await.unwrap().into_inner();
    assert_eq!(deleted.deleted, kept);
    client.compact(deleted.header.unwrap().revision).await;
    let still = client.put("a", Vec::new()).await.unwrap_err();
    assert_eq!(
        still.code(),
        Code::ResourceExhausted,
        "until it is disarmed"
    );
    client.disarm().await;
    client.put("a", vec![2; VALUE_BYTES]).await.unwrap();
}
