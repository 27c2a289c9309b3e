//! Refuses names that say nothing, such as `utils`: a name says what a thing is about.

use super::Source;

const BANNED: [&str; 6] = ["utils", "util", "common", "helpers", "helper", "misc"];

pub fn faults(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources {
        for part in source.path.split('/') {
            let stem = part.split('.').next().unwrap_or(part);
            if BANNED.contains(&stem) {
                faults.push(format!(
                    "{}: `{stem}` says nothing; name the subject",
                    source.path
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawers_are_found_as_files_and_folders() {
        let sources = ["a/utils.rs", "common/b.rs", "a/commonplace.rs"].map(|path| Source {
            path: path.to_owned(),
            text: String::new(),
        });
        assert_eq!(faults(&sources).len(), 2);
    }
}
