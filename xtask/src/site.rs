//! The documentation as a site of plain files, to read without a server.
//!
//! ```text
//!   *.md ──► library ──► render ──► PAGE.html ─┐
//!   docs/contents.md ──► chapters ─► sidebar   ├─► target/site
//!   README.md ──► front ──────────► index.html │
//!   all headings ─► search ─► search-index.js ─┘
//! ```
//!
//! A page's address is its path in the repository with another ending, so a link between pages
//! only changes its ending. A link to a folder leads to the folder's page; one to a source file
//! becomes the file's path, because the sources are not part of the site.

mod chapters;
mod front;
mod library;
mod render;
mod search;
mod template;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    process::{Outcome, root},
    tidy,
};
use chapters::Chapters;
use library::Library;

#[derive(clap::Args)]
pub struct Options {
    /// Directory for the site, empty or with an earlier site [default: target/site]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Files that the pages share.
const ASSETS: [(&str, &str); 3] = [
    ("style.css", include_str!("site/templates/style.css")),
    ("site.js", include_str!("site/templates/site.js")),
    ("icon.svg", include_str!("site/templates/icon.svg")),
];
const FRONT: &str = "index.html";
const INDEX: &str = "search-index.js";

pub fn run(options: &Options) -> Outcome {
    let out = options.out.clone();
    let out = out.unwrap_or_else(|| root().join("target/site"));
    let files = build(&root()).map_err(|faults| {
        eprintln!("{faults}");
        "the site was not made"
    })?;
    make_room(&out)?;
    for (address, content) in &files {
        let file = out.join(address);
        fs::create_dir_all(file.parent().unwrap_or(&out))?;
        fs::write(&file, content).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let pages = files.keys().filter(|it| it.ends_with(".html")).count();
    println!("{pages} pages: {}", out.join(FRONT).display());
    Ok(())
}

/// Removes an earlier site, and nothing else.
fn make_room(out: &Path) -> Outcome {
    let is_site = [FRONT, INDEX].iter().all(|name| out.join(name).is_file());
    if is_site {
        fs::remove_dir_all(out)?;
    }
    fs::create_dir_all(out)?;
    if fs::read_dir(out)?.next().is_some() {
        let out = out.display();
        return Err(format!("{out} has files that are not of a site; name another --out").into());
    }
    Ok(())
}

type Files = BTreeMap<String, Vec<u8>>;

/// Addresses of the site with their contents. A broken link of any page is an error.
fn build(root: &Path) -> Outcome<Files> {
    let sources = tidy::read(root)?;
    refuse(tidy::links::faults(root, &sources))?;
    let mut library = Library::read(&sources)?;
    let chapters = Chapters::read(&mut library)?;
    refuse(chapters.missing(&library))?;
    let mut files = Files::new();
    for path in library.paths() {
        let html = render::page(&library, &chapters, path)?;
        files.insert(library.address(path).to_owned(), html.into());
    }
    files.insert(FRONT.to_owned(), front::page(&library)?.into());
    files.insert(
        "search-index.js".to_owned(),
        search::index(&library)?.into(),
    );
    for path in library.attached() {
        let content = fs::read(root.join(&path))?;
        files.insert(library::attached_address(&path), content);
    }
    files.extend(ASSETS.map(|(name, text)| (name.to_owned(), text.into())));
    Ok(files)
}

fn refuse(faults: Vec<String>) -> Outcome {
    match faults.len() {
        0 => Ok(()),
        _ => Err(faults.join("\n").into()),
    }
}

#[cfg(test)]
mod tests;
