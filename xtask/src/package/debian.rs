//! `.deb`: an `ar` archive of a version, of control files and of the data.
//!
//! ```text
//!   !<arch>\n
//!   debian-binary     2.0\n
//!   control.tar.gz    control, conffiles, scripts
//!   data.tar.gz       the files
//! ```
//!
//! `ar` is 60 bytes of text before each member: a crate for it would spare ten lines.

use super::{
    archive,
    binary::Binary,
    contents::{Contents, SETTINGS},
    release::Release,
};
use crate::process::{Outcome, root};

/// The name and the bytes of the package.
pub fn package(
    contents: &Contents,
    binary: &Binary,
    release: &Release,
) -> Outcome<(String, Vec<u8>)> {
    let control = control_files(contents, binary, release)?;
    let name = format!("inkstone_{}_{}.deb", release.full(), binary.machine.debian);
    Ok((name, assemble(contents, &control, release.date)?))
}

fn assemble(contents: &Contents, control: &Contents, date: u32) -> Outcome<Vec<u8>> {
    let mut package = b"!<arch>\n".to_vec();
    for (name, bytes) in [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", archive::tar_gz(control, "./", date)?),
        ("data.tar.gz", archive::tar_gz(contents, "./", date)?),
    ] {
        push_member(&mut package, name, date, &bytes);
    }
    Ok(package)
}

/// A member of an `ar` archive begins at an even place.
fn push_member(package: &mut Vec<u8>, name: &str, date: u32, bytes: &[u8]) {
    let length = bytes.len();
    let header = format!(
        "{name:<16}{date:<12}{:<6}{:<6}{:<8}{length:<10}`\n",
        0, 0, 100_644
    );
    package.extend(header.bytes());
    package.extend(bytes);
    if !length.is_multiple_of(2) {
        package.push(b'\n');
    }
}

fn control_files(contents: &Contents, binary: &Binary, release: &Release) -> Outcome<Contents> {
    let mut files = Contents::default();
    files.push("control", 0o644, control(contents, binary, release));
    files.push("conffiles", 0o644, format!("/{SETTINGS}\n"));
    for script in ["postinst", "prerm", "postrm"] {
        let path = root().join("deploy/debian").join(script);
        let text = std::fs::read(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        files.push(script, 0o755, text);
    }
    Ok(files)
}

fn control(contents: &Contents, binary: &Binary, release: &Release) -> String {
    // For `useradd`, where systemd is not there.
    let mut needs = vec!["passwd".to_owned()];
    if let Some(glibc) = &binary.glibc {
        needs.push(format!("libc6 (>= {glibc})"));
        needs.push("libgcc-s1".to_owned());
    }
    format!(
        "Package: inkstone\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The Inkstone maintainers\n\
         Section: database\n\
         Priority: optional\n\
         Installed-Size: {}\n\
         Depends: {}\n\
         Description: key-value store with etcd's API\n \
         A server for etcd's v3 API, in which the log is the database, and its command\n \
         line. The names etcd, etcdctl and etcdutl are in /usr/lib/inkstone/bin.\n",
        release.full(),
        binary.machine.debian,
        contents.bytes().div_ceil(1024),
        needs.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(paths: &[&str]) -> Contents {
        let mut contents = Contents::default();
        for path in paths {
            contents.push(path, 0o644, path.as_bytes());
        }
        contents
    }

    #[test]
    fn the_order_of_files_does_not_change_the_bytes() {
        let control = contents(&["control"]);
        let one = assemble(&contents(&["usr/a", "usr/b/c"]), &control, 7).unwrap();
        let other = assemble(&contents(&["usr/b/c", "usr/a"]), &control, 7).unwrap();
        assert!(one == other);
        let later = assemble(&contents(&["usr/a", "usr/b/c"]), &control, 8).unwrap();
        assert!(one != later);
    }

    #[test]
    fn a_member_of_odd_length_is_padded() {
        let mut package = Vec::new();
        push_member(&mut package, "debian-binary", 7, b"odd");
        assert_eq!(
            String::from_utf8(package).unwrap(),
            "debian-binary   7           0     0     100644  3         `\nodd\n"
        );
    }
}
