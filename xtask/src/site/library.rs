//! The pages of the repository and their addresses on the site.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    markdown::{Destination, Document},
    process::Outcome,
    tidy::{Source, links},
};

/// Endings of files that pages link and that a reader can open as they are.
const ATTACHED: [&str; 5] = [".csv", ".png", ".svg", ".txt", ".yaml"];
const LICENSE: &str = "LICENSE";
/// Files that are the page of their folder, and the beginning of the folder's list.
pub const OF_FOLDERS: [&str; 2] = ["README.md", "summary.md"];

/// All pages, by their paths in the repository.
pub struct Library {
    leaves: BTreeMap<String, Leaf>,
}

pub struct Leaf {
    pub title: String,
    pub text: String,
    pub document: Document,
    address: String,
}

/// The meaning of a link on a page of the site.
#[derive(Debug, PartialEq, Eq)]
pub enum Reference {
    /// An address relative to the root of the site, or one with a scheme.
    Address(String),
    /// A file or folder that is not part of the site.
    Path(String),
}

impl Library {
    pub fn read(sources: &[Source]) -> Outcome<Self> {
        let pages = sources.iter().filter(|it| links::is_page(&it.path));
        let mut library = Self {
            leaves: BTreeMap::new(),
        };
        for page in pages {
            library.add(&page.path, page.text.clone())?;
        }
        Ok(library)
    }

    /// Adds a page, which opens with its title.
    pub fn add(&mut self, path: &str, text: String) -> Outcome {
        let document = Document::read(&text);
        let title = document.title();
        let title = title.ok_or_else(|| format!("{path}:1: a page opens with `# TITLE`"))?;
        let leaf = Leaf {
            title: title.to_owned(),
            address: address(path),
            text,
            document,
        };
        self.leaves.insert(path.to_owned(), leaf);
        Ok(())
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.leaves.keys().map(String::as_str)
    }

    pub fn get(&self, path: &str) -> Option<&Leaf> {
        self.leaves.get(path)
    }

    pub fn leaf(&self, path: &str) -> Outcome<&Leaf> {
        Ok(self.get(path).ok_or_else(|| format!("no page {path}"))?)
    }

    pub fn address(&self, path: &str) -> &str {
        self.get(path).map_or("", |leaf| &leaf.address)
    }

    /// The page that `path` is, or that tells about the folder `path`.
    pub fn page_of<'a>(&'a self, path: &str) -> Option<&'a str> {
        let of_folder = OF_FOLDERS.map(|name| format!("{path}/{name}"));
        let mut candidates = [path.to_owned()].into_iter().chain(of_folder);
        let found = candidates.find_map(|path| self.leaves.get_key_value(&path));
        found.map(|(path, _)| path.as_str())
    }

    /// The pages directly in a folder, in the order of their names.
    pub fn pages_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        let within = self.paths().filter_map(move |path| {
            let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
            Some((path, rest))
        });
        within
            .filter(|(_, rest)| !rest.contains('/') && !OF_FOLDERS.contains(rest))
            .map(|(path, _)| path)
    }

    /// The meaning of a link with this target on the page at `path`.
    pub fn reference(&self, path: &str, target: &str) -> Reference {
        let (inside, anchor) = match Destination::of(path, target) {
            Destination::Inside(inside, anchor) => (inside, anchor),
            _ => return Reference::Address(target.to_owned()),
        };
        let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
        match self.page_of(&inside) {
            Some(page) => Reference::Address(self.address(page).to_owned() + &anchor),
            None if is_attached(&inside) => Reference::Address(attached_address(&inside)),
            None => Reference::Path(inside),
        }
    }

    /// Path and title of the page that a link leads to the top of.
    pub fn linked(&self, path: &str, target: &str) -> Option<(String, &str)> {
        let Destination::Inside(inside, None) = Destination::of(path, target) else {
            return None;
        };
        let page = self.page_of(&inside)?;
        Some((inside, &self.get(page)?.title))
    }

    /// The files that pages link and that a reader can open as they are.
    pub fn attached(&self) -> BTreeSet<String> {
        let links = self.leaves.iter().flat_map(|(path, leaf)| {
            let links = leaf.document.hyperlinks.iter();
            links.map(|link| Destination::of(path, &link.target))
        });
        links
            .filter_map(|destination| match destination {
                Destination::Inside(path, _) if is_attached(&path) => Some(path),
                _ => None,
            })
            .collect()
    }
}

/// The address of a page. The front page has the name that the root's README would get.
fn address(path: &str) -> String {
    if path == "README.md" {
        return "readme.html".to_owned();
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if OF_FOLDERS.contains(&name) {
        return format!("{folder}/index.html");
    }
    format!("{}.html", path.trim_end_matches(".md"))
}

fn is_attached(path: &str) -> bool {
    path == LICENSE || ATTACHED.iter().any(|ending| path.ends_with(ending))
}

pub fn attached_address(path: &str) -> String {
    match path {
        LICENSE => "LICENSE.txt".to_owned(),
        path => path.to_owned(),
    }
}
