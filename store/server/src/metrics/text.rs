//! Prometheus' text format.

use std::fmt::{Display, Write};

use super::histogram::Reading;

/// A page of metrics under construction.
#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Begins a metric family: its help line and its type line.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Adds a line of the family that was begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let open = if place == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Adds a family of one counter.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    /// Adds a family of one gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// Adds a family of one histogram.
    pub(super) fn histogram(&mut self, name: &str, help: &str, reading: &Reading) {
        self.family(name, "histogram", help);
        self.histogram_samples(name, &[], reading);
    }

    /// Adds the lines of one histogram to the family that was begun last.
    pub(super) fn histogram_samples(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        reading: &Reading,
    ) {
        let bucket = format!("{name}_bucket");
        let below = |bound: &str, page: &mut Page, count| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
            page.sample(&bucket, &labels, count);
        };
        for (bound, count) in &reading.buckets {
            below(&go_number(*bound), self, *count);
        }
        below("+Inf", self, reading.count);
        self.sample(&format!("{name}_sum"), labels, reading.sum);
        self.sample(&format!("{name}_count"), labels, reading.count);
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
        page.family("b", "gauge", "Others.");
        page.sample("b", &[("x", "1"), ("y", "q\"\\\n")], 0.5);
        assert_eq!(
            page.into_text(),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n\
             # HELP b Others.\n# TYPE b gauge\nb{x=\"1\",y=\"q\\\"\\\\\\n\"} 0.5\n"
        );
    }
}
