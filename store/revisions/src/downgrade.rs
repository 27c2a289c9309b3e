//! Downgrades: the version to which an operator wants to take the cluster back.
//!
//! As in etcd, a target is enabled once, can be read in the status, and stays until it is
//! cancelled. The cluster's version does not change: no older release of Inkstone is there to go
//! back to (docs/decisions/0028-downgrades.md).

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::downgrade_request::DowngradeAction;
use etcd_api::etcdserverpb::{DowngradeRequest, DowngradeResponse};

use crate::machine::Machine;
use crate::state::StateRecord;
use crate::{Error, Response};

/// Evaluates a request about downgrades.
pub(crate) fn change(machine: &mut Machine, request: &DowngradeRequest) -> Result<Response, Error> {
    let action = DowngradeAction::try_from(request.action);
    let action = action.map_err(|_| Refusal::NotCapable)?;
    let target = match action {
        DowngradeAction::Validate | DowngradeAction::Enable => {
            let target = target(&request.version)?;
            if machine.decided.downgrade.is_some() {
                return Err(Refusal::DowngradeInProcess.into());
            }
            Some(target)
        }
        DowngradeAction::Cancel => None,
    };
    if action != DowngradeAction::Validate && target != machine.decided.downgrade {
        machine.decided.downgrade.clone_from(&target);
        machine.open.push_state(&StateRecord::Downgrade { target });
    }
    Ok(Response::Downgrade(DowngradeResponse {
        header: None,
        version: minor_version(etcd_api::CLUSTER_VERSION).to_owned(),
    }))
}

/// The version that a text names, as the cluster has versions: without a patch. An error unless
/// it is one minor version below the cluster's.
fn target(text: &str) -> Result<String, Refusal> {
    let target = parsed(text).or_else(|| parsed(&format!("{text}.0")));
    let (major, minor) = target.ok_or(Refusal::WrongDowngradeVersionFormat)?;
    let own = parsed(etcd_api::CLUSTER_VERSION).expect("the own version is one");
    match (major, minor) == (own.0, own.1 - 1) {
        true => Ok(format!("{major}.{minor}.0")),
        false => Err(Refusal::InvalidDowngradeTargetVersion),
    }
}

/// Major and minor of a semantic version, read as etcd's library reads it: three numbers, then
/// `-` and a pre-release, then `+` and metadata.
fn parsed(text: &str) -> Option<(i64, i64)> {
    let (text, metadata) = text.split_once('+').unwrap_or((text, ""));
    let (text, pre_release) = text.split_once('-').unwrap_or((text, ""));
    let mut numbers = text.splitn(3, '.').map(str::parse::<i64>);
    let mut next = || numbers.next()?.ok();
    let (major, minor, _patch) = (next()?, next()?, next()?);
    [pre_release, metadata]
        .into_iter()
        .all(is_identifier)
        .then_some((major, minor))
}

/// Whether a text is empty, or parts of letters, digits and hyphens with points between them.
fn is_identifier(text: &str) -> bool {
    let is_part = |part: &str| {
        let fits = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
        !part.is_empty() && part.bytes().all(fits)
    };
    text.is_empty() || text.split('.').all(is_part)
}

/// A version without its patch.
fn minor_version(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_minor_version_lower_is_a_target_in_any_of_its_forms() {
        for text in [
            "3.6",
            "3.6.0",
            "3.6.9",
            "03.6.1",
            "3.6.0-rc.1",
            "3.6.0-rc+a.b-c",
        ] {
            assert_eq!(target(text).as_deref(), Ok("3.6.0"), "{text}");
        }
        for text in [
            "3.5",
            "3.7",
            "3.7.0",
            "3.8.0",
            "2.6.0",
            "4.6",
            "3.9223372036854775807.1",
        ] {
            let refused = Err(Refusal::InvalidDowngradeTargetVersion);
            assert_eq!(target(text), refused, "{text}");
        }
        let malformed = [
            "",
            "x",
            "3",
            "v3.6",
            "3.6.x",
            "3.+6",
            "3.6.1.2",
            "3.6-rc",
            "3.6.0-a..b",
            "3.6.0+ä",
            " 3.6",
            "3.9223372036854775808.0",
        ];
        for text in malformed {
            let refused = Err(Refusal::WrongDowngradeVersionFormat);
            assert_eq!(target(text), refused, "{text}");
        }
    }

    #[test]
    fn answers_name_the_minor_version() {
        assert_eq!(minor_version("3.7.0"), "3.7");
    }
}
