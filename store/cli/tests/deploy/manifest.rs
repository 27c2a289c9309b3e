//! Files of `deploy/` as values.

use std::collections::BTreeMap;
use std::ops::Index;
use std::path::{Path, PathBuf};

use yaml_rust2::{Yaml, YamlLoader};

/// A file of `deploy/`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(name)
}

pub fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// All documents of a file.
pub fn all(name: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&read(name)).unwrap()
}

/// The only document of a file.
pub fn one(name: &str) -> Yaml {
    let mut all = all(name);
    assert_eq!(all.len(), 1, "{name}");
    all.remove(0)
}

/// A map with the maps of its key `<<` inside.
pub struct Merged(BTreeMap<String, Yaml>);

impl Index<&str> for Merged {
    type Output = Yaml;

    fn index(&self, key: &str) -> &Yaml {
        self.0.get(key).unwrap_or(&Yaml::BadValue)
    }
}

impl IntoIterator for Merged {
    type Item = (String, Yaml);
    type IntoIter = std::collections::btree_map::IntoIter<String, Yaml>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

pub fn merged(value: &Yaml) -> Merged {
    let mut merged = BTreeMap::new();
    let own = value.as_hash().unwrap();
    for (key, value) in own.iter().filter(|(key, _)| key.as_str() == Some("<<")) {
        assert!(key.as_str().is_some());
        merged.extend(self::merged(value));
    }
    let own = own.iter().filter(|(key, _)| key.as_str() != Some("<<"));
    merged.extend(own.map(|(key, value)| (text(key), value.clone())));
    Merged(merged)
}

/// A string or a number as text.
pub fn text(value: &Yaml) -> String {
    match value {
        Yaml::String(text) => text.clone(),
        Yaml::Integer(number) => number.to_string(),
        other => panic!("no text: {other:?}"),
    }
}

/// A list of strings.
pub fn texts(value: &Yaml) -> Vec<String> {
    value.as_vec().unwrap().iter().map(text).collect()
}
