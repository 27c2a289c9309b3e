//! Formats of answers: etcdctl's plain lines, or JSON.
//!
//! The plain format is a key line and a value line with the bytes as they are, so that a
//! script gets back what it put. JSON has the field names of etcd's API and
//! base64 for bytes, like etcdctl's.

use std::io::{self, BufWriter, Stdout, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::ResponseHeader;
use serde_json::{Map, Value, json};

/// Flags that select the format.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OutputArguments {
    /// Print all bytes as \x68\x65\x78, for keys and values that are not text
    #[arg(long, global = true, help_heading = "Output")]
    hex: bool,
    /// Print plain lines, or etcd's JSON with bytes in base64
    #[arg(
        short = 'w',
        long,
        global = true,
        value_enum,
        default_value_t = Form::Simple,
        value_name = "FORM",
        help_heading = "Output"
    )]
    write_out: Form,
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    // No doc comments here: clap would add them to the help of each verb.
    // A line for the key, a line for the value.
    Simple,
    // etcd's JSON, bytes in base64.
    Json,
}

/// Buffered stdout in one of the forms.
#[derive(Debug)]
pub(crate) struct Printer {
    arguments: OutputArguments,
    output: BufWriter<Stdout>,
}

impl Printer {
    /// A printer for stdout.
    pub(crate) fn new(arguments: OutputArguments) -> Printer {
        Printer {
            arguments,
            output: BufWriter::new(io::stdout()),
        }
    }

    /// Whether answers are printed as JSON.
    pub(crate) fn json(&self) -> bool {
        self.arguments.write_out == Form::Json
    }

    /// Prints a line of text.
    pub(crate) fn line(&mut self, text: impl std::fmt::Display) -> io::Result<()> {
        writeln!(self.output, "{text}")
    }

    /// Prints the answer to a change: its header as JSON, or a line of text.
    pub(crate) fn change(
        &mut self,
        header: Option<&ResponseHeader>,
        text: impl std::fmt::Display,
    ) -> io::Result<()> {
        match self.json() {
            true => self.line(json!({ "header": header_json(header) })),
            false => self.line(text),
        }
    }

    /// Prints a list of names: as the field `field`, or a line for each.
    pub(crate) fn names(
        &mut self,
        field: &str,
        header: Option<&ResponseHeader>,
        names: &[String],
    ) -> io::Result<()> {
        if self.json() {
            let mut object = json!({ "header": header_json(header) });
            if !names.is_empty() {
                object[field] = names.into();
            }
            return self.line(object);
        }
        names.iter().try_for_each(|name| self.line(name))
    }

    /// Prints a line of bytes of a key or value.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.key(bytes)?;
        self.raw(b"\n")
    }

    /// Prints bytes that are no key and no value.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)
    }

    /// Prints a key within a line.
    pub(crate) fn key(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.arguments.hex {
            for byte in bytes {
                write!(self.output, "\\x{byte:02x}")?;
            }
        } else {
            self.output.write_all(bytes)?;
        }
        Ok(())
    }

    /// Prints a key line and a value line.
    pub(crate) fn pair(&mut self, pair: &EncodedKeyValue) -> io::Result<()> {
        let fields = pair.fields();
        self.bytes(fields.key)?;
        self.bytes(fields.value)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// A response header, zero fields left out as etcd does.
pub(crate) fn header_json(header: Option<&ResponseHeader>) -> Value {
    let header = header.copied().unwrap_or_default();
    json!({
        "cluster_id": header.cluster_id,
        "member_id": header.member_id,
        "revision": header.revision,
        "raft_term": header.raft_term,
    })
}

/// A key with its value; zero fields are left out as etcd does.
pub(crate) fn pair_json(pair: &EncodedKeyValue) -> Value {
    let fields = pair.fields();
    let mut map = Map::new();
    map.insert("key".into(), STANDARD.encode(fields.key).into());
    let numbers = [
        ("create_revision", fields.create_revision),
        ("mod_revision", fields.mod_revision),
        ("version", fields.version),
        ("lease", fields.lease),
    ];
    for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
        map.insert(name.into(), number.into());
    }
    if !fields.value.is_empty() {
        map.insert("value".into(), STANDARD.encode(fields.value).into());
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_api::mvccpb::KeyValue;

    #[test]
    fn a_pair_in_json_has_base64_bytes_and_no_zero_fields() {
        let pair = EncodedKeyValue::from(KeyValue {
            key: "ink".into(),
            value: "stone".into(),
            create_revision: 2,
            mod_revision: 2,
            version: 1,
            lease: 0,
        });
        let expected = json!({
            "key": "aW5r", "value": "c3RvbmU=",
            "create_revision": 2, "mod_revision": 2, "version": 1,
        });
        assert_eq!(pair_json(&pair), expected);
    }
}
