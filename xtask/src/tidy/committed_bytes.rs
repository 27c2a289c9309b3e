//! A limit on the size of committed files: git keeps each of their versions for ever.

use std::path::Path;
use std::process::Command;

use crate::process::Outcome;

const BYTES_MAX: u64 = 512 * 1024;

pub fn faults(root: &Path) -> Outcome<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()?;
    // Outside of a repository, as in an unpacked archive, there is nothing to commit.
    let paths = String::from_utf8_lossy(&listed.stdout);
    let sizes = paths.split_terminator('\0').filter_map(|path| {
        // A file that was removed has no size.
        let file = std::fs::symlink_metadata(root.join(path)).ok()?;
        Some((path, file.len()))
    });
    Ok(sizes
        .filter_map(|(path, bytes)| judge(path, bytes))
        .collect())
}

fn judge(path: &str, bytes: u64) -> Option<String> {
    let remedy = match path.starts_with("lab/records/") {
        true => "`inkstone-lab pack --digits 2` shrinks a record, or keep its summary.md alone",
        false => "make it when it is needed, or keep a part of it",
    };
    (bytes > BYTES_MAX).then(|| {
        format!(
            "{path}: {} KiB, and a committed file has at most {}; {remedy}",
            bytes.div_ceil(1024),
            BYTES_MAX / 1024
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_refused_with_its_size_and_a_remedy() {
        assert_eq!(judge("a.bin", BYTES_MAX), None);
        let fault = judge("a.bin", BYTES_MAX + 1).unwrap();
        assert!(fault.starts_with("a.bin: 513 KiB"), "{fault}");
        let record = judge("lab/records/put/run.json.gz", 1 << 20).unwrap();
        assert!(record.contains("inkstone-lab pack"), "{record}");
    }
}
