//! SVG pictures of rectangles, lines and text.
//!
//! Colours are names of the page's style sheet, never values, so that one picture suits a
//! light and a dark page. Tooltips are `<title>` elements, which browsers show without a
//! script. A picture without data says so in a text.

pub mod axis;
pub mod heat_map;
pub mod line_chart;
pub mod scale;

use std::fmt::Write;

/// Width of one letter of the small labels, on average.
pub const LETTER_WIDTH: f64 = 6.4;

/// Number of different colours of series. The ninth series has the first colour, dashed.
pub const COLOURS: usize = 8;

/// A picture that is being drawn.
pub struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// The part of a text that lies at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

impl Canvas {
    /// An empty picture.
    pub fn new(width: f64, height: f64) -> Canvas {
        Canvas {
            width,
            height,
            body: String::new(),
        }
    }

    /// Draws a rectangle with a style class; `style` may be empty.
    pub fn rectangle(&mut self, corner: (f64, f64), size: (f64, f64), class: &str, style: &str) {
        let style = attribute("style", style);
        let _ = write!(
            self.body,
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" class="{class}"{style}/>"#,
            corner.0, corner.1, size.0, size.1
        );
    }

    /// Draws a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" class="{class}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    /// Draws a line through points, with a tooltip.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str, title: &str) {
        let mut description = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            let _ = write!(description, "{letter}{x:.1} {y:.1}");
        }
        let _ = write!(
            self.body,
            r#"<path d="{description}" class="{class}">{}</path>"#,
            title_of(title)
        );
    }

    /// Draws a dot, with a tooltip.
    pub fn dot(&mut self, centre: (f64, f64), radius: f64, class: &str, title: &str) {
        let _ = write!(
            self.body,
            r#"<circle cx="{:.1}" cy="{:.1}" r="{radius}" class="{class}">{}</circle>"#,
            centre.0,
            centre.1,
            title_of(title)
        );
    }

    /// Writes a text.
    pub fn text(&mut self, place: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let _ = write!(
            self.body,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="{}" class="{class}">{}</text>"#,
            place.0,
            place.1,
            anchor.name(),
            escape(text)
        );
    }

    /// Writes a text that runs upwards.
    pub fn text_upwards(&mut self, place: (f64, f64), class: &str, text: &str) {
        let _ = write!(
            self.body,
            r#"<text transform="translate({:.1} {:.1}) rotate(-90)" text-anchor="middle" class="{class}">{}</text>"#,
            place.0,
            place.1,
            escape(text)
        );
    }

    /// Draws a group with the tooltip `title`.
    pub fn titled(&mut self, title: &str, draw: impl FnOnce(&mut Canvas)) {
        self.body.push_str("<g>");
        draw(self);
        self.body.push_str(&title_of(title));
        self.body.push_str("</g>");
    }

    /// Writes the reason why the picture has no data.
    pub fn say_empty(&mut self, why: &str) {
        let middle = (self.width / 2.0, self.height / 2.0);
        self.text(middle, Anchor::Middle, "nothing", why);
    }

    /// The finished picture as SVG; `name` is its description for screen readers.
    pub fn finish(self, name: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {:.0} {:.0}" width="{:.0}" role="img" aria-label="{}">{}</svg>"#,
            self.width,
            self.height,
            self.width,
            escape(name),
            self.body
        )
    }
}

/// Style class of the series with this number.
pub fn series_class(number: usize) -> String {
    let dashed = if number >= COLOURS { " again" } else { "" };
    format!("s{}{dashed}", number % COLOURS)
}

/// Escapes text for use between tags and in attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// The text cut to at most `letters_max` characters; a cut text ends with an ellipsis.
pub fn shortened(text: &str, letters_max: usize) -> String {
    if text.chars().count() <= letters_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

fn title_of(title: &str) -> String {
    if title.is_empty() {
        String::new()
    } else {
        format!("<title>{}</title>", escape(title))
    }
}

fn attribute(name: &str, value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else {
        format!(r#" {name}="{}""#, escape(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_escaped() {
        let mut canvas = Canvas::new(10.0, 10.0);
        canvas.dot((1.0, 1.0), 2.0, "s0", "</title><script>");
        let svg = canvas.finish("a \"name\" & <b>");
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"));
        assert!(svg.contains("a &quot;name&quot; &amp; &lt;b&gt;"));
    }

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(shortened("linearizable reads", 10), "lineariza…");
        assert_eq!(shortened("µµµ", 3), "µµµ");
    }
}
