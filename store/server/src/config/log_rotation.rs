//! The two flags that rotate the log file, with etcd's fields and rules.

use std::time::Duration;

use serde_json::Value;

use super::configuration::{Config, LogOutput, LogRotation};
use super::error::Error;
use super::gather::Gathered;

const ENABLE: &str = "enable-log-rotation";
const CONFIGURATION: &str = "log-rotation-config-json";
/// Size of a file for which the configuration names none, or 0.
const MEGABYTES_DEFAULT: u64 = 100;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes the only log file one that rotates, if that is wanted.
pub(super) fn read(gathered: &Gathered, config: &mut Config) -> Result<(), Error> {
    let rotation = parse(gathered.text(CONFIGURATION))?;
    if !super::values::boolean(ENABLE, gathered.text(ENABLE))? {
        return Ok(());
    }
    match &mut config.log.outputs[..] {
        [output @ LogOutput::File(_)] => {
            let LogOutput::File(path) = output else {
                return Ok(());
            };
            *output = LogOutput::Rotating(std::mem::take(path), rotation);
            Ok(())
        }
        _ => Err(Error::Conflict(format!(
            "--{ENABLE} needs exactly one file in --log-outputs, for instance \
             --log-outputs=/var/log/inkstone.log"
        ))),
    }
}

fn parse(text: &str) -> Result<LogRotation, Error> {
    let refused = |remedy: String| Error::bad(CONFIGURATION, text, remedy);
    let fields: Value =
        serde_json::from_str(text).map_err(|error| refused(format!("write JSON: {error}")))?;
    if !fields.is_object() {
        return Err(refused(
            "write a JSON object such as {\"maxsize\": 100}".to_owned(),
        ));
    }
    let number = |name: &str| match &fields[name] {
        Value::Null => Ok(0),
        value => value
            .as_u64()
            .filter(|number| u32::try_from(*number).is_ok())
            .ok_or_else(|| refused(format!("{name} is a whole number, 0 or more"))),
    };
    let flag = |name: &str| match &fields[name] {
        Value::Null => Ok(false),
        value => value
            .as_bool()
            .ok_or_else(|| refused(format!("{name} is true or false"))),
    };
    if flag("localtime")? {
        return Err(refused(
            "file names are in UTC: leave localtime out".to_owned(),
        ));
    }
    let megabytes = Some(number("maxsize")?).filter(|&it| it > 0);
    let days = number("maxage")? as u32;
    let backups = number("maxbackups")? as usize;
    Ok(LogRotation {
        bytes_max: megabytes.unwrap_or(MEGABYTES_DEFAULT) << 20,
        age_max: (days > 0).then(|| DAY * days),
        backups_max: (backups > 0).then_some(backups),
        compress: flag("compress")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing;

    #[test]
    fn etcd_s_default_keeps_every_file_of_100_megabytes() {
        let json = super::super::flags::Flag::named(CONFIGURATION)
            .unwrap()
            .default;
        let rotation = parse(json).unwrap();
        assert_eq!(rotation.bytes_max, 100 << 20);
        assert_eq!((rotation.age_max, rotation.backups_max), (None, None));
        assert!(!rotation.compress);
    }

    #[test]
    fn every_field_is_read() {
        let json = r#"{"maxsize":1,"maxage":2,"maxbackups":3,"compress":true,"other":9}"#;
        let read = parse(json).unwrap();
        let expected = LogRotation {
            bytes_max: 1 << 20,
            age_max: Some(2 * DAY),
            backups_max: Some(3),
            compress: true,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn unusable_json_is_refused_with_the_field() {
        for (json, field) in [
            ("{", "JSON"),
            ("[]", "object"),
            (r#"{"maxsize":-1}"#, "maxsize"),
            (r#"{"maxage":"7"}"#, "maxage"),
            (r#"{"maxbackups":99999999999}"#, "maxbackups"),
            (r#"{"compress":1}"#, "compress"),
            (r#"{"localtime":true}"#, "UTC"),
        ] {
            let error = parse(json).unwrap_err().to_string();
            assert!(
                error.contains(field) && error.contains(CONFIGURATION),
                "{error}"
            );
        }
    }

    #[test]
    fn rotation_takes_exactly_one_file() {
        let on = "--enable-log-rotation";
        let file = testing::config(&[on, "--log-outputs=x.log"]).log.outputs;
        assert!(matches!(&file[..], [LogOutput::Rotating(path, _)] if path.ends_with("x.log")));
        for outputs in ["stderr", "x.log,y.log", "x.log,stderr", "default"] {
            let refusal = testing::refused(&[on, &format!("--log-outputs={outputs}")]);
            assert!(refusal.contains("exactly one file"), "{outputs}: {refusal}");
        }
        let off = testing::config(&["--log-outputs=x.log"]).log.outputs;
        assert!(matches!(&off[..], [LogOutput::File(_)]));
    }
}
