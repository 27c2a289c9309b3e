//! The rules by which a member may begin its directory, over the answers of the others.
//!
//! ```text
//!   founds   has a member another cluster?  has this one been up?   then refuse
//!   joins    which members are there, which id has this one?        then connect to them
//!   both     are segments of another size?                          then refuse
//! ```
//!
//! A member that has lost its directory must not begin again under its old id: it could vote
//! twice in one term, and it has lost entries that it acknowledged. Its own options are the
//! same as at its first start, so only the others can tell. If no member answers, all begin
//! together. A member that answers must belong to the cluster that the options describe and
//! have segments of the size that they set: both are fixed when a directory begins.

use revisions::Member;

use super::{BootstrapFailure, Introduction, Joining};
use crate::{Error, MemberFile, MemberList};

/// The answers of the members that the options name.
#[derive(Debug)]
pub(super) struct Asked {
    /// The member lists, the newest first.
    pub lists: Vec<MemberList>,
    /// The reasons of the members that gave none.
    pub reasons: Vec<String>,
}

impl Asked {
    /// Refuses to begin a cluster with members that already run in another one: this member
    /// would wait for them forever.
    pub fn refuse_other_cluster(&self, described: u64) -> Result<(), BootstrapFailure> {
        match self.lists.iter().find(|it| it.cluster_id != described) {
            Some(list) => Err(BootstrapFailure::OtherCluster {
                described,
                running: Box::new(list.clone()),
            }),
            None => Ok(()),
        }
    }

    /// Refuses another segment size than the other members have: a leader makes entries as
    /// large as its own segments hold. A directory that holds data keeps the size that it
    /// began with, whatever the options say.
    pub fn refuse_other_segments(
        &self,
        ours: u64,
        holds_data: bool,
    ) -> Result<(), BootstrapFailure> {
        let sizes = self.lists.iter().map(|list| list.segment_bytes);
        match sizes.into_iter().find(|theirs| ![0, ours].contains(theirs)) {
            Some(theirs) if !holds_data => Err(BootstrapFailure::OtherSegments { ours, theirs }),
            _ => Ok(()),
        }
    }

    /// Refuses a member that the others know as removed, or, if its directory is empty, as one
    /// that has been up.
    pub fn refuse_if_known(&self, member: u64, holds_data: bool) -> Result<(), BootstrapFailure> {
        let mut removed = self.lists.iter().flat_map(|list| &list.removed);
        if removed.any(|&id| id == member) {
            return Err(Error::Removed { member }.into());
        }
        let mut known = self.lists.iter().filter_map(|list| list.member(member));
        match known.any(was_up) {
            true if !holds_data => Err(BootstrapFailure::Lost { member }),
            _ => Ok(()),
        }
    }

    /// The ids of a joining member in the newest list that fits its options, and the members
    /// there.
    pub fn join(&self, joining: &Joining) -> Result<Introduction, BootstrapFailure> {
        let (list, own) = self.place(joining, |list| {
            let own = |member: &&Member| {
                let urls = &member.peer_urls;
                joining.own_urls.iter().all(|url| urls.contains(url))
            };
            list.members.iter().find(own)
        })?;
        Ok(Introduction {
            member: MemberFile {
                member: own.id,
                cluster: list.cluster_id,
                peer_urls: own.peer_urls.clone(),
            },
            founders: Vec::new(),
            contacts: list.members.clone(),
        })
    }

    /// The members for one that has joined before and has received nothing from any of them.
    pub fn contacts(
        &self,
        joining: &Joining,
        own: &MemberFile,
    ) -> Result<Vec<Member>, BootstrapFailure> {
        self.refuse_if_known(own.member, true)?;
        if let Some(list) = self.lists.iter().find(|it| it.cluster_id != own.cluster) {
            return Err(BootstrapFailure::JoinsAnother {
                own: own.clone(),
                named: list.cluster_id,
            });
        }
        let (list, _) = self.place(joining, |list| list.member(own.member))?;
        Ok(list.members.clone())
    }

