//! `inkstone serve --help`, made from the table of flags.

use std::fmt::Write;

use super::flags::{Flag, Support};

/// Longest line.
const COLUMNS: usize = 100;
const INDENT: &str = "        ";
const SECTIONS: [(Support, &str); 3] = [
    (Support::Served, "Flags"),
    (
        Support::Idle,
        "Accepted for compatibility with etcd, without effect",
    ),
    (
        Support::Later,
        "Not supported yet: any value but the default is refused",
    ),
];

pub(super) fn text() -> String {
    let mut text = String::from(INTRODUCTION);
    for (support, title) in SECTIONS {
        let _ = write!(text, "\n{title}:\n");
        for flag in Flag::all().iter().filter(|flag| flag.support == support) {
            let _ = writeln!(text, "  --{} '{}'", flag.name, flag.default);
            push_wrapped(&mut text, flag.about);
        }
    }
    text
}

/// Adds indented lines of whole words.
fn push_wrapped(text: &mut String, about: &str) {
    let mut line = INDENT.to_owned();
    for word in about.split(' ') {
        if line.len() + word.len() > COLUMNS {
            let _ = writeln!(text, "{}", line.trim_end());
            line.truncate(INDENT.len());
        }
        line.extend([word, " "]);
    }
    let _ = writeln!(text, "{}", line.trim_end());
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

    #[test]
    fn no_line_of_prose_is_longer_than_100_columns() {
        for line in text().lines().filter(|line| !line.starts_with("  --")) {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
    }
}
