//! The table of fields with which the page at `/ui` reads what Kubernetes stores.
//!
//! ```text
//!   kubernetes/api, kubernetes/apimachinery
//!     generated.proto ──► message ──► fields: number, name, type ──┐
//!     *.go            ──► tags: name in JSON, omitempty, inline  ──┴──► kubernetes-fields.json
//! ```
//!
//! A message is `Name|1 metadata 305,2 spec 357`; the page's `kubernetes.js` says what a type is.
//! Messages that are equal in all versions of a group stand in the table once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::process::{Outcome, root};

/// Where the page finds the table.
const TABLE: &str = "store/ui/page/kubernetes-fields.json";

/// Where Kubernetes' types are.
#[derive(clap::Args)]
pub struct Options {
    /// A checkout of kubernetes/api
    api: PathBuf,
    /// A checkout of kubernetes/apimachinery of the same release
    machinery: PathBuf,
}

/// Writes the table from two checkouts.
pub fn write(options: &Options) -> Outcome {
    let (kinds, table) = table(&options.api, &options.machinery)?;
    let file = root().join(TABLE);
    fs::write(&file, &table).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("{}: {kinds} kinds, {} bytes", file.display(), table.len());
    Ok(())
}

/// Groups of the API with objects that are never stored.
const NOT_STORED: [&str; 6] = [
    "admission",
    "apidiscovery",
    "authentication",
    "authorization",
    "imagepolicy",
    "lifecycle",
];
/// Messages that the page shows in a way of their own, so that equal fields do not make them equal.
const SPECIAL: [&str; 7] = [
    "Duration",
    "FieldsV1",
    "IntOrString",
    "MicroTime",
    "Quantity",
    "RawExtension",
    "Time",
];

struct Field {
    number: u32,
    name: String,
    /// `*` for a list, `%` for a map with text keys, or empty.
    repeated: &'static str,
    /// Full name of a message, or a scalar type of protobuf.
    kind: String,
}

/// The parts of a Go field's tags that decide its JSON.
#[derive(Default)]
struct Tag {
    json: String,
    /// Left out of JSON when it has its zero value.
    omits_zero: bool,
}

#[derive(Default)]
struct Sources {
    messages: BTreeMap<String, Vec<Field>>,
    tags: HashMap<(String, u32), Tag>,
    /// API group by package.
    groups: HashMap<String, String>,
}

/// The number of kinds and the table, from directories with the two repositories.
fn table(api: &Path, machinery: &Path) -> Outcome<(usize, String)> {
    let mut sources = Sources::default();
    for repository in [machinery, api] {
        let shown = repository.display();
        let protos = protos(repository).map_err(|error| format!("{shown}: {error}"))?;
        for proto in protos {
            let read = sources.read(&proto);
            read.map_err(|error| format!("{}: {error}", proto.display()))?;
        }
    }
    match sources.kinds().len() {
        0 => {
            let (api, machinery) = (api.display(), machinery.display());
            let what = format!(
                "no kinds in {api} and {machinery}: name checkouts with files generated.proto"
            );
            Err(what.into())
        }
        kinds => Ok((kinds, sources.write())),
    }
}

fn protos(repository: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![repository.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                let is_read = !NOT_STORED.contains(&&*name) && name != "testapigroup";
                directories.extend(is_read.then(|| path.clone()));
            } else if name == "generated.proto" {
                found.push(path.clone());
            }
        }
    }
    found.sort();
    Ok(found)
}