    /// The newest list that fits the options, and this member in it.
    fn place<'a>(
        &'a self,
        joining: &Joining,
        own: impl Fn(&'a MemberList) -> Option<&'a Member>,
    ) -> Result<(&'a MemberList, &'a Member), BootstrapFailure> {
        let Some(newest) = self.lists.first() else {
            let reasons = self.reasons.clone();
            return Err(BootstrapFailure::NoMemberAnswers { reasons });
        };
        let other = |list: &&MemberList| list.cluster_id != newest.cluster_id;
        if let (None, Some(other)) = (&joining.all, self.lists.iter().find(other)) {
            return Err(BootstrapFailure::TwoClusters {
                clusters: [newest.cluster_id, other.cluster_id],
            });
        }
        let mut misfit = None;
        for list in &self.lists {
            let fits = joining.all.as_deref().map_or(Ok(()), |all| fits(list, all));
            match fits.and_then(|()| own(list).ok_or_else(|| no_member(joining))) {
                Ok(own) => return Ok((list, own)),
                // The newest list's misfit is reported.
                Err(what) => misfit = misfit.or(Some(what)),
            }
        }
        Err(BootstrapFailure::NotListed {
            list: Box::new(newest.clone()),
            own_urls: joining.own_urls.clone(),
            what: misfit.unwrap_or_default(),
        })
    }
}

fn no_member(joining: &Joining) -> String {
    format!("no member has the peer URLs {}", joining.own_urls.join(" "))
}

/// Checks that a list has the members that the options list, in etcd's words.
fn fits(list: &MemberList, all: &[Vec<String>]) -> Result<(), String> {
    if list.members.len() != all.len() {
        return Err("member count is unequal".to_owned());
    }
    for member in &list.members {
        let mut urls = member.peer_urls.clone();
        urls.sort_unstable();
        if !all.contains(&urls) {
            return Err(format!(
                "PeerURLs: no match found for existing member ({:x}, [{}])",
                member.id,
                member.peer_urls.join(" ")
            ));
        }
    }
    Ok(())
}

