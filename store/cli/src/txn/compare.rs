//! A condition of a transaction, such as `mod("key1") > "0"`.

use etcd_api::etcdserverpb::Compare;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};

use crate::client::unquoted;

/// Reads a condition; an error is the reason why it is none.
pub(super) fn parse(line: &str) -> Result<Compare, String> {
    let (target, rest) = line.split_once('(').ok_or("it has no parenthesis")?;
    let (key, rest) = unquoted(rest).ok_or("its key is not in quotation marks")?;
    let rest = rest
        .strip_prefix(')')
        .ok_or("its key is not in parentheses")?;
    let (result, rest) = result_of(rest.trim_start())?;
    let (value, rest) = unquoted(rest.trim_start()).ok_or("its value is not in quotation marks")?;
    if !rest.trim().is_empty() {
        return Err("it goes on after its value".to_owned());
    }
    let number = |radix| {
        let text = std::str::from_utf8(&value).ok();
        let number = text.and_then(|text| i64::from_str_radix(text, radix).ok());
        number.ok_or_else(|| "its value is no number".to_owned())
    };
    use CompareTarget as Target;
    let (target, union) = match target.trim() {
        "ver" | "version" => (Target::Version, TargetUnion::Version(number(10)?)),
        "c" | "create" => (Target::Create, TargetUnion::CreateRevision(number(10)?)),
        "m" | "mod" => (Target::Mod, TargetUnion::ModRevision(number(10)?)),
        "val" | "value" => (Target::Value, TargetUnion::Value(value.into())),
        "lease" => (Target::Lease, TargetUnion::Lease(number(16)?)),
        other => return Err(format!("unknown target {other}")),
    };
    Ok(Compare {
        result: result.into(),
        target: target.into(),
        key: key.into(),
        target_union: Some(union),
        ..Compare::default()
    })
}

fn result_of(text: &str) -> Result<(CompareResult, &str), &'static str> {
    for (sign, result) in [
        ("!=", CompareResult::NotEqual),
        ("=", CompareResult::Equal),
        ("<", CompareResult::Less),
        (">", CompareResult::Greater),
    ] {
        if let Some(rest) = text.strip_prefix(sign) {
            return Ok((result, rest));
        }
    }
    Err("it does not compare by =, !=, < or >")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_name_a_target_a_key_a_sign_and_a_value() {
        for (line, target, result, union) in [
            (
                r#"mod("k") > "7""#,
                CompareTarget::Mod,
                CompareResult::Greater,
                TargetUnion::ModRevision(7),
            ),
            (
                r#"val("k")!="a\"b""#,
                CompareTarget::Value,
                CompareResult::NotEqual,
                TargetUnion::Value("a\"b".into()),
            ),
            (
                r#"lease("k") = "1f""#,
                CompareTarget::Lease,
                CompareResult::Equal,
                TargetUnion::Lease(31),
            ),
        ] {
            let compare = parse(line).unwrap();
            assert_eq!((compare.target(), compare.result()), (target, result));
            assert_eq!(compare.target_union, Some(union), "{line}");
            assert_eq!(&compare.key[..], b"k");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused_with_the_reason() {
        for (line, reason) in [
            ("mod", "no parenthesis"),
            ("mod(k) = \"1\"", "quotation marks"),
            ("mod(\"k\" = \"1\"", "parentheses"),
            ("mod(\"k\") ~ \"1\"", "does not compare"),
            ("mod(\"k\") = 1", "quotation marks"),
            ("mod(\"k\") = \"x\"", "no number"),
            ("mod(\"k\") = \"1\" x", "goes on"),
            ("foo(\"k\") = \"1\"", "unknown target foo"),
        ] {
            let refused = parse(line).unwrap_err();
            assert!(refused.contains(reason), "{line}: {refused}");
        }
    }
}
