//! `.rpm`, written by crate `rpm`.

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder, Scriptlet};

use super::{
    binary::Binary,
    contents::{Contents, Kind, SETTINGS},
    release::Release,
};
use crate::process::{Outcome, root};

const SUMMARY: &str = "Key-value store with etcd's API";
const DESCRIPTION: &str = "A server for etcd's v3 API, in which the log is the database, and its \
    command line. The names etcd, etcdctl and etcdutl are in /usr/lib/inkstone/bin.";
/// Largest DEFLATE level: these packages are made seldom and fetched often.
const LEVEL: u32 = 9;

/// The name and the bytes of the package.
pub fn package(
    contents: &Contents,
    binary: &Binary,
    release: &Release,
) -> Outcome<(String, Vec<u8>)> {
    let machine = binary.machine.red_hat;
    let mut builder =
        PackageBuilder::new("inkstone", &release.version, "Apache-2.0", machine, SUMMARY);
    let config = BuildConfig::v4()
        .source_date(release.date)
        .compression(CompressionWithLevel::Gzip(LEVEL));
    builder
        .using_config(config)
        .release(release.number.to_string())
        .description(DESCRIPTION)
        // The name of the machine would change the bytes.
        .build_host("localhost")
        .post_install_script(script("post")?)
        .pre_uninstall_script(script("preun")?)
        .post_uninstall_script(script("postun")?)
        .requires(Dependency::script_post("shadow-utils"));
    if let Some(glibc) = &binary.glibc {
        builder
            .requires(Dependency::any(format!("libc.so.6(GLIBC_{glibc})(64bit)")))
            .requires(Dependency::any("libgcc_s.so.1()(64bit)"));
    }
    push_files(&mut builder, contents)?;
    let mut bytes = Vec::new();
    builder.build()?.write(&mut bytes)?;
    let name = format!("inkstone-{}.{machine}.rpm", release.full());
    Ok((name, bytes))
}

fn script(name: &str) -> Outcome<Scriptlet> {
    let path = root().join("deploy/rpm").join(name);
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Scriptlet::new(text))
}

fn push_files(builder: &mut PackageBuilder, contents: &Contents) -> Outcome {
    // Those of the package's own, so that a removal removes them.
    let directories = contents.directories().into_iter();
    for directory in directories.filter(|path| path.contains("inkstone")) {
        builder.with_dir_entry(FileOptions::dir(format!("/{directory}")).permissions(0o755))?;
    }
    for (path, entry) in contents.entries() {
        let place = format!("/{path}");
        match &entry.kind {
            Kind::Link(target) => builder.with_symlink(FileOptions::symlink(place, target))?,
            Kind::File(bytes) => {
                let options = FileOptions::new(place).permissions(permissions(entry.mode)?);
                let options = match path == SETTINGS {
                    true => options.config().noreplace(),
                    false => options,
                };
                builder.with_file_contents(bytes.clone(), options)?
            }
        };
    }
    Ok(())
}

fn permissions(mode: u32) -> Outcome<u16> {
    Ok(u16::try_from(mode)?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rpm::{FileFlags, Package};

    use super::*;
    use crate::package::binary::Machine;

    fn small() -> (Contents, Binary, Release) {
        let mut contents = Contents::default();
        contents.push("usr/bin/inkstone", 0o755, *b"program");
        contents.push_link("usr/lib/inkstone/bin/etcd", "../../../bin/inkstone");
        contents.push(SETTINGS, 0o644, *b"#settings");
        let machine = Machine {
            debian: "amd64",
            red_hat: "x86_64",
        };
        let binary = Binary {
            path: PathBuf::new(),
            bytes: Vec::new(),
            machine,
            glibc: Some("2.34".to_owned()),
        };
        let release = Release {
            version: "1.2.3".to_owned(),
            number: 4,
            date: 1_700_000_000,
        };
        (contents, binary, release)
    }

    #[test]
    fn the_package_reads_back_with_its_files_scripts_and_needs() {
        let (contents, binary, release) = small();
        let (name, bytes) = package(&contents, &binary, &release).unwrap();
        assert_eq!(name, "inkstone-1.2.3-4.x86_64.rpm");
        let package = Package::parse(&mut &bytes[..]).unwrap();
        package.verify_digests().unwrap();
        let about = &package.metadata;
        assert_eq!(about.get_version().unwrap(), "1.2.3");
        let files = about.get_file_entries().unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|file| file.path().display().to_string())
            .collect();
        assert!(
            names.contains(&"/usr/lib/inkstone/bin".to_owned()),
            "{names:?}"
        );
        let settings = files.iter().find(|file| file.path().ends_with(SETTINGS));
        let flags = settings.unwrap().flags();
        assert!(flags.contains(FileFlags::CONFIG | FileFlags::NOREPLACE));
        let needs = about.get_requires().unwrap();
        let glibc = "libc.so.6(GLIBC_2.34)(64bit)";
        assert!(needs.iter().any(|need| need.name == glibc));
        let script = about.get_post_install_script().unwrap();
        assert!(script.script.contains("systemd-sysusers"));
    }

    #[test]
    fn the_same_contents_give_the_same_bytes() {
        let (contents, binary, release) = small();
        let once = package(&contents, &binary, &release).unwrap();
        assert!(once == package(&contents, &binary, &release).unwrap());
    }
}
