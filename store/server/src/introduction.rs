//! Asks the other members about this one before its data directory begins.
//!
//! ```text
//!   --initial-cluster-state=new       does a member know this one as started?  then refuse
//!   --initial-cluster-state=existing  which members are there, which id has
//!                                     this one?                                then join
//! ```
//!
//! A member that has lost its directory must not begin again under its old id:
//! it could vote twice in one term, and it has lost entries that it acknowledged.
//! Its own flags are the same as at its first start, so only the others can tell.
//! If no member answers, all begin together. A member that answers must belong to the
//! cluster that the flags describe and have segments of the size that they set: both are
//! fixed when a directory begins.
//!
//! The rules of joining are etcd's: `--initial-cluster` lists all members, the
//! joining one included, with the peer URLs that the cluster knows.

use std::time::Duration;

use cluster::Roster;
use revisions::Member;

use crate::Error;
use crate::config::{Config, Founder, Url};
use crate::identity::Identity;
use crate::membership::Membership;

/// Time to wait for answers when a cluster begins: as long as etcd waits.
const NEW_PATIENCE: Duration = Duration::from_secs(1);
/// Time to wait for answers when joining: longer, because a joining member needs one.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);

/// The ids of this member, and the members that it will connect to.
#[derive(Debug)]
pub(crate) struct Introduced {
    pub(crate) membership: Membership,
    /// All members, this one included, if it joins; else empty.
    pub(crate) members: Vec<Member>,
}

impl From<Membership> for Introduced {
    fn from(membership: Membership) -> Introduced {
        Introduced {
            membership,
            members: Vec::new(),
        }
    }
}

/// Determines the ids of a member without a file `MEMBER`: its directory is empty, or a
/// crash came between the first data and the file.
pub(crate) fn introduce(config: &Config, holds_data: bool) -> Result<Introduced, Error> {
    let described = Membership::of(config)?;
    if config.joins {
        let (rosters, reasons) = ask(config, JOIN_PATIENCE)?;
        let introduced = joined(config, &rosters, &reasons)?;
        refuse_if_known(introduced.membership.identity.member, &rosters, holds_data)?;
        refuse_other_segments(config, &rosters, holds_data)?;
        return Ok(introduced);
    }
    if !described.identity.stands_alone() {
        let (rosters, _) = ask(config, NEW_PATIENCE)?;
        refuse_other_cluster(described.identity, &rosters)?;
        refuse_if_known(described.identity.member, &rosters, holds_data)?;
        refuse_other_segments(config, &rosters, holds_data)?;
    }
    Ok(described.into())
}

/// The members for one that has joined before and has received nothing from any of them.
pub(crate) fn contacts(config: &Config, membership: &Membership) -> Result<Vec<Member>, Error> {
    let member = membership.identity.member;
    if !config.joins {
        return Err(Error::Unfilled { member });
    }
    let (rosters, reasons) = ask(config, JOIN_PATIENCE)?;
    refuse_if_known(member, &rosters, true)?;
    let introduced = joined(config, &rosters, &reasons)?;
    match introduced.membership == *membership {
        true => Ok(introduced.members),
        false => Err(Error::Unfilled { member }),
    }
}

/// Asks the other members of `--initial-cluster` for their rosters. Returns the rosters, the
/// newest first, and the reasons of members that did not answer.
fn ask(config: &Config, patience: Duration) -> Result<(Vec<Roster>, Vec<String>), Error> {
    let secret = config.peer_secret.clone();
    Roster::ask(listed_others(config), patience, secret).map_err(Error::Threads)
}

/// Peer URLs of the other members of `--initial-cluster`.
pub(crate) fn listed_others(config: &Config) -> Vec<String> {
    let others = config.founders.iter().filter(|it| it.name != config.name);
    others.flat_map(|other| texts(&other.peer_urls)).collect()
}

/// Refuses to begin a cluster with members that already run in another one: this member
/// would wait for them forever.
fn refuse_other_cluster(own: Identity, rosters: &[Roster]) -> Result<(), Error> {
    let other = rosters.iter().find(|it| it.cluster_id != own.cluster);
    match other {
        Some(roster) => Err(Error::OtherCluster {
            described: own.cluster,
            running: roster.cluster_id,
            members: listed(roster),
        }),
        None => Ok(()),
    }
}

