//! Pictures of rectangles, lines and text, as places for the template `pictures.html`, which
//! writes them as SVG.
//!
//! Colours are names of the page's style sheet, never values, so that one picture suits a
//! light and a dark page. Tooltips are `<title>` elements, which browsers show without a
//! script.

pub mod axis;
pub mod heat_map;
pub mod line_chart;
pub mod scale;

/// Width of one letter of the small labels, on average.
pub const LETTER_WIDTH: f64 = 6.4;

/// Number of different colours of series. The ninth series has the first colour, dashed.
pub const COLOURS: usize = 8;

/// Style class of the series with this number.
pub fn series_class(number: usize) -> String {
    let dashed = if number >= COLOURS { " again" } else { "" };
    format!("s{}{dashed}", number % COLOURS)
}

/// The text cut to at most `letters_max` characters; a cut text ends with an ellipsis.
pub fn shortened(text: &str, letters_max: usize) -> String {
    if text.chars().count() <= letters_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The picture as the page has it.
#[cfg(test)]
fn drawn(macro_name: &str, picture: impl serde::Serialize) -> String {
    let it = minijinja::value::Serde(picture);
    let call =
        format!("{{% from 'pictures.html' import {macro_name} %}}{{{{ {macro_name}(it) }}}}");
    let variables = minijinja::context! { it };
    super::template::environment()
        .unwrap()
        .render_named_str("test.html", &call, variables)
        .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(shortened("linearizable reads", 10), "lineariza…");
        assert_eq!(shortened("µµµ", 3), "µµµ");
    }
}
