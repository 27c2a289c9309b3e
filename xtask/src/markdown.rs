//! Headings, links and text of a Markdown file; anchors are named as forges name them.

use std::{collections::HashMap, ops::Range};

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A file taken apart.
#[derive(Default)]
pub struct Document {
    pub headings: Vec<Heading>,
    pub hyperlinks: Vec<Hyperlink>,
    /// Text of the first paragraph.
    pub lead: String,
}

pub struct Heading {
    pub level: HeadingLevel,
    pub line: usize,
    pub text: String,
    pub anchor: String,
    /// Text up to the next heading, of any level.
    pub body: String,
}

/// A link or an image.
pub struct Hyperlink {
    pub line: usize,
    pub text: String,
    /// As written in the file.
    pub target: String,
}

/// The place that a link in a page means.
#[derive(Debug, PartialEq, Eq)]
pub enum Destination {
    /// An address with a scheme.
    Elsewhere,
    /// A path relative to the root of the repository, and an anchor on that page.
    Inside(String, Option<String>),
    /// A path that leaves the repository, or starts at the root of a file system.
    Outside,
}

/// Events of `text` with the bytes that they come from.
pub fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter()
}

impl Document {
    pub fn read(text: &str) -> Self {
        let mut reader = Reader::default();
        for (event, range) in events(text) {
            reader.take(event, || line_at(text, range.start));
        }
        reader.document
    }

    /// The text of the first heading of the first level.
    pub fn title(&self) -> Option<&str> {
        let first = self.headings.first()?;
        (first.level == HeadingLevel::H1).then_some(&first.text)
    }

    pub fn has_anchor(&self, anchor: &str) -> bool {
        self.headings.iter().any(|it| it.anchor == anchor)
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// The document so far, and the parts that are open.
#[derive(Default)]
struct Reader {
    document: Document,
    anchors: HashMap<String, usize>,
    in_heading: bool,
    in_image: bool,
    in_lead: bool,
    lead_is_read: bool,
    links: Vec<Hyperlink>,
}

impl Reader {
    fn take(&mut self, event: Event, line: impl FnOnce() -> usize) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => self.open_heading(level, line()),
            Event::End(TagEnd::Heading(_)) => self.close_heading(),
            Event::Start(Tag::Link { dest_url, .. }) => self.open_link(&dest_url, line()),
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.in_image = true;
                self.open_link(&dest_url, line());
            }
            Event::End(TagEnd::Link) => self.close_link(),
            Event::End(TagEnd::Image) => {
                self.in_image = false;
                self.close_link();
            }
            Event::Start(Tag::Paragraph) => self.in_lead = !self.lead_is_read,
            Event::End(TagEnd::Paragraph) => self.close_paragraph(),
            Event::End(TagEnd::TableCell | TagEnd::Item | TagEnd::CodeBlock) => self.text(" "),
            Event::Text(text) | Event::Code(text) => self.text(&text),
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            _ => {}
        }
    }

    fn open_heading(&mut self, level: HeadingLevel, line: usize) {
        self.in_heading = true;
        self.document.headings.push(Heading {
            level,
            line,
            text: String::new(),
            anchor: String::new(),
            body: String::new(),
        });
    }

    fn close_heading(&mut self) {
        self.in_heading = false;
        if let Some(heading) = self.document.headings.last_mut() {
            let plain = anchor(&heading.text);
            let uses = self.anchors.entry(plain.clone()).or_default();
            heading.anchor = match *uses {
                0 => plain,
                earlier => format!("{plain}-{earlier}"),
            };
            *uses += 1;
        }
    }

    fn open_link(&mut self, target: &str, line: usize) {
        self.links.push(Hyperlink {
            line,
            text: String::new(),
            target: target.to_owned(),
        });
    }

    fn close_link(&mut self) {
        self.document.hyperlinks.extend(self.links.pop());
    }

    fn close_paragraph(&mut self) {
        // A paragraph that only holds a picture is no lead.
        self.lead_is_read |= self.in_lead && !self.document.lead.trim().is_empty();
        self.in_lead = false;
        self.text(" ");
    }

    fn text(&mut self, text: &str) {
        for link in &mut self.links {
            link.text.push_str(text);
        }
        if self.in_lead && !self.in_image {
            self.document.lead.push_str(text);
        }
        if let Some(heading) = self.document.headings.last_mut() {
            let part = match self.in_heading {
                true => &mut heading.text,
                false => &mut heading.body,
            };
            part.push_str(text);
        }
    }
}

/// The anchor of a heading: small letters, digits, `-` and `_`, with `-` for blanks.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    let kept = heading.chars().filter(is_kept);
    let small = kept.flat_map(char::to_lowercase);
    small
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

impl Destination {
    /// The destination of `target` on the page at `path`.
    pub fn of(path: &str, target: &str) -> Self {
        if target.contains("://") || target.starts_with("mailto:") {
            return Self::Elsewhere;
        }
        let (file, anchor) = match target.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor.to_owned())),
            None => (target, None),
        };
        if file.starts_with('/') {
            return Self::Outside;
        }
        if file.is_empty() {
            return Self::Inside(path.to_owned(), anchor);
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match joined(folder, file) {
            Some(path) => Self::Inside(path, anchor),
            None => Self::Outside,
        }
    }
}

/// `file` as seen from `folder`, unless it leaves the root.
fn joined(folder: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_named_as_forges_name_them() {
        let text = "# A `put`, step by step\n## What's new?\n## What's new?\n## 1.5 MiB – _x_\n";
        let document = Document::read(text);
        let anchors: Vec<&str> = document.headings.iter().map(|it| &*it.anchor).collect();
        let expected = [
            "a-put-step-by-step",
            "whats-new",
            "whats-new-1",
            "15-mib--x",
        ];
        assert_eq!(anchors, expected);
        assert_eq!(document.title(), Some("A put, step by step"));
    }

    #[test]
    fn links_and_images_have_line_text_and_target() {
        let text = "# A\n\nfirst\n[a `b`](c.md#d) and\n[![picture](e.svg)](f.md)\n\n```\n[no](no.md)\n```\n";
        let links = Document::read(text).hyperlinks;
        let links: Vec<_> = links
            .iter()
            .map(|it| (it.line, &*it.text, &*it.target))
            .collect();
        let expected = [
            (4, "a b", "c.md#d"),
            (5, "picture", "e.svg"),
            (5, "picture", "f.md"),
        ];
        assert_eq!(links, expected);
    }

    #[test]
    fn the_lead_is_the_first_paragraph() {
        let document = Document::read("# A\n\nIt is\n`small`.\n\nMore.\n");
        assert_eq!(document.lead, "It is small.");
        assert_eq!(document.headings[0].body.trim(), "It is small. More.");
    }

    #[test]
    fn a_destination_is_relative_to_its_page() {
        let inside = |path: &str, anchor: Option<&str>| {
            Destination::Inside(path.to_owned(), anchor.map(str::to_owned))
        };
        let of = |target: &str| Destination::of("docs/use/a.md", target);
        assert_eq!(of("../b.md#c"), inside("docs/b.md", Some("c")));
        assert_eq!(of("#c"), inside("docs/use/a.md", Some("c")));
        assert_eq!(of("../../lab/"), inside("lab", None));
        assert_eq!(of("../../../b.md"), Destination::Outside);
        assert_eq!(of("/b.md"), Destination::Outside);
        assert_eq!(of("https://example.org/b.md"), Destination::Elsewhere);
    }
}
