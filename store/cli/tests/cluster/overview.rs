//! The overview of the page at `/ui`: each member tells of the others what they told it.

use etcd_api::inkstonepb::view_client::ViewClient;
use etcd_api::inkstonepb::{MemberFigures, MemberOverview, OverviewRequest};

use crate::three::{LOOK, LOOKS_MAX, Three};

async fn members(three: &Three, number: usize) -> Vec<MemberOverview> {
    let mut client = ViewClient::new(three.channel(number));
    let overview = client.overview(OverviewRequest {}).await.unwrap();
    overview.into_inner().members
}

/// Waits until member `asked` knows the figures of `other`, and they are right.
async fn figures_of(
    three: &Three,
    asked: usize,
    other: u64,
    is_right: impl Fn(&MemberFigures) -> bool,
) -> MemberFigures {
    let mut last = None;
    for _ in 0..LOOKS_MAX {
        let members = members(three, asked).await;
        let member = members.into_iter().find(|member| member.id == other);
        last = member.unwrap().figures;
        if let Some(figures) = last.as_ref().filter(|it| is_right(it)) {
            return figures.clone();
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{asked} has of {other:x}: {last:?}");
}

#[tokio::test]
async fn each_member_shows_the_figures_of_the_others_and_how_old_they_are() {
    let mut three = Three::start();
    three.put(0, "k", "v").await;
    let leader = three.leader(0).await;
    let (asked, silent) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut ids = Vec::new();
    for number in 0..3 {
        let status = three.status(number).await.unwrap();
        ids.push(status.header.unwrap().member_id);
    }
    for other in [leader, silent] {
        let has_flushed = |it: &MemberFigures| it.load.as_ref().unwrap().flushes > 0;
        let figures = figures_of(&three, asked, ids[other], has_flushed).await;
        let (store, process) = (figures.store.unwrap(), figures.process.unwrap());
        assert_eq!(store.keys, 1);
        assert!(store.disk_total_bytes.unwrap() > 0);
        assert!(process.resident_memory_bytes.unwrap() > 0);
        assert_eq!(process.version, env!("CARGO_PKG_VERSION"));
    }
    let own = members(&three, asked).await;
    let own = own.iter().find(|member| member.is_self).unwrap();
    assert_eq!(own.figures, None, "they are those of the answer");
    three.kill(silent);
    let before = figures_of(&three, asked, ids[silent], |_| true).await;
    let is_older = |it: &MemberFigures| it.age_seconds > before.age_seconds;
    figures_of(&three, asked, ids[silent], is_older).await;
    three.launch(silent);
    let is_newer = |it: &MemberFigures| it.process != before.process;
    figures_of(&three, asked, ids[silent], is_newer).await;
}
