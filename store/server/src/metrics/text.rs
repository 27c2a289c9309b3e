//! Prometheus' text format.

use std::fmt::{Display, Write};

use super::histogram::Histogram;

/// A page of metrics under construction.
#[derive(Default)]
pub(super) struct Page(String);

/// A metric family; its help and type are on the page.
pub(super) struct Family<'a> {
    page: &'a mut String,
    name: &'a str,
}

impl Page {
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Begins a family: its help line and its type line.
    pub(super) fn family<'a>(&'a mut self, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        let page = &mut self.0;
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { page, name }
    }

    /// Adds a family of one counter.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help).sample(&[], value);
    }

    /// Adds a family of one gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help).sample(&[], value);
    }

    /// Adds a family of one histogram.
    pub(super) fn histogram(&mut self, name: &str, help: &str, values: &Histogram) {
        self.family(name, "histogram", help).histogram(&[], values);
    }
}

impl Family<'_> {
    /// Adds a line.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.page, "{}{suffix}", self.name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let open = if place == 0 { '{' } else { ',' };
            let _ = write!(self.page, "{open}{label}=\"{}\"", escaped(text));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.page, "{close} {value}");
    }

    /// Adds the lines of one histogram.
    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], values: &Histogram) {
        let reading = values.read();
        let finite = reading.buckets.iter();
        let finite = finite.map(|(bound, count)| (go_number(*bound), *count));
        for (bound, count) in finite.chain([("+Inf".to_owned(), reading.count)]) {
            let below = [("le", &*bound)];
            self.line("_bucket", &[labels, &below].concat(), count);
        }
        self.line("_sum", labels, reading.sum);
        self.line("_count", labels, reading.count);
    }
}

/// A bound as Go writes it: `524288`, but `1.048576e+06`. Scrapers compare bounds as
/// text.
fn go_number(bound: f64) -> String {
    let scientific = format!("{bound:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) if bound >= 1e6 => format!("{digits}e+{exponent:0>2}"),
        _ => bound.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_as_in_go() {
        for (bound, text) in [
            (0.0001, "0.0001"),
            (1.0, "1"),
            (524_288.0, "524288"),
            (8_388_608.0, "8.388608e+06"),
        ] {
            assert_eq!(go_number(bound), text);
        }
    }

    #[test]
    fn families_labels_and_escapes() {
        let mut page = Page::default();
        page.counter("a_total", "Things.", 3);
        let mut family = page.family("b", "gauge", "Others.");
        family.sample(&[("x", "1"), ("y", "q\"\\\n")], 0.5);
        assert_eq!(
            page.into_text(),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n\
             # HELP b Others.\n# TYPE b gauge\nb{x=\"1\",y=\"q\\\"\\\\\\n\"} 0.5\n"
        );
    }
}
