//! The front page. Its title, first paragraph, commands and figure are the README's, so they cannot
//! differ.

use minijinja::{Value, context};
use pulldown_cmark::{Event, Tag, TagEnd};

use super::{
    library::{Library, Reference},
    render::body,
    template,
};
use crate::{markdown, process::Outcome};

const README: &str = "README.md";
const COMMANDS: usize = 2;

pub fn page(library: &Library) -> Outcome<String> {
    let readme = library.leaf(README)?;
    template::render(
        "front.html",
        context! {
            root => "",
            title => &readme.title,
            description => &readme.document.lead,
            lead => Value::from_safe_string(lead(library, &readme.text)),
            commands => commands(&readme.text)?,
            figure => figure(library)?,
        },
    )
}

/// The first paragraph.
fn lead(library: &Library, text: &str) -> String {
    let events = markdown::events(text).map(|(event, _)| event);
    let paragraph = events
        .skip_while(|event| !matches!(event, Event::Start(Tag::Paragraph)))
        .skip(1)
        .take_while(|event| !matches!(event, Event::End(TagEnd::Paragraph)));
    body(library, README, paragraph)
}

/// The first code blocks.
fn commands(text: &str) -> Outcome<Vec<String>> {
    let mut blocks: Vec<String> = Vec::new();
    let mut open = false;
    for (event, _) in markdown::events(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => {
                blocks.push(String::new());
                open = true;
            }
            Event::End(TagEnd::CodeBlock) => open = false,
            Event::Text(text) if open => {
                if let Some(block) = blocks.last_mut() {
                    block.push_str(&text);
                }
            }
            _ => {}
        }
    }
    blocks.truncate(COMMANDS);
    let blocks: Vec<String> = blocks.iter().map(|block| uncommented(block)).collect();
    match blocks.len() {
        COMMANDS => Ok(blocks),
        few => Err(format!("{README}: {few} blocks of commands, of {COMMANDS}").into()),
    }
}

/// The lines without their comments, which have no room beside the figure.
fn uncommented(block: &str) -> String {
    let lines = block
        .lines()
        .map(|line| line.split(" #").next().unwrap_or(line));
    lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The first picture, which is a link to its record.
fn figure(library: &Library) -> Outcome<Value> {
    let links = &library.leaf(README)?.document.hyperlinks;
    let at = links.iter().position(|link| link.target.ends_with(".svg"));
    let pair = at.and_then(|at| links.get(at..at + 2));
    let Some([picture, record]) = pair else {
        return Err(format!("{README}: no picture with a link to its record").into());
    };
    let address = |target: &str| match library.reference(README, target) {
        Reference::Address(address) | Reference::Path(address) => address,
    };
    Ok(context! {
        picture => address(&picture.target),
        description => &picture.text,
        record => address(&record.target),
    })
}
