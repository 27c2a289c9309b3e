//! `inkstone serve --help`, made from the table of flags.

use std::fmt::Write;

use super::flags::{Flag, Support};

/// The whole text.
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
        "Accepted for etcd's sake, without effect",
        |support| matches!(support, Support::Idle(_)),
        |flag| match flag.support {
            Support::Idle(why) => why,
            _ => "",
        },
    );
    section(
        &mut text,
        "Not supported yet (refused unless left at the default)",
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

  inkstone serve                                  one durable node on etcd's ports
  inkstone serve --data-dir /var/lib/inkstone     somewhere else
  inkstone serve --listen-client-urls http://0.0.0.0:2379 \\
                 --advertise-client-urls http://10.0.0.1:2379

A member of three; the others say their own name and addresses, and the same cluster:

  inkstone serve --name a --data-dir a.inkstone \\
    --listen-client-urls http://10.0.0.1:2379 --advertise-client-urls http://10.0.0.1:2379 \\
    --listen-peer-urls http://10.0.0.1:2380 --initial-advertise-peer-urls http://10.0.0.1:2380 \\
    --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://10.0.0.3:2380

Flags are etcd's: --name x, --name=x and -name=x are the same, a boolean is
--flag or --flag=false, and the last one wins. Every flag can be a variable:
--data-dir is ETCD_DATA_DIR.
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