/// Refuses another segment size than the other members have: a leader makes entries as
/// large as its own segments hold. A directory that holds data keeps the size that it began
/// with, whatever the flag says.
fn refuse_other_segments(
    config: &Config,
    rosters: &[Roster],
    holds_data: bool,
) -> Result<(), Error> {
    let differs = |it: &&Roster| it.segment_bytes != 0 && it.segment_bytes != config.segment_bytes;
    match rosters.iter().find(differs) {
        Some(roster) if !holds_data => Err(Error::OtherSegments {
            ours: config.segment_bytes,
            theirs: roster.segment_bytes,
        }),
        _ => Ok(()),
    }
}

/// Refuses a member that the others know as removed, or, if its directory is empty, as one
/// that has been up.
fn refuse_if_known(member: u64, rosters: &[Roster], holds_data: bool) -> Result<(), Error> {
    if rosters
        .iter()
        .any(|roster| roster.removed.contains(&member))
    {
        return Err(Error::Removed { member });
    }
    let known = rosters.iter().filter_map(|roster| roster.member(member));
    match known.into_iter().any(was_up) {
        true if !holds_data => Err(Error::Bootstrapped { member }),
        _ => Ok(()),
    }
}

/// Whether the member has published its name or its client URLs, which it does at its first
/// start.
fn was_up(member: &Member) -> bool {
    member.is_started() || !member.client_urls.is_empty()
}

/// The joining member's ids in the newest roster that matches the list of the flags.
fn joined(config: &Config, rosters: &[Roster], reasons: &[String]) -> Result<Introduced, Error> {
    let mut misfit = None;
    for roster in rosters {
        match place(config, roster) {
            Ok(member) => {
                let membership = Membership {
                    identity: Identity {
                        member: member.id,
                        cluster: roster.cluster_id,
                    },
                    peer_urls: member.peer_urls.clone(),
                };
                return Ok(Introduced {
                    membership,
                    members: roster.members.clone(),
                });
            }
            // The newest roster's misfit is reported.
            Err(what) => misfit = misfit.or(Some((roster, what))),
        }
    }
    Err(match misfit {
        Some((roster, what)) => Error::NotListed {
            members: listed(roster),
            what,
        },
        None => Error::NoMemberAnswers {
            reasons: reasons.join("; "),
        },
    })
}

/// Finds this member in a roster. The roster and the list of the flags must have the same
/// members.
fn place<'a>(config: &Config, roster: &'a Roster) -> Result<&'a Member, String> {
    if roster.members.len() != config.founders.len() {
        return Err("member count is unequal".to_owned());
    }
    let mut own = None;
    for member in &roster.members {
        let fits = |founder: &&Founder| sorted(&member.peer_urls) == texts(&founder.peer_urls);
        let founder = config.founders.iter().find(fits).ok_or_else(|| {
            format!(
                "PeerURLs: no match found for existing member ({:x}, [{}])",
                member.id,
                member.peer_urls.join(" ")
            )
        })?;
        if founder.name == config.name {
            own = Some(member);
        }
    }
    own.ok_or_else(|| format!("no member has the peer URLs of {}", config.name))
}

/// Members as text, in the form of `--initial-cluster`.
fn listed(roster: &Roster) -> String {
    let members = roster.members.iter().map(|member| {
        let name = if member.name.is_empty() {
            "?"
        } else {
            &member.name
        };
        let urls = member.peer_urls.iter();
        let listed: Vec<String> = urls.map(|url| format!("{name}={url}")).collect();
        listed.join(",")
    });
    members.collect::<Vec<_>>().join(",")
}

pub(crate) fn texts(urls: &[Url]) -> Vec<String> {
    let texts = urls.iter().map(Url::as_str).map(str::to_owned);
    sorted(&texts.collect::<Vec<_>>())
}

