//! Tables of columns: names on top, numbers aligned to the right, words to the left.

use std::io::{self, Write};

/// A table, printed when all its rows are known.
#[derive(Debug)]
pub(crate) struct Table {
    names: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table. A name that begins with `<` heads a column of words.
    pub(crate) fn new(names: impl Into<Vec<&'static str>>) -> Table {
        Table {
            names: names.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(
            cells.len(),
            self.names.len(),
            "a row has a cell for each column"
        );
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes names and rows.
    pub(crate) fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        let columns = 0..self.names.len();
        let widths: Vec<usize> = columns.map(|column| self.width(column)).collect();
        let names = self.names.iter().map(|name| bare(name).to_owned());
        let names: Vec<String> = names.collect();
        for row in std::iter::once(&names).chain(&self.rows) {
            self.write_row(output, row, &widths)?;
        }
        Ok(())
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells.fold(bare(self.names[column]).len(), usize::max)
    }

    fn write_row(
        &self,
        output: &mut dyn Write,
        row: &[String],
        widths: &[usize],
    ) -> io::Result<()> {
        let mut line = String::new();
        for ((cell, width), name) in row.iter().zip(widths).zip(&self.names) {
            let cell = match name.starts_with('<') {
                true => format!("{cell:<width$}  "),
                false => format!("{cell:>width$}  "),
            };
            line.push_str(&cell);
        }
        writeln!(output, "{}", line.trim_end())
    }
}

fn bare(name: &str) -> &str {
    name.trim_start_matches('<')
}

/// A number of bytes with a unit: `4096 B`, `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 10 << 10 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A number of bytes with a decimal unit, as etcdctl writes it: `20 kB`, `2.1 GB`.
pub(crate) fn decimal_size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let unit = bytes.ilog(1000) as usize;
    let value = bytes as f64 / 1000f64.powi(unit as i32);
    let rounded = (value * 10.0 + 0.5).floor() / 10.0;
    match rounded < 10.0 {
        true => format!("{rounded:.1} {}", UNITS[unit]),
        false => format!("{rounded:.0} {}", UNITS[unit]),
    }
}

/// A number with its noun in singular or plural.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_words_left() {
        let mut table = Table::new(["ID", "<STATE"]);
        table.row(vec!["7".into(), "open".into()]);
        table.row(vec!["123".into(), "sealed".into()]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            " ID  STATE\n  7  open\n123  sealed\n"
        );
    }

    #[test]
    fn decimal_sizes_are_those_of_etcdctl() {
        for (bytes, expected) in [
            (0, "0 B"),
            (10, "10 B"),
            (20_480, "20 kB"),
            (9_949, "9.9 kB"),
            (2_147_483_648, "2.1 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(decimal_size(bytes), expected);
        }
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(4096), "4096 B");
        assert_eq!(size(64 << 20), "64.0 MiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
        assert_eq!(size(1 << 60), "1048576.0 TiB");
    }
}
