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
    error::Error,
    fs,
    io::{self, ErrorKind},
    path::{Component, Path, PathBuf},
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
/// The files of a site, one in each line.
const LIST: &str = "site-files.txt";

pub fn run(options: &Options) -> Outcome {
    let out = options.out.clone();
    let out = out.unwrap_or_else(|| root().join("target/site"));
    let files = build(&root()).map_err(|faults| {
        eprintln!("{faults}");
        "the site was not made"
    })?;
    write(&out, &files)?;
    let pages = files.keys().filter(|it| it.ends_with(".html")).count();
    println!("{pages} pages: {}", out.join(FRONT).display());
    Ok(())
}

/// Writes a site in place of an earlier one. The list of its files is written first, so that the
/// next run also removes a site that was not finished. Files that no list names stay.
fn write(out: &Path, files: &Files) -> Outcome {
    let list = out.join(LIST);
    if list.is_file() {
        remove(out, &fs::read_to_string(&list).map_err(at(&list))?)?;
    } else if out.exists() && fs::read_dir(out).map_err(at(out))?.next().is_some() {
        let out = out.display();
        return Err(format!("{out} has files that are not of a site; name another --out").into());
    }
    fs::create_dir_all(out).map_err(at(out))?;
    let addresses: Vec<&str> = files.keys().map(String::as_str).collect();
    fs::write(&list, addresses.join("\n")).map_err(at(&list))?;
    for (address, content) in files {
        let file = out.join(address);
        let folder = file.parent().unwrap_or(out);
        fs::create_dir_all(folder).map_err(at(folder))?;
        fs::write(&file, content).map_err(at(&file))?;
    }
    Ok(())
}

/// Removes the files of a list, and the folders that are empty then.
fn remove(out: &Path, list: &str) -> Outcome {
    for address in list.lines() {
        let parts = Path::new(address).components();
        if !parts
            .clone()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            let list = out.join(LIST);
            return Err(format!("{}: {address:?} is no file of a site", list.display()).into());
        }
        let file = out.join(address);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&file)(error)),
            _ => {}
        }
        let folders = file.ancestors().skip(1).take(parts.count() - 1);
        for folder in folders {
            // One with other files stays.
            let _ = fs::remove_dir(folder);
        }
    }
    Ok(())
}

/// An error of the file system, with the path.
fn at(path: &Path) -> impl Fn(io::Error) -> Box<dyn Error + Send + Sync> {
    move |error| format!("{}: {error}", path.display()).into()
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
    files.insert(INDEX.to_owned(), search::index(&library)?.into());
    for path in library.attached() {
        let file = root.join(&path);
        let content = fs::read(&file).map_err(at(&file))?;
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