/// Whether the member has published its name or its client URLs, which it does at its first
/// start.
fn was_up(member: &Member) -> bool {
    member.is_started() || !member.client_urls.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(port: u64) -> String {
        format!("http://h:{port}")
    }

    fn member(id: u64, name: &str) -> Member {
        Member {
            id,
            name: name.to_owned(),
            peer_urls: vec![url(id)],
            ..Member::default()
        }
    }

    fn list(index: u64, members: Vec<Member>) -> MemberList {
        MemberList {
            cluster_id: 9,
            index,
            segment_bytes: 0,
            members,
            removed: vec![7],
        }
    }

    fn three(third: &str) -> Vec<Member> {
        vec![member(1, "a"), member(2, "b"), member(3, third)]
    }

    fn asked(lists: Vec<MemberList>) -> Asked {
        Asked {
            lists,
            reasons: vec!["h: no answer".into()],
        }
    }

    fn joining(all: Option<[u64; 3]>) -> Joining {
        Joining {
            own_urls: vec![url(3)],
            all: all.map(|all| all.map(|port| vec![url(port)]).to_vec()),
        }
    }

    fn own() -> MemberFile {
        MemberFile {
            member: 3,
            cluster: 9,
            peer_urls: vec![url(3)],
        }
    }

    #[test]
    fn a_joining_member_takes_the_id_that_the_cluster_gave_it() {
        // The older list does not have the new member yet.
        let old = list(1, vec![member(1, "a"), member(2, "b")]);
        let new = list(2, three(""));
        for lists in [vec![new.clone(), old.clone()], vec![old, new]] {
            for joining in [joining(None), joining(Some([1, 2, 3]))] {
                let introduced = asked(lists.clone()).join(&joining).unwrap();
                assert_eq!(introduced.contacts, three(""));
                assert_eq!(introduced.member, own());
                assert_eq!(introduced.founders, []);
            }
        }
    }

    #[test]
    fn a_member_that_is_not_listed_is_refused_in_etcd_s_words() {
        let mut elsewhere = three("");
        elsewhere[1].peer_urls = vec![url(9)];
        for (members, part) in [
            (vec![member(1, "a")], "member count is unequal"),
            (
                elsewhere,
                "no match found for existing member (2, [http://h:9])",
            ),
        ] {
            let listed = joining(Some([1, 2, 3]));
            let failure = asked(vec![list(1, members.clone())]).join(&listed);
            let Err(BootstrapFailure::NotListed { list, what, .. }) = failure else {
                panic!("{failure:?}");
            };
            assert!(what.contains(part), "{what}");
            assert_eq!(list.members, members);
        }
        let failure = asked(vec![]).join(&joining(None)).unwrap_err();
        assert!(
            matches!(&failure, BootstrapFailure::NoMemberAnswers { reasons } if reasons.len() == 1),
            "{failure:?}"
        );
    }

    #[test]
    fn members_of_two_clusters_are_refused_unless_all_are_listed() {
        let other = MemberList {
            cluster_id: 8,
            ..list(1, vec![member(1, "a")])
        };
        let asked = asked(vec![list(2, three("")), other]);
        let failure = asked.join(&joining(None)).unwrap_err();
        assert!(
            matches!(failure, BootstrapFailure::TwoClusters { clusters: [9, 8] }),
            "{failure:?}"
        );
        assert!(asked.join(&joining(Some([1, 2, 3]))).is_ok());
    }

    #[test]
    fn a_member_without_data_connects_to_members_of_its_own_cluster_only() {
        for joining in [joining(None), joining(Some([1, 2, 3]))] {
            let contacts = |list| asked(vec![list]).contacts(&joining, &own());
            assert_eq!(contacts(list(1, three(""))).unwrap(), three(""));
            let other = MemberList {
                cluster_id: 8,
                ..list(1, three(""))
            };
            let failure = contacts(other).unwrap_err();
            assert!(
                matches!(failure, BootstrapFailure::JoinsAnother { named: 8, .. }),
                "{failure:?}"
            );
            let mut removed = list(1, vec![member(1, "a")]);
            removed.removed.push(3);
            let failure = contacts(removed).unwrap_err();
            assert!(
                matches!(
                    failure,
                    BootstrapFailure::Node(Error::Removed { member: 3 })
                ),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn a_member_that_was_up_or_was_removed_must_not_begin_again() {
        let is_ok = |lists: Vec<MemberList>| asked(lists).refuse_if_known(3, false).is_ok();
        assert!(is_ok(vec![]), "no member answers");
        assert!(is_ok(vec![list(1, three(""))]));
        let started = asked(vec![list(2, three("")), list(1, three("c"))]);
        let failure = started.refuse_if_known(3, false).unwrap_err();
        assert!(
            matches!(failure, BootstrapFailure::Lost { member: 3 }),
            "{failure:?}"
        );
        assert!(started.refuse_if_known(3, true).is_ok(), "it has its data");
        let failure = started.refuse_if_known(7, true).unwrap_err();
        assert!(
            matches!(
                failure,
                BootstrapFailure::Node(Error::Removed { member: 7 })
            ),
            "{failure:?}"
        );
    }

    #[test]
    fn a_cluster_is_not_begun_beside_one_that_runs() {
        let running = asked(vec![list(1, three("c"))]);
        assert!(running.refuse_other_cluster(9).is_ok());
        assert!(asked(vec![]).refuse_other_cluster(10).is_ok());
        let failure = running.refuse_other_cluster(10).unwrap_err();
        let BootstrapFailure::OtherCluster { described, running } = failure else {
            panic!("{failure:?}");
        };
        assert_eq!((described, running.cluster_id), (10, 9));
    }

    #[test]
    fn segments_of_another_size_are_refused_where_a_directory_begins() {
        let of = |segment_bytes| MemberList {
            segment_bytes,
            ..list(1, three("c"))
        };
        for same in [0, 1 << 26] {
            let asked = asked(vec![of(same)]);
            assert!(asked.refuse_other_segments(1 << 26, false).is_ok());
        }
        let asked = asked(vec![of(1 << 26), of(1 << 20)]);
        assert!(asked.refuse_other_segments(1 << 26, true).is_ok());
        let failure = asked.refuse_other_segments(1 << 26, false).unwrap_err();
        assert!(
            matches!(
                failure,
                BootstrapFailure::OtherSegments { ours, theirs }
                    if (ours, theirs) == (1 << 26, 1 << 20)
            ),
            "{failure:?}"
        );
    }
}
