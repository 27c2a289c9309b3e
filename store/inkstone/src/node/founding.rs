//! Identity of a founding member, computed from the founders and the token.

use cluster::MemberFile;
use revisions::{Member, identity, validate};

use super::NodeOptions;
use super::begin::url;
use super::options::Founder;
use crate::{Error, Remedy};

/// The identity of this member. Fails if the founders do not form a valid cluster, or this
/// member is not among them.
pub(super) fn member(options: &NodeOptions) -> Result<MemberFile, Error> {
    let wrong = |what: String| Err(Error::new(Remedy::CorrectTheCall, what));
    let name = &options.name;
    if options.founders.is_empty() {
        return wrong(format!(
            "{} is new and its cluster has no founders: name all founders, this member ({name}) \
             included, or let it `join` a cluster that exists",
            options.node.directory.display()
        ));
    }
    for founder in &options.founders {
        if validate::peer_urls(&[url(&founder.address)]).is_err() {
            return wrong(format!(
                "founder {} is at {:?}: write host:port",
                founder.name, founder.address
            ));
        }
        let same =
            |other: &&Founder| other.name == founder.name || other.address == founder.address;
        if options.founders.iter().filter(same).count() > 1 {
            return wrong(format!(
                "founder {} at {} shares its name or its address with another one",
                founder.name, founder.address
            ));
        }
    }
    let Some(own) = options.founders.iter().find(|it| it.name == *name) else {
        return wrong(format!(
            "the founders lack this member, {name}: name it too"
        ));
    };
    let members = founders(options);
    let ids: Vec<u64> = members.iter().map(|member| member.id).collect();
    Ok(MemberFile {
        member: identity::member_id(&[&url(&own.address)], &options.token),
        cluster: identity::cluster_id(&ids),
        peer_urls: vec![url(&own.address)],
    })
}

/// The founding members of the cluster.
pub(super) fn founders(options: &NodeOptions) -> Vec<Member> {
    let member = |founder: &Founder| {
        let url = url(&founder.address);
        Member {
            id: identity::member_id(&[&url], &options.token),
            peer_urls: vec![url],
            ..Member::default()
        }
    };
    options.founders.iter().map(member).collect()
}
