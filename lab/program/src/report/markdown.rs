//! A record as a page of Markdown, for reading in a repository.

use std::fmt::Write as _;

use super::noise::noise;
use super::provenance::Provenance;
use super::published::beside;
use super::quantity::QUANTITIES;
use super::results::Results;
use super::verdicts::{CellVerdicts, map_verdicts, verdicts};
use crate::record::Record;
use crate::verdict::evidence::{ceiling, taints_of};

/// The whole page.
pub fn render(record: &Record) -> String {
    let mut text = format!("# {}\n\n", inline(&record.title));
    text.push_str(&head(record));
    if let Some(map) = map_verdicts(record) {
        let _ = writeln!(text, "**{}**\n", inline(&map.sentence));
    }
    let verdicts = verdicts(record);
    for cell in &verdicts {
        if let Some(headline) = cell.headline() {
            let sentence = inline(&headline.sentence);
            let (cell, word) = (inline(&cell.cell), &headline.word);
            let _ = writeln!(text, "- **{cell}: {word}.** {sentence}");
        }
    }
    if !verdicts.is_empty() {
        text.push('\n');
    }
    text.push_str("## Results\n\n");
    text.push_str(&results(record));
    for cell in &verdicts {
        text.push_str(&verdict_table(cell));
    }
    text.push_str(&beside(record).map_or(String::new(), |it| it.markdown()));
    text.push_str(&noise_table(record));
    text.push_str(&remarks(record));
    text.push_str(&columns(record));
    text
}

fn head(record: &Record) -> String {
    let provenance = Provenance::of(record);
    let mut text = format!(
        "{}.\n\n```\n{}\n```\n\n",
        inline(&provenance.line()),
        provenance.command
    );
    if let Some(because) = &record.incomplete_because {
        let _ = writeln!(text, "**Incomplete**: {}.\n", inline(because));
    }
    text
}

/// A table of Markdown; the first `left` columns are aligned left, the others right.
pub fn table(left: usize, header: &[String], rows: &[Vec<String>]) -> String {
    let row = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| inline(text)).collect();
        format!("| {} |\n", texts.join(" | "))
    };
    let rule = (0..header.len()).map(|at| if at < left { "---" } else { "--:" });
    let mut text = row(header);
    let _ = writeln!(text, "|{}|", rule.collect::<Vec<_>>().join("|"));
    for texts in rows {
        text.push_str(&row(texts));
    }
    text.push('\n');
    text
}

/// Text with everything escaped that would end a cell or a line.
pub fn inline(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn results(record: &Record) -> String {
    let results = Results::of(record);
    let mut header = vec!["cell".to_owned(), "side".into(), "runs".into()];
    header.extend(results.columns.iter().map(|column| column.head.to_owned()));
    header.push("durable".into());
    let rows: Vec<Vec<String>> = results
        .rows
        .iter()
        .map(|row| {
            let mut texts = vec![row.cell.clone(), row.side.clone(), row.runs.to_string()];
            if let Some(failure) = &row.failure
                && row.runs == 0
            {
                texts.push(failure.clone());
                texts.resize(results.columns.len() + 4, String::new());
                return texts;
            }
            let values = results.columns.iter().zip(&row.values);
            texts.extend(values.map(|(column, value)| column.text(value.as_ref())));
            texts.push(row.durable.clone());
            texts
        })
        .collect();
    format!("Medians of the runs.\n\n{}", table(2, &header, &rows))
}

fn verdict_table(cell: &CellVerdicts) -> String {
    let header = ["", "A", "B", "B against A", "A/A band", "verdict", ""].map(str::to_owned);
    let rows: Vec<Vec<String>> = cell
        .lines
        .iter()
        .map(|line| {
            let [a, b] = line.medians.clone();
            let word = match line.decides {
                true => format!("**{}**", line.word),
                false => line.word.clone(),
            };
            let (change, band) = (line.change.clone(), line.band.clone());
            vec![
                line.metric.clone(),
                a,
                b,
                change,
                band,
                word,
                line.remark.clone(),
            ]
        })
        .collect();
    let mut text = format!("## {}\n\n{}", inline(&cell.cell), table(1, &header, &rows));
    for remark in &cell.remarks {
        let _ = writeln!(text, "{}\n", inline(remark));
    }
    text
}

fn noise_table(record: &Record) -> String {
    let lines = noise(record);
    if lines.is_empty() {
        return String::new();
    }
    let header = ["cell", "", "A' against A", "band", "one pair", "pairs"];
    let rows: Vec<Vec<String>> = lines
        .into_iter()
        .map(|line| {
            let pairs = line.pairs.to_string();
            vec![
                line.cell,
                line.metric,
                line.change,
                line.band,
                line.deviation,
                pairs,
            ]
        })
        .collect();
    let table = table(2, &header.map(str::to_owned), &rows);
    format!("## What this machine makes out of nothing\n\n{table}")
}

/// Failures, ceilings, disturbances and warnings, which a reader must know to judge the
/// numbers.
fn remarks(record: &Record) -> String {
    let mut lines = Vec::new();
    for row in Results::of(record).rows {
        if let Some(failure) = row.failure {
            lines.push(format!("{}, {}: {failure}", row.cell, row.side));
        }
    }
    for cell in record.cells() {
        let runs: Vec<_> = record
            .valid_runs()
            .filter(|run| run.cell.name == cell.name)
            .collect();
        if let Some(ceiling) = ceiling(&runs) {
            let rate = super::number::grouped(ceiling);
            lines.push(format!(
                "{}: the generator alone makes {rate} ops/s",
                cell.name
            ));
        }
    }
    let disturbed = record.runs.iter().filter(|run| !run.taints.is_empty());
    lines.extend(disturbed.map(|run| {
        let what = if run.replaced { "repeated" } else { "counts" };
        let taints = taints_of(run).join(", ");
        format!(
            "run {} ({}, {}), {what}: {taints}",
            run.number, run.cell.name, run.arm
        )
    }));
    lines.extend(record.environment.warnings.iter().cloned());
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines
        .iter()
        .map(|line| format!("- {}\n", inline(line)))
        .collect();
    format!("## Remarks\n\n{}\n", lines.concat())
}

fn columns(record: &Record) -> String {
    let known = Results::of(record).columns;
    let mut text = String::from("## Columns\n\n");
    for column in QUANTITIES
        .iter()
        .filter(|it| known.iter().any(|k| k.key == it.key))
    {
        let _ = writeln!(text, "- {}: {}", column.head, column.meaning);
    }
    text.push_str(
        "\n`≤`: the device is shared, so its counts are an upper bound. A verdict needs an \
         interval that leaves out \"equal\", an effect outside the A/A band and of at least 2 %.\n",
    );
    text
}
