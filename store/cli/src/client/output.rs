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

use super::quoted::quoted;
use crate::failure::Failure;
use crate::table::Table;

/// Flags that select the format.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OutputArguments {
    /// Print all bytes as \x68\x65\x78, for keys and values that are not text
    #[arg(long, global = true, help_heading = "Output")]
    hex: bool,
    /// Print plain lines, etcd's JSON with bytes in base64, a line for each field, or a table
    /// (of endpoints and members)
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
    // etcdctl's `"Name" : value` lines.
    Fields,
    // Names above aligned columns.
    Table,
}

/// Buffered stdout in one of the forms.
#[derive(Debug)]
pub(crate) struct Printer {
    arguments: OutputArguments,
    output: BufWriter<Stdout>,
}

impl Printer {
    /// A printer for stdout, of answers that have no table.
    pub(crate) fn new(arguments: OutputArguments) -> Result<Printer, Failure> {
        match arguments.write_out {
            Form::Table => Err(Failure::wrong_use(
                "this verb has no table: table is not supported as its output format",
                "Write -w simple, -w fields or -w json.",
            )),
            _ => Ok(Printer::with_tables(arguments)),
        }
    }

    /// A printer for stdout, of answers that can be tables.
    pub(crate) fn with_tables(arguments: OutputArguments) -> Printer {
        Printer {
            arguments,
            output: BufWriter::new(io::stdout()),
        }
    }

    /// The form of the answers.
    pub(crate) fn form(&self) -> Form {
        self.arguments.write_out
    }

    /// Whether answers are printed as JSON.
    pub(crate) fn json(&self) -> bool {
        self.form() == Form::Json
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
        match self.form() {
            // etcd answers some calls without a header.
            Form::Json if header.is_none() => self.line("{}"),
            Form::Json => self.line(json!({ "header": header_json(header) })),
            Form::Fields => self.header_fields(header),
            Form::Simple | Form::Table => self.line(text),
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
        if self.form() == Form::Fields {
            self.header_fields(header)?;
            let quoted = names.iter().map(|name| quoted(name.as_bytes()));
            let title = [&field[..1].to_ascii_uppercase(), &field[1..]].concat();
            return self.field(&title, quoted.collect::<Vec<_>>().join(" "));
        }
        names.iter().try_for_each(|name| self.line(name))
    }

    /// Prints a row of words: with commas between them.
    pub(crate) fn row(&mut self, cells: &[String]) -> io::Result<()> {
        self.line(cells.join(", "))
    }

    /// Prints a table.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        table.write(&mut self.output)
    }

    /// Prints a field as etcdctl does.
    pub(crate) fn field(&mut self, name: &str, value: impl std::fmt::Display) -> io::Result<()> {
        self.line(format_args!("\"{name}\" : {value}"))
    }

    /// Prints a field of text or bytes.
    pub(crate) fn text_field(&mut self, name: &str, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.field(name, quoted(text.as_ref()))
    }

    /// Prints a field with the id of a member or a cluster.
    pub(crate) fn id_field(&mut self, name: &str, id: u64) -> io::Result<()> {
        match self.arguments.hex {
            true => self.field(name, format_args!("{id:x}")),
            false => self.field(name, id),
        }
    }

    /// Prints a field with the id of a lease.
    pub(crate) fn lease_field(&mut self, name: &str, lease: i64) -> io::Result<()> {
        match self.arguments.hex {
            true => self.field(name, format_args!("{lease:016x}")),
            false => self.field(name, lease),
        }
    }

    /// Prints the fields of a header; answers about members have no revision.
    pub(crate) fn header_fields(&mut self, header: Option<&ResponseHeader>) -> io::Result<()> {
        let header = header.copied().unwrap_or_default();
        self.id_field("ClusterID", header.cluster_id)?;
        self.id_field("MemberID", header.member_id)?;
        if header.revision > 0 {
            self.field("Revision", header.revision)?;
        }
        self.field("RaftTerm", header.raft_term)
    }

    /// Prints the fields of a key with its value.
    pub(crate) fn pair_fields(&mut self, prefix: &str, pair: &EncodedKeyValue) -> io::Result<()> {
        let fields = pair.fields();
        self.text_field(&format!("{prefix}Key"), fields.key)?;
        self.field(&format!("{prefix}CreateRevision"), fields.create_revision)?;
        self.field(&format!("{prefix}ModRevision"), fields.mod_revision)?;
        self.field(&format!("{prefix}Version"), fields.version)?;
        self.text_field(&format!("{prefix}Value"), fields.value)?;
        self.lease_field(&format!("{prefix}Lease"), fields.lease)
    }

    /// The id of a member or a cluster in JSON: with --hex it is a text.
    pub(crate) fn id_json(&self, id: u64) -> Value {
        match self.arguments.hex {
            true => format!("{id:x}").into(),
            false => id.into(),
        }
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
    let mut object = json!({
        "cluster_id": header.cluster_id,
        "member_id": header.member_id,
        "revision": header.revision,
        "raft_term": header.raft_term,
    });
    without_empty(&mut object);
    object
}

/// A header of an answer about members; its ids are texts with --hex.
pub(crate) fn member_header_json(printer: &Printer, header: Option<&ResponseHeader>) -> Value {
    let mut object = header_json(header);
    for name in ["cluster_id", "member_id"] {
        if let Some(id) = object[name].as_u64() {
            object[name] = printer.id_json(id);
        }
    }
    object
}

/// Bytes in JSON.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Takes away the fields of an object that etcd leaves out: zero, false and what is empty.
pub(crate) fn without_empty(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.retain(|_, value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        });
    }
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
