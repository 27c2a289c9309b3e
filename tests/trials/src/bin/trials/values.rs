//! Values that are written once and contain their own expected contents.

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::EncodedKeyValue;
use history::Version;

/// Name of a new value. The history has the name; `bytes` follow it in the store.
pub fn name(client: u32, counter: u64, bytes: u64) -> String {
    format!("{client}.{counter}.{bytes}")
}

/// A length that is small for most values.
pub fn mostly_small(random: &mut Random) -> u64 {
    match random.below(50) {
        0 => 2_000 + random.below(14_000),
        1..=9 => random.below(800),
        _ => random.below(40),
    }
}

/// The whole value of a name.
pub fn whole(name: &str) -> Bytes {
    let bytes: usize = name
        .rsplit('.')
        .next()
        .and_then(|it| it.parse().ok())
        .unwrap_or(0);
    let mut value = format!("{name}:").into_bytes();
    let pattern = name.bytes().cycle().take(bytes);
    value.extend(pattern);
    value.into()
}

/// A stored version for the history. A damaged value becomes a name that no client
/// has written.
pub fn version(kv: &EncodedKeyValue) -> Version {
    let fields = kv.fields();
    Version {
        key: String::from_utf8_lossy(fields.key).into_owned(),
        value: name_of(fields.value),
        created: fields.create_revision,
        modified: fields.mod_revision,
        version: fields.version,
        lease: fields.lease,
    }
}

fn name_of(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    match text.split_once(':') {
        Some((name, _)) if whole(name) == value => name.to_owned(),
        _ => format!("DAMAGED {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_value_has_its_name_and_a_damaged_one_has_not() {
        let value = whole("3.17.5");
        assert_eq!(value, "3.17.5:3.17.");
        assert_eq!(name_of(&value), "3.17.5");
        assert!(name_of(&value[..value.len() - 1]).starts_with("DAMAGED"));
    }
}
