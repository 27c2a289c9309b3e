//! Our descriptors against etcd 3.7.3's, line by line.
//!
//! `contract.txt` was read from the descriptors that etcd's own Go packages
//! register; each line is a fact about the wire that some client relies on.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

#[test]
fn descriptors_equal_etcds() {
    let ours = describe();
    let etcds: BTreeSet<String> = include_str!("contract.txt")
        .lines()
        .map(str::to_owned)
        .collect();
    let missing: Vec<_> = etcds.difference(&ours).collect();
    let foreign: Vec<_> = ours.difference(&etcds).collect();
    assert!(
        missing.is_empty() && foreign.is_empty(),
        "missing {missing:#?}, foreign {foreign:#?}"
    );
    assert!(etcds.len() > 350, "the golden list itself was cut");
}

fn describe() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(etcd_api::DESCRIPTORS).expect("build.rs wrote it");
    let mut lines = BTreeSet::new();
    let is_etcds = |file: &&FileDescriptorProto| file.package() != "inkstonepb";
    for file in set.file.iter().filter(is_etcds) {
        describe_file(file, &mut lines);
    }
    lines
}

fn describe_file(file: &FileDescriptorProto, lines: &mut BTreeSet<String>) {
    for message in &file.message_type {
        describe_message(file.package(), message, lines);
    }
    for an_enum in &file.enum_type {
        describe_enum(file.package(), an_enum, lines);
    }
    for service in &file.service {
        for method in &service.method {
            lines.insert(format!(
                "method /{}.{}/{} {}{} -> {}{}",
                file.package(),
                service.name(),
                method.name(),
                stream(method.client_streaming()),
                method.input_type().trim_start_matches('.'),
                stream(method.server_streaming()),
                method.output_type().trim_start_matches('.'),
            ));
        }
    }
}

fn stream(streaming: bool) -> &'static str {
    if streaming { "stream " } else { "" }
}

fn describe_message(parent: &str, message: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{parent}.{}", message.name());
    if message.field.is_empty() {
        lines.insert(format!("message {name}"));
    }
    for field in &message.field {
        let label = match field.label() {
            Label::Repeated => "repeated",
            _ => "optional",
        };
        let kind = match field.r#type() {
            Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
            plain => plain
                .as_str_name()
                .trim_start_matches("TYPE_")
                .to_lowercase(),
        };
        let one_of = match field.oneof_index {
            Some(index) => format!(" oneof {}", message.oneof_decl[index as usize].name()),
            None => String::new(),
        };
        lines.insert(format!(
            "field {name} {} {} {label} {kind}{one_of}",
            field.number(),
            field.name()
        ));
    }
    for nested in &message.nested_type {
        describe_message(&name, nested, lines);
    }
    for an_enum in &message.enum_type {
        describe_enum(&name, an_enum, lines);
    }
}

fn describe_enum(parent: &str, an_enum: &EnumDescriptorProto, lines: &mut BTreeSet<String>) {
    for value in &an_enum.value {
        lines.insert(format!(
            "enum {parent}.{} {} {}",
            an_enum.name(),
            value.number(),
            value.name()
        ));
    }
}
