//! `inkstone serve --help`, made from the table of flags.

use std::fmt::Write;

use super::flags::{Flag, Support};

pub(super) fn text() -> String {
    let mut text = String::from(INTRODUCTION);
    section(
        &mut text,
        "Flags",
        |support| support == Support::Served,
        |flag| flag.help,
    );
    section(
        &mut text,
        "Accepted for compatibility with etcd, without effect",
        |support| matches!(support, Support::Idle(_)),
        |flag| match flag.support {
            Support::Idle(why) => why,
            _ => "",
        },
    );
    section(
        &mut text,
        "Not supported yet: any value but the default is refused",
        |support| matches!(support, Support::Later(_)),
        |flag| match flag.support {
            Support::Later(what) => what,
            _ => "",
        },
    );
    text
}

const INTRODUCTION: &str = "\
Serve etcd's v3 API from a durable store.

  inkstone serve                                  a cluster of one, at http://localhost:2379
  inkstone serve --data-dir /var/lib/inkstone     the same, with its data in that directory
  inkstone serve --listen-client-urls http://0.0.0.0:2379 \\
                 --advertise-client-urls http://10.0.0.1:2379

The first of three members; the other two use their own --name, directory and addresses,
and the same --initial-cluster:

  inkstone serve --name a --data-dir a.inkstone \\
    --listen-client-urls http://10.0.0.1:2379 --advertise-client-urls http://10.0.0.1:2379 \\
    --listen-peer-urls http://10.0.0.1:2380 --initial-advertise-peer-urls http://10.0.0.1:2380 \\
    --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://10.0.0.3:2380

The flags are etcd's. --name x, --name=x and -name=x mean the same; a boolean is written
--flag or --flag=false; of a flag given twice the last value counts. Every flag can also be
set by an environment variable, --data-dir by ETCD_DATA_DIR; a flag overrides its variable.
";

fn section(
    text: &mut String,
    title: &str,
    belongs: impl Fn(Support) -> bool,
    about: impl Fn(&Flag) -> &'static str,
) {
    let _ = write!(text, "\n{title}:\n");
    for flag in Flag::all().iter().filter(|flag| belongs(flag.support)) {
        let _ = writeln!(
            text,
            "  --{} '{}'\n        {}",
            flag.name,
            flag.default,
            about(flag)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_in_the_help() {
        let text = text();
        for flag in Flag::all() {
            assert!(text.contains(&format!("--{} ", flag.name)), "{}", flag.name);
        }
    }
}
