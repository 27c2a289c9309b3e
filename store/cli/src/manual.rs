//! `inkstone manual`: writes the man pages, for packages.
//!
//! A page for each verb, made from the same description as its help. The examples keep their lines,
//! and the page of `serve` has the flags, which clap does not know.

use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::failure::Failure;

/// Write the man pages into a directory
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "\
Example:
  inkstone manual /usr/local/share/man/man1"
)]
pub(crate) struct Arguments {
    /// The directory, which must exist; pages of the same names are replaced
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes a page for the program and one for each of its verbs.
pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<(), Failure> {
    command.build();
    write_pages(&command, "inkstone", &arguments.directory)
}

/// Writes the page of a command and those of its verbs. `title` has the words of the command,
/// joined by dashes.
fn write_pages(command: &Command, title: &str, directory: &Path) -> Result<(), Failure> {
    let path = directory.join(format!("{title}.1"));
    let page = page(command, title)?;
    write(&path, &page).map_err(|error| {
        Failure::failed(
            format_args!("{}: cannot be written: {error}", path.display()),
            "Name a directory that exists and may be written to.",
        )
    })?;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_pages(verb, &format!("{title}-{}", verb.get_name()), directory)?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "pages are no part of a data directory"
)]
fn write(path: &Path, page: &[u8]) -> io::Result<()> {
    std::fs::write(path, page)
}

fn page(command: &Command, title: &str) -> io::Result<Vec<u8>> {
    // Without `name` the synopsis has only the last word.
    let named = command.clone().name(title.to_owned()).version(None);
    let man = Man::new(named)
        .title(title)
        .section("1")
        .source(concat!("Inkstone ", env!("CARGO_PKG_VERSION")))
        .manual("Inkstone");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command
        .get_arguments()
        .any(|argument| !argument.is_hide_set())
    {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = command.get_after_help() {
        push_lines(&mut page, "NOTES", &notes.to_string());
    }
    if title == "inkstone-serve" {
        push_lines(&mut page, "FLAGS", &server::config::help_text());
    }
    Ok(page)
}

/// Adds a section with lines that stay as they are.
fn push_lines(page: &mut Vec<u8>, section: &str, text: &str) {
    page.extend(format!(".SH {section}\n.nf\n").bytes());
    for line in text.lines() {
        page.extend(line_of_roff(line).bytes());
    }
    page.extend(b".fi\n");
}

/// A line of plain text. A dot or a quote at its beginning would be a request of roff's.
fn line_of_roff(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-");
    let guard = match escaped.starts_with(['.', '\'']) {
        true => "\\&",
        false => "",
    };
    format!("{guard}{escaped}\n")
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn command() -> Command {
        let get = Command::new("get").after_help("Examples:\n  inkstone get a c    two");
        let add = Command::new("add").arg(Arg::new("free").long("no-password"));
        let user = Command::new("user").subcommand(add);
        let hidden = Command::new("manual").hide(true);
        let verbs = [Command::new("serve"), get, user, hidden];
        Command::new("inkstone").subcommands(verbs)
    }

    fn pages() -> Vec<(String, String)> {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().to_owned();
        run(&Arguments { directory }, command()).unwrap();
        let files = std::fs::read_dir(place.path()).unwrap();
        files
            .map(|file| {
                let file = file.unwrap();
                let name = file.file_name().into_string().unwrap();
                (name, std::fs::read_to_string(file.path()).unwrap())
            })
            .collect()
    }

    #[test]
    fn every_verb_has_a_page_with_its_examples() {
        let pages = pages();
        let page = |name: &str| {
            let page = pages.iter().find(|(it, _)| it == name);
            &page.unwrap_or_else(|| panic!("no page {name}")).1
        };
        assert!(page("inkstone.1").contains("inkstone\\-serve(1)"));
        assert!(page("inkstone-get.1").contains("\n  inkstone get a c   "));
        assert!(page("inkstone-user-add.1").contains("\\-\\-no\\-password"));
        assert!(page("inkstone-serve.1").contains("\\-\\-initial\\-cluster\\-token"));
        assert!(pages.iter().all(|(name, _)| !name.contains("manual")));
    }

    #[test]
    fn lines_that_roff_would_take_for_its_own_are_guarded() {
        assert_eq!(line_of_roff(".x"), "\\&.x\n");
        assert_eq!(line_of_roff("'a\\b -c"), "\\&'a\\eb \\-c\n");
    }

    #[test]
    fn a_directory_that_does_not_exist_is_named() {
        let directory = PathBuf::from("/nope/man1");
        let failure = format!(
            "{:?}",
            run(&Arguments { directory }, command()).unwrap_err()
        );
        assert!(failure.contains("/nope/man1/inkstone.1"), "{failure}");
    }
}
