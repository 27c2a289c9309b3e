//! Refuses a message in which a field comes twice, as protobuf's JSON mapping demands.
//!
//! The decoder takes the last one. A proxy that takes the first would see another request
//! than the server.

use std::collections::BTreeSet;
use std::fmt;

use prost_reflect::{Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Walks over a value: a message of this type, a list of them, or any value.
#[derive(Clone, Copy)]
pub(crate) struct Unique<'a>(pub(crate) Option<&'a MessageDescriptor>);

impl<'de> DeserializeSeed<'de> for Unique<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        match self.0 {
            Some(_) => reader.deserialize_any(self),
            None => reader.deserialize_ignored_any(IgnoredAny).map(drop),
        }
    }
}

impl<'de> Visitor<'de> for Unique<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let field = self.0.and_then(|message| {
                let by_json_name = message.get_field_by_json_name(&name);
                by_json_name.or_else(|| message.get_field_by_name(&name))
            });
            let Some(field) = field else {
                fields.next_value::<IgnoredAny>()?;
                continue;
            };
            if !seen.insert(field.number()) {
                return Err(A::Error::custom(format!("duplicate field {name:?}")));
            }
            match field.kind() {
                Kind::Message(message) => fields.next_value_seed(Unique(Some(&message)))?,
                _ => fields.next_value_seed(Unique(None))?,
            }
        }
        Ok(())
    }
}
