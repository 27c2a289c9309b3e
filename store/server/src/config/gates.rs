//! etcd's feature gates.

use std::collections::BTreeSet;

use super::values;

/// A switch of etcd's for a part that is not finished, or not for all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Its name in `--feature-gates`.
    pub(crate) name: &'static str,
    /// etcd's word for how finished the part is.
    pub(crate) stage: &'static str,
    /// Whether it switches a part that exists here.
    pub(crate) is_served: bool,
}

const ALPHA: &str = "ALPHA";
const BETA: &str = "BETA";
pub(super) const INITIAL_CORRUPT_CHECK: &str = "InitialCorruptCheck";
/// Members connect from an address that they announce.
pub(super) const SET_MEMBER_LOCAL_ADDR: &str = "SetMemberLocalAddr";
pub(super) const COMPACT_HASH_CHECK: &str = "CompactHashCheck";

/// The gates of etcd 3.7.
pub(crate) const GATES: &[Gate] = &[
    gate("AllAlpha", ALPHA, true),
    gate("AllBeta", BETA, false),
    gate(COMPACT_HASH_CHECK, ALPHA, true),
    gate("FastLeaseKeepAlive", BETA, false),
    gate(INITIAL_CORRUPT_CHECK, ALPHA, true),
    gate("LeaseCheckpoint", ALPHA, false),
    gate("LeaseCheckpointPersist", ALPHA, false),
    gate("PriorityRequest", ALPHA, false),
    gate(SET_MEMBER_LOCAL_ADDR, ALPHA, true),
    gate("StopGRPCServiceOnDefrag", ALPHA, false),
    gate("TxnModeWriteWithSharedBuffer", BETA, false),
];

const fn gate(name: &'static str, stage: &'static str, is_served: bool) -> Gate {
    Gate {
        name,
        stage,
        is_served,
    }
}

/// The gates that a configuration opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    open: BTreeSet<&'static str>,
    /// Gates that are named and switch nothing here.
    idle: BTreeSet<&'static str>,
}

impl FeatureGates {
    /// Reads `A=true,B=false`; the error has etcd's words.
    pub(super) fn read(text: &str) -> Result<FeatureGates, String> {
        let mut named = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim());
            if !part.contains('=') {
                return Err(format!("missing bool value for {name}"));
            }
            let gate = GATES.iter().find(|gate| gate.name == name);
            let gate = gate.ok_or_else(|| format!("unrecognized feature gate: {name}"))?;
            let is_open = values::boolean("feature-gates", value)
                .map_err(|_| format!("invalid value of {name}={value}: write true or false"))?;
            named.push((gate, is_open));
        }
        Ok(FeatureGates::of(&named))
    }

    /// A gate that is not named is open if its stage's gate is.
    fn of(named: &[(&'static Gate, bool)]) -> FeatureGates {
        let value_of = |name: &str| {
            let mut named = named.iter().rev();
            named
                .find(|(gate, _)| gate.name == name)
                .map(|named| named.1)
        };
        let of_stage = |stage: &str| match stage {
            ALPHA => value_of("AllAlpha"),
            _ => value_of("AllBeta"),
        };
        let is_open = |gate: &&Gate| {
            let value = value_of(gate.name).or_else(|| of_stage(gate.stage));
            gate.is_served && value == Some(true)
        };
        let idle = named.iter().filter(|(gate, _)| !gate.is_served);
        FeatureGates {
            open: GATES.iter().filter(is_open).map(|gate| gate.name).collect(),
            idle: idle.map(|(gate, _)| gate.name).collect(),
        }
    }

    /// Whether a gate is open that switches something here.
    pub(crate) fn is_open(&self, name: &str) -> bool {
        self.open.contains(name)
    }

    /// The warning about gates without effect, if any is named.
    pub(super) fn warning(&self) -> Option<String> {
        let names: Vec<&str> = self.idle.iter().copied().collect();
        (!names.is_empty()).then(|| {
            format!(
                "feature gates without effect, because the parts that they switch do not exist \
                 here: {}",
                names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Vec<&'static str> {
        FeatureGates::read(text).unwrap().open.into_iter().collect()
    }

    #[test]
    fn a_gate_is_open_if_it_or_its_stage_is_named() {
        assert!(open("").is_empty());
        assert_eq!(open("InitialCorruptCheck=true"), ["InitialCorruptCheck"]);
        assert_eq!(open(" CompactHashCheck = 1 ,"), ["CompactHashCheck"]);
        assert_eq!(
            open("AllAlpha=true"),
            [
                "AllAlpha",
                "CompactHashCheck",
                "InitialCorruptCheck",
                "SetMemberLocalAddr"
            ]
        );
        assert_eq!(
            open("CompactHashCheck=false,AllAlpha=true"),
            ["AllAlpha", "InitialCorruptCheck", "SetMemberLocalAddr"]
        );
        assert!(open("AllBeta=true,PriorityRequest=true").is_empty());
    }

    #[test]
    fn errors_have_the_words_of_etcd() {
        for (text, expected) in [
            ("Nothing=true", "unrecognized feature gate: Nothing"),
            ("AllAlpha", "missing bool value for AllAlpha"),
            ("AllAlpha=yes", "invalid value of AllAlpha=yes"),
        ] {
            let error = FeatureGates::read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn gates_without_effect_are_named_in_a_warning() {
        let gates = FeatureGates::read("PriorityRequest=true,InitialCorruptCheck=true").unwrap();
        let warning = gates.warning().unwrap();
        assert!(warning.ends_with("here: PriorityRequest"), "{warning}");
        assert_eq!(FeatureGates::read("AllAlpha=true").unwrap().warning(), None);
    }
}
