//! The templates of page, Markdown and terminal, with their filters and ways of escaping.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Value, escape_formatter};

use super::ReportError;

/// The templates; the ending of a name decides how texts in it are escaped.
const TEMPLATES: [(&str, &str); 10] = [
    ("head.html", include_str!("templates/head.html")),
    ("report.html", include_str!("templates/report.html")),
    ("index.html", include_str!("templates/index.html")),
    ("pictures.html", include_str!("templates/pictures.html")),
    ("style.css", include_str!("templates/style.css")),
    ("share.svg", include_str!("templates/share.svg")),
    ("summary.md", include_str!("templates/summary.md")),
    ("parts.md", include_str!("templates/parts.md")),
    ("section.md", include_str!("templates/section.md")),
    ("terminal.txt", include_str!("templates/terminal.txt")),
];

/// The text of a template with these variables.
pub fn render(name: &str, variables: Value) -> Result<String, ReportError> {
    Ok(environment()?.get_template(name)?.render(variables)?)
}

/// All templates.
pub fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    let mut environment = Environment::new();
    environment.set_syntax(syntax?);
    environment.set_auto_escape_callback(|name| match name.rsplit_once('.') {
        Some((_, "html" | "svg")) => AutoEscape::Html,
        Some((_, "md")) => AutoEscape::Custom("markdown".into()),
        _ => AutoEscape::None,
    });
    environment.set_formatter(|out, state, value| match state.auto_escape() {
        AutoEscape::Custom(_) if value.is_safe() => Ok(write!(out, "{value}")?),
        AutoEscape::Custom(_) => Ok(out.write_str(&inline(&value.to_string()))?),
        AutoEscape::Html if !value.is_safe() => Ok(out.write_str(&markup(&value.to_string()))?),
        _ => escape_formatter(out, state, value),
    });
    environment.add_filter("tenths", |value: f64| format!("{value:.1}"));
    environment.add_filter("left", |text: &str, width: usize| format!("{text:width$}"));
    environment.add_filter("unbroken", |sentence: &str| unbroken(sentence));
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    Ok(environment)
}

/// Text for HTML and SVG, also between quotes. The default would also escape `/`, which makes
/// paths hard to find in a page.
fn markup(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Text for Markdown with everything escaped that would end a cell or a line.
fn inline(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The sentence with unbreakable blanks between a number and its unit and within intervals.
fn unbroken(sentence: &str) -> String {
    let mut within = false;
    let mut text = String::with_capacity(sentence.len());
    for (at, letter) in sentence.char_indices() {
        within = (within || letter == '[') && letter != ']';
        let before_unit = sentence[at..].starts_with(" %") || sentence[at..].starts_with(" [");
        text.push(match letter {
            ' ' if within || before_unit => '\u{a0}',
            letter => letter,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_not_broken_within_an_interval_or_before_its_percent() {
        let sentence = unbroken("up +7 % [4, 10] now");
        assert_eq!(sentence, "up +7\u{a0}%\u{a0}[4,\u{a0}10] now");
    }
}
