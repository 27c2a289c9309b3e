//! The templates of the site's pages.

use minijinja::{AutoEscape, Environment, Value, escape_formatter, syntax::SyntaxConfig};

use crate::process::Outcome;

const TEMPLATES: [(&str, &str); 3] = [
    ("frame.html", include_str!("templates/frame.html")),
    ("page.html", include_str!("templates/page.html")),
    ("front.html", include_str!("templates/front.html")),
];

/// The text of a template with these variables.
pub fn render(name: &str, variables: Value) -> Outcome<String> {
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    // The default also escapes `/`, which every address has.
    environment.set_formatter(|out, state, value| match state.auto_escape() {
        AutoEscape::Html if !value.is_safe() => Ok(out.write_str(&escaped(&value.to_string()))?),
        _ => escape_formatter(out, state, value),
    });
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    Ok(environment.get_template(name)?.render(variables)?)
}

/// Text for HTML, also between quotes.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}
