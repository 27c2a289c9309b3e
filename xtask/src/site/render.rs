//! A page of the site from its Markdown: body, sidebar and list of headings.

use std::slice::Iter;

use minijinja::{Value, context};
use pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd, html};

use super::{
    chapters::{Chapters, Place},
    library::{Library, Reference},
    template::{self, escaped},
};
use crate::{
    markdown::{self, Heading},
    process::Outcome,
};

/// A page with fewer headings is seen at a glance.
const LISTED_HEADINGS_MIN: usize = 3;

pub fn page(library: &Library, chapters: &Chapters, path: &str) -> Outcome<String> {
    let leaf = library.leaf(path)?;
    let events = markdown::events(&leaf.text).map(|(event, _)| event);
    let mut places = chapters.places().skip_while(|place| place.path != path);
    let here = places.next();
    let before = chapters.places().take_while(|place| place.path != path);
    let before = before.last().filter(|_| here.is_some());
    template::render(
        "page.html",
        context! {
            root => root_of(library.address(path)),
            title => &leaf.title,
            description => &leaf.document.lead,
            chapters => sidebar(library, chapters, path),
            headings => headings(&leaf.document.headings),
            body => Value::from_safe_string(body(library, path, events)),
            before => before.map(|place| link(library, place)),
            after => places.next().map(|place| link(library, place)),
            source => path,
        },
    )
}

/// The way from a page to the root of the site.
pub fn root_of(address: &str) -> String {
    "../".repeat(address.matches('/').count())
}

fn link(library: &Library, place: &Place) -> Value {
    context! { title => &place.title, address => library.address(&place.path) }
}

fn sidebar(library: &Library, chapters: &Chapters, path: &str) -> Vec<Value> {
    let current = chapters.place_of(path);
    let is_current = |place: &Place| current.is_some_and(|it| it.path == place.path);
    let views = chapters.0.iter().map(|chapter| {
        let entries = chapter.entries.iter().map(|place| {
            context! {
                is_open => is_current(place),
                is_here => place.path == path,
                pages => pages_below(library, place, path),
                ..link(library, place)
            }
        });
        context! { title => &chapter.title, entries => entries.collect::<Vec<_>>() }
    });
    views.collect()
}

/// The pages of an open folder, except records, which their own page sorts by subject.
fn pages_below(library: &Library, place: &Place, path: &str) -> Vec<Value> {
    let is_open = place.path == path || place.contains(path);
    let folder = place.folder.as_deref();
    let folder = folder.filter(|folder| is_open && !folder.starts_with("lab"));
    let pages = folder.map(|folder| library.pages_in(folder));
    let views = pages.into_iter().flatten().map(|page| {
        context! {
            title => library.get(page).map(|leaf| &leaf.title),
            address => library.address(page),
            is_here => page == path,
        }
    });
    views.collect()
}

fn headings(headings: &[Heading]) -> Vec<Value> {
    let listed = [HeadingLevel::H2, HeadingLevel::H3];
    let listed = headings.iter().filter(|it| listed.contains(&it.level));
    let views = listed.map(|it| {
        let is_deep = it.level == HeadingLevel::H3;
        context! { text => &it.text, anchor => &it.anchor, is_deep }
    });
    let views: Vec<Value> = views.collect();
    match views.len() {
        0..LISTED_HEADINGS_MIN => Vec::new(),
        _ => views,
    }
}

/// HTML of events of the page at `path`.
pub fn body<'a>(
    library: &'a Library,
    path: &'a str,
    events: impl Iterator<Item = Event<'a>>,
) -> String {
    let mut rewriter = Rewriter::new(library, path);
    for event in events {
        rewriter.take(event);
    }
    let mut text = String::new();
    html::push_html(&mut text, rewriter.events.into_iter());
    text
}

/// The parts of a page that differ from plain HTML of its Markdown.
struct Rewriter<'a> {
    library: &'a Library,
    path: &'a str,
    headings: Iter<'a, Heading>,
    /// Anchor of the heading that is open.
    anchor: &'a str,
    /// Ends of the links that are open.
    link_ends: Vec<Event<'a>>,
    /// Path and title of the page that the open link leads to.
    linked: Option<(String, &'a str)>,
    events: Vec<Event<'a>>,
}