fn sorted(texts: &[String]) -> Vec<String> {
    let mut sorted = texts.to_vec();
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing;

    const LIST: &str = "--initial-cluster=a=http://h:1,b=http://h:2,c=http://h:3";

    fn config(state: &str) -> Config {
        testing::config(&[
            "--name=c",
            LIST,
            &format!("--initial-cluster-state={state}"),
            "--initial-advertise-peer-urls=http://h:3",
        ])
    }

    fn member(id: u64, name: &str) -> Member {
        Member {
            id,
            name: name.to_owned(),
            peer_urls: vec![format!("http://h:{id}")],
            ..Member::default()
        }
    }

    fn roster(index: u64, members: Vec<Member>) -> Roster {
        Roster {
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

    #[test]
    fn a_joining_member_takes_the_id_that_the_cluster_gave_it() {
        let config = config("existing");
        // The older roster does not have the new member yet.
        let old = roster(1, vec![member(1, "a"), member(2, "b")]);
        let new = roster(2, three(""));
        for rosters in [vec![new.clone(), old.clone()], vec![old, new]] {
            let introduced = joined(&config, &rosters, &[]).unwrap();
            assert_eq!(introduced.members, three(""));
            let found = introduced.membership;
            assert_eq!(
                found.identity,
                Identity {
                    member: 3,
                    cluster: 9
                }
            );
            assert_eq!(found.peer_urls, ["http://h:3"]);
        }
    }

    #[test]
    fn a_member_that_is_not_listed_is_refused_in_etcd_s_words() {
        let config = config("existing");
        let mut elsewhere = three("");
        elsewhere[1].peer_urls = vec!["http://h:9".into()];
        for (rosters, part) in [
            (vec![], "cannot fetch cluster info from peer urls"),
            (
                vec![roster(1, vec![member(1, "a")])],
                "member count is unequal",
            ),
            (
                vec![roster(1, elsewhere)],
                "no match found for existing member (2, [http://h:9])",
            ),
        ] {
            let error = joined(&config, &rosters, &["h: no answer".into()]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_member_that_was_up_or_was_removed_must_not_begin_again() {
        assert!(refuse_if_known(3, &[], false).is_ok(), "no member answers");
        assert!(refuse_if_known(3, &[roster(1, three(""))], false).is_ok());
        let started = [roster(2, three("")), roster(1, three("c"))];
        let error = refuse_if_known(3, &started, false).unwrap_err().to_string();
        let expected = "member 3 has already been bootstrapped";
        assert!(error.contains(expected), "{error}");
        assert!(
            refuse_if_known(3, &started, true).is_ok(),
            "it has its data"
        );
        let removed = refuse_if_known(7, &started, true);
        assert!(matches!(removed, Err(Error::Removed { member: 7 })));
    }

    #[test]
    fn a_cluster_is_not_begun_beside_one_that_runs() {
        let own = Identity {
            member: 3,
            cluster: 9,
        };
        let rosters = [roster(1, three("c"))];
        assert!(refuse_other_cluster(own, &rosters).is_ok());
        let stranger = Identity { cluster: 10, ..own };
        assert!(refuse_other_cluster(stranger, &[]).is_ok());
        let error = refuse_other_cluster(stranger, &rosters).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("cluster 9 ") && text.contains("cluster a"),
            "{text}"
        );
        for remedy in [
            "--initial-cluster-token",
            "--initial-cluster-state=existing",
        ] {
            assert!(text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn segments_of_another_size_are_refused_where_a_directory_begins() {
        let config = config("new");
        let roster_of = |segment_bytes| Roster {
            segment_bytes,
            ..roster(1, three("c"))
        };
        for same in [0, config.segment_bytes] {
            assert!(refuse_other_segments(&config, &[roster_of(same)], false).is_ok());
        }
        let rosters = [roster_of(config.segment_bytes), roster_of(1 << 20)];
        assert!(refuse_other_segments(&config, &rosters, true).is_ok());
        let error = refuse_other_segments(&config, &rosters, false).unwrap_err();
        let text = error.to_string();
        for part in ["start it with --segment-bytes=1048576", "67108864"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