impl Sources {
    fn read(&mut self, proto: &Path) -> io::Result<()> {
        let package = self.read_proto(&fs::read_to_string(proto)?);
        let directory = proto.parent().unwrap_or(Path::new("."));
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".go") && !name.contains("generated") && !name.ends_with("_test.go") {
                self.read_go(&package, &fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    /// Returns the package.
    fn read_proto(&mut self, text: &str) -> String {
        let mut package = String::new();
        let mut message = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("package ") {
                package = name.trim_end_matches(';').to_owned();
            } else if let Some(name) = line.strip_prefix("message ") {
                let full = format!("{package}.{}", name.trim_end_matches(" {"));
                self.messages.insert(full.clone(), Vec::new());
                message = Some(full);
            } else if line == "}" {
                message = None;
            } else if let (Some(message), Some(field)) = (&message, proto_field(line, &package)) {
                self.messages
                    .entry(message.clone())
                    .or_default()
                    .push(field);
            }
        }
        package
    }

    fn read_go(&mut self, package: &str, text: &str) {
        let mut structure = None;
        for line in text.lines() {
            let named = line.split_once("GroupName");
            let named = named.filter(|(before, _)| !before.contains("//"));
            if let Some(group) = named.and_then(|(_, group)| group.trim().strip_prefix("= \"")) {
                let group = group.trim_end_matches('"').to_owned();
                self.groups.insert(package.to_owned(), group);
            }
            let opened = line
                .trim()
                .trim_start_matches("type ")
                .strip_suffix(" struct {");
            if let Some(name) = opened {
                structure = Some(format!("{package}.{name}"));
            } else if line.starts_with('}') {
                structure = None;
            } else if let (Some(name), Some((number, tag))) = (&structure, go_tag(line)) {
                self.tags.insert((name.clone(), number), tag);
            }
        }
    }

    /// Kinds with their messages: those of the API that have metadata and are no part of another kind.
    fn kinds(&self) -> BTreeMap<String, String> {
        let mut kinds = BTreeMap::new();
        for (message, fields) in &self.messages {
            let (package, name) = message.rsplit_once('.').unwrap_or_default();
            let has_metadata = fields.iter().any(|field| {
                field.number == 1 && field.name == "metadata" && field.kind.ends_with(".ObjectMeta")
            });
            let is_part = name.ends_with("TemplateSpec") || name == "PersistentVolumeClaimTemplate";
            if !package.starts_with("k8s.io.api.") || !has_metadata || is_part {
                continue;
            }
            let version = package.rsplit('.').next().unwrap_or_default();
            let group = self.groups.get(package).map_or("", String::as_str);
            let slash = if group.is_empty() { "" } else { "/" };
            kinds.insert(format!("{group}{slash}{version} {name}"), message.clone());
        }
        kinds
    }

    fn reachable(&self, kinds: &BTreeMap<String, String>) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut left: Vec<&String> = kinds.values().collect();
        while let Some(message) = left.pop() {
            let Some(fields) = self.messages.get(message) else {
                continue;
            };
            if reached.insert(message.clone()) {
                left.extend(fields.iter().map(|field| &field.kind));
            }
        }
        reached
    }

    fn line(&self, message: &str, place: impl Fn(&str) -> usize) -> String {
        let mut fields: Vec<&Field> = self.messages[message].iter().collect();
        fields.sort_by_key(|field| field.number);
        let parts = fields.iter().map(|field| self.part(message, field, &place));
        parts.collect::<Vec<_>>().join(",")
    }

    fn part(&self, message: &str, field: &Field, place: impl Fn(&str) -> usize) -> String {
        let Field {
            number,
            name,
            repeated,
            kind,
        } = field;
        let tag = self.tags.get(&(message.to_owned(), *number));
        let is_inline = tag.is_some_and(|tag| tag.json.is_empty());
        let name = tag
            .map(|tag| &tag.json)
            .filter(|json| !json.is_empty())
            .unwrap_or(name);
        let scalar = scalar(kind);
        let omits =
            tag.is_some_and(|tag| tag.omits_zero) && scalar.is_some() && repeated.is_empty();
        let mark = match (is_inline, omits) {
            (true, _) => "^",
            (false, true) => "?",
            (false, false) => "",
        };
        let kind = scalar.map_or_else(|| place(kind).to_string(), str::to_owned);
        format!("{number} {name} {repeated}{kind}{mark}")
    }

    /// Messages by class: two are in the same one if their fields are equal, also within.
    fn classes(&self, messages: &BTreeSet<String>) -> HashMap<String, usize> {
        let mut classes: HashMap<String, usize> = HashMap::new();
        let mut before = 0;
        loop {
            let mut found: HashMap<(String, String), usize> = HashMap::new();
            let mut next = HashMap::new();
            for message in messages {
                let line = self.line(message, |kind| classes.get(kind).copied().unwrap_or(0));
                let number = found.len();
                let class = *found.entry((self.special(message), line)).or_insert(number);
                next.insert(message.clone(), class);
            }
            classes = next;
            if found.len() == before {
                return classes;
            }
            before = found.len();
        }
    }

    fn special(&self, message: &str) -> String {
        let name = short(message);
        let fields = &self.messages[message];
        let is_list = matches!(&fields[..], [only] if only.name == "items" && only.kind == "string" && only.repeated == "*");
        if SPECIAL.contains(&name) || is_list {
            name.to_owned()
        } else {
            String::new()
        }
    }

    fn write(&self) -> String {
        let kinds = self.kinds();
        let messages = self.reachable(&kinds);
        let classes = self.classes(&messages);
        let mut sorted: Vec<&String> = messages.iter().collect();
        sorted.sort_by_key(|message| (short(message), *message));
        let mut places = HashMap::new();
        let mut rows = Vec::new();
        for message in sorted {
            places.entry(classes[message]).or_insert_with(|| {
                rows.push(message);
                rows.len() - 1
            });
        }
        let place = |message: &str| classes.get(message).map_or(0, |class| places[class]);
        let kinds = kinds
            .iter()
            .map(|(kind, message)| format!("{kind:?}:{}", place(message)));
        let rows = rows
            .iter()
            .map(|row| format!("\"{}|{}\"", short(row), self.line(row, place)));
        let mut text = String::new();
        let (kinds, rows) = (kinds.collect::<Vec<_>>(), rows.collect::<Vec<_>>());
        let _ = write!(
            text,
            "{{\"kinds\":{{\n{}\n}},\"messages\":[\n{}\n]}}\n",
            kinds.join(",\n"),
            rows.join(",\n")
        );
        text
    }
}