impl<'a> Rewriter<'a> {
    fn new(library: &'a Library, path: &'a str) -> Self {
        let headings = library
            .get(path)
            .map_or(&[][..], |it| &it.document.headings);
        Self {
            library,
            path,
            headings: headings.iter(),
            anchor: "",
            link_ends: Vec::new(),
            linked: None,
            events: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => self.open_heading(level),
            Event::End(TagEnd::Heading(level)) => self.close_heading(level),
            Event::Start(Tag::Table(columns)) => {
                // The table scrolls alone, and a reader without a mouse can scroll it.
                self.raw("<div class=\"wide\" tabindex=\"0\">".to_owned());
                self.events.push(Event::Start(Tag::Table(columns)));
            }
            Event::End(TagEnd::Table) => {
                self.events.push(event);
                self.raw("</div>\n".to_owned());
            }
            Event::Start(Tag::CodeBlock(_)) => self.raw("<pre tabindex=\"0\"><code>".to_owned()),
            Event::End(TagEnd::CodeBlock) => self.raw("</code></pre>\n".to_owned()),
            Event::Html(text) | Event::InlineHtml(text) if text.starts_with("<!--") => {}
            Event::Html(text) | Event::InlineHtml(text) => self.events.push(Event::Text(text)),
            event => self.take_link(event),
        }
    }

    fn take_link(&mut self, event: Event<'a>) {
        match event {
            Event::Start(tag @ Tag::Link { .. }) => self.open_link(tag),
            Event::End(TagEnd::Link) => {
                self.linked = None;
                self.events.extend(self.link_ends.pop());
            }
            Event::Text(text) => {
                let title = self.linked.as_ref().filter(|(path, _)| names(&text, path));
                let text = title.map_or(&*text, |(_, title)| *title);
                // A number and its unit stay on one line.
                let text = text.replace(" %", "\u{a0}%").into();
                self.events.push(Event::Text(text));
            }
            Event::Start(Tag::Image {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                let dest_url = match self.library.reference(self.path, &dest_url) {
                    Reference::Address(address) => self.seen_here(&address).into(),
                    Reference::Path(_) => dest_url,
                };
                let tag = Tag::Image {
                    link_type,
                    dest_url,
                    title,
                    id,
                };
                self.events.push(Event::Start(tag));
            }
            event => self.events.push(event),
        }
    }

    fn open_heading(&mut self, level: HeadingLevel) {
        self.anchor = self.headings.next().map_or("", |it| &it.anchor);
        self.raw(format!("<{level} id=\"{}\">", self.anchor));
    }

    fn close_heading(&mut self, level: HeadingLevel) {
        let anchor = self.anchor;
        self.raw(format!(
            "<a class=\"anchor\" href=\"#{anchor}\" aria-label=\"link to this section\">#</a></{level}>\n"
        ));
    }

    fn open_link(&mut self, tag: Tag<'a>) {
        let Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        } = tag
        else {
            return;
        };
        self.linked = self.library.linked(self.path, &dest_url);
        match self.library.reference(self.path, &dest_url) {
            Reference::Address(address) => {
                let dest_url = self.seen_here(&address).into();
                let tag = Tag::Link {
                    link_type,
                    dest_url,
                    title,
                    id,
                };
                self.events.push(Event::Start(tag));
                self.link_ends.push(Event::End(TagEnd::Link));
            }
            Reference::Path(path) => {
                let path = escaped(&path);
                self.raw("<span class=\"source\">".to_owned());
                let end = format!(" <code class=\"path\">{path}</code></span>");
                self.link_ends.push(Event::InlineHtml(end.into()));
            }
        }
    }

    /// An address as seen from this page.
    fn seen_here(&self, address: &str) -> String {
        if address.contains("://") {
            return address.to_owned();
        }
        root_of(self.library.address(self.path)) + address
    }

    fn raw(&mut self, html: String) {
        self.events.push(Event::InlineHtml(html.into()));
    }
}

/// Whether the text of a link is the path that it leads to, seen from any folder.
fn names(text: &str, path: &str) -> bool {
    let text = text.trim_start_matches("../").trim_end_matches('/');
    !text.is_empty() && (path == text || path.ends_with(&format!("/{text}")))
}
