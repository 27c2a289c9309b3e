//! The order of the pages, from the list in `docs/contents.md`.

use pulldown_cmark::HeadingLevel;

use super::library::{Library, OF_FOLDERS};
use crate::{
    markdown::{Destination, Document},
    process::Outcome,
};

const CONTENTS: &str = "docs/contents.md";
/// Every page of this folder has a place in the list.
const LISTED: &str = "docs/";

pub struct Chapters(pub Vec<Chapter>);

pub struct Chapter {
    pub title: String,
    pub entries: Vec<Place>,
}

/// A line of the list.
pub struct Place {
    pub title: String,
    /// The page; of a folder, its list of pages.
    pub path: String,
    /// The folder with the pages that belong below this line.
    pub folder: Option<String>,
}

impl Chapters {
    /// Reads the list, and adds a page with a list to each folder that it names.
    pub fn read(library: &mut Library) -> Outcome<Self> {
        let contents = Document::read(&library.leaf(CONTENTS)?.text);
        let mut chapters = Vec::new();
        let headings = contents.headings.iter();
        for heading in headings.filter(|it| it.level == HeadingLevel::H2) {
            chapters.push((heading.line, heading.text.clone(), Vec::new()));
        }
        for link in &contents.hyperlinks {
            let chapter = chapters.iter_mut().rfind(|(line, ..)| *line < link.line);
            let Some((_, _, entries)) = chapter else {
                continue;
            };
            if let Destination::Inside(path, _) = Destination::of(CONTENTS, &link.target) {
                entries.push(Place::new(library, &link.text, &path)?);
            }
        }
        let chapters = chapters.into_iter();
        let chapters = chapters.map(|(_, title, entries)| Chapter { title, entries });
        Ok(Self(chapters.collect()))
    }

    /// Pages without a place.
    pub fn missing(&self, library: &Library) -> Vec<String> {
        let pages = library.paths().filter(|path| path.starts_with(LISTED));
        let lost = pages.filter(|path| *path != CONTENTS && self.place_of(path).is_none());
        lost.map(|path| format!("{path}: {CONTENTS} has no link to this page or its folder"))
            .collect()
    }

    /// The line of a page, or of the nearest folder around it.
    pub fn place_of(&self, path: &str) -> Option<&Place> {
        let exact = self.places().find(|place| place.path == path);
        exact.or_else(|| self.places().find(|place| place.contains(path)))
    }

    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter().flat_map(|chapter| &chapter.entries)
    }
}

impl Place {
    fn new(library: &mut Library, title: &str, path: &str) -> Outcome<Self> {
        let page = match library.page_of(path) {
            Some(page) => page.to_owned(),
            None => add_list(library, title, path)?,
        };
        let of_folder = page
            .rsplit_once('/')
            .filter(|(_, name)| OF_FOLDERS.contains(name));
        Ok(Self {
            title: title.to_owned(),
            folder: of_folder.map(|(folder, _)| folder.to_owned()),
            path: page,
        })
    }

    pub fn contains(&self, path: &str) -> bool {
        let folder = self.folder.as_deref();
        folder.is_some_and(|it| {
            path.strip_prefix(it)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    }
}

/// Adds the page of a folder that has none: titles and first sentences of the pages in it.
fn add_list(library: &mut Library, title: &str, folder: &str) -> Outcome<String> {
    let mut text = format!("# {title}\n\n");
    for path in library.pages_in(folder) {
        let leaf = library.leaf(path)?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let (title, lead) = (
            escaped(&leaf.title),
            escaped(first_sentence(&leaf.document.lead)),
        );
        text.push_str(&format!("- [{title}]({name})  \n  {lead}\n"));
    }
    let path = format!("{folder}/{}", OF_FOLDERS[0]);
    library.add(&path, text)?;
    Ok(path)
}

fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// Text for Markdown that means itself.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
