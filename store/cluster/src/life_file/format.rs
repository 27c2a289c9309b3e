//! The text of the file `LIFE`, see docs/formats/life.md.
//!
//! ```text
//!   inkstone life 1
//!   entries cached               or flushed
//!   whole yes                    or no
//!   boot 5f0c...-...             the kernel's; none: it could not be read
//!   sha1 <40 hexadecimal digits over the lines above>
//! ```

use super::LifeFile;
use crate::sealed_text::{seal, unseal};

/// The first line without the version.
const TITLE: &str = "inkstone life ";
/// The version that this program writes, and the only one that it reads.
const VERSION: &str = "1";

/// The file's text.
pub(super) fn encode(life: &LifeFile) -> String {
    let entries = if life.cached { "cached" } else { "flushed" };
    let whole = if life.whole { "yes" } else { "no" };
    let boot = life.boot.as_deref().unwrap_or("none");
    let text = format!("{TITLE}{VERSION}\nentries {entries}\nwhole {whole}\nboot {boot}\n");
    seal(text)
}

/// What the text says, unless it cannot be trusted.
pub(super) fn decode(text: &str) -> Option<LifeFile> {
    let mut lines = unseal(text)?.lines();
    if lines.next()?.strip_prefix(TITLE)? != VERSION {
        return None;
    }
    let mut field = |name| lines.next()?.strip_prefix(name);
    let (entries, whole, boot) = (field("entries ")?, field("whole ")?, field("boot ")?);
    Some(LifeFile {
        cached: one_of(entries, "cached", "flushed")?,
        whole: one_of(whole, "yes", "no")?,
        boot: (boot != "none").then(|| boot.to_owned()),
    })
}

fn one_of(word: &str, yes: &str, no: &str) -> Option<bool> {
    (word == yes || word == no).then_some(word == yes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life_file::tests::life;
    use crate::sealed_text::assert_trusted_whole_only;

    #[test]
    fn every_changed_byte_and_every_missing_end_is_seen() {
        let text = encode(&life());
        assert_eq!(decode(&text), Some(life()));
        assert_trusted_whole_only(&text, |text| decode(text).is_some());
    }
}