fn short(message: &str) -> &str {
    message.rsplit('.').next().unwrap_or(message)
}

fn scalar(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "string" => "s",
        "bytes" => "b",
        "int32" | "int64" | "uint32" | "uint64" => "i",
        "bool" => "u",
        "double" => "d",
        _ => return None,
    })
}

/// A field such as `optional .k8s.io.api.core.v1.Pod pod = 1;` or `map<string, bytes> data = 2;`.
fn proto_field(line: &str, package: &str) -> Option<Field> {
    let line = line.trim().strip_suffix(';')?;
    let (declaration, number) = line.split_once(" = ")?;
    let (declaration, name) = declaration.rsplit_once(' ')?;
    let (repeated, kind) = match declaration.split_once(' ')? {
        ("map<string,", kind) => ("%", kind.strip_suffix('>')?),
        ("repeated", kind) => ("*", kind),
        ("optional" | "required", kind) => ("", kind),
        _ => return None,
    };
    let kind = match kind.trim_start_matches('.') {
        full if scalar(full).is_some() || full.starts_with("k8s.io") => full.to_owned(),
        local => format!("{package}.{local}"),
    };
    let number = number.trim().parse().ok()?;
    Some(Field {
        number,
        name: name.to_owned(),
        repeated,
        kind,
    })
}

/// The number of a field of a struct in protobuf, and its tags.
fn go_tag(line: &str) -> Option<(u32, Tag)> {
    let (declaration, tags) = line
        .trim()
        .strip_suffix('`')
        .or(Some(line.trim()))?
        .split_once('`')?;
    let value = |name: &str| {
        let (_, rest) = tags.split_once(&format!("{name}:\""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    let number = value("protobuf")?.split(',').nth(1)?.parse().ok()?;
    let json = value("json")?;
    let is_pointer = declaration.split_whitespace().last()?.contains('*');
    let omits_zero = !is_pointer && (json.contains("omitempty") || json.contains("omitzero"));
    let json = json.split(',').next().unwrap_or_default().to_owned();
    Some((number, Tag { json, omits_zero }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "\
syntax = \"proto2\";
package k8s.io.api.demo.v1;
message Thing {
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;
  optional ThingSpec spec = 2;
}
message ThingSpec {
  optional int32 replicas = 1;
  repeated string names = 2;
  map<string, bytes> data = 3;
}
";
    const GO: &str = "\
const GroupName = \"demo.io\"
type ThingSpec struct {
\tReplicas *int32 `json:\"replicas,omitempty\" protobuf:\"varint,1,opt,name=replicas\"`
\tNames []string `json:\"aliases,omitempty\" protobuf:\"bytes,2,rep,name=names\"`
}
";
    const MACHINERY: &str = "\
package k8s.io.apimachinery.pkg.apis.meta.v1;
message ObjectMeta {
  optional string name = 1;
}
";

    #[test]
    fn folders_without_kinds_and_folders_that_are_not_there_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let error = table(folder.path(), folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("no kinds in "), "{error}");
        let gone = folder.path().join("gone");
        let error = table(&gone, folder.path()).unwrap_err().to_string();
        assert!(error.contains("gone: "), "{error}");
    }

    #[test]
    fn a_kind_is_a_message_with_metadata_and_its_fields_have_their_names_in_json() {
        let folder = tempfile::tempdir().unwrap();
        for (place, file, text) in [
            ("api/demo/v1", "generated.proto", API),
            ("api/demo/v1", "types.go", GO),
            ("machinery/meta/v1", "generated.proto", MACHINERY),
        ] {
            let directory = folder.path().join(place);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(file), text).unwrap();
        }
        let [api, machinery] = ["api", "machinery"].map(|name| folder.path().join(name));
        let expected = "{\"kinds\":{\n\"demo.io/v1 Thing\":1\n},\"messages\":[\n\
                        \"ObjectMeta|1 name s\",\n\
                        \"Thing|1 metadata 0,2 spec 2\",\n\
                        \"ThingSpec|1 replicas i,2 aliases *s,3 data %b\"\n]}\n";
        assert_eq!(table(&api, &machinery).unwrap(), (1, expected.to_owned()));
    }
}
