//! `compare`: the differences of two records that were not measured together.

use std::path::PathBuf;

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::record::Record;
use crate::report::across::{Across, across};
use crate::verdict::FailOn;

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 what decides differs and is not worse, 3 it differs and is \
                        worse, 4 it cannot be told, 1 an error or lost data."
)]
pub struct Options {
    /// A folder with a record, or its file
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Another one
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// What ends the process with another code than 0
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    fail_on: FailOn,
}

pub fn run(options: &Options) -> super::Outcome {
    let found = across(&Record::load(&options.old)?, &Record::load(&options.new)?)?;
    print_text!("{}", render(&found));
    Ok(found.exit.under(options.fail_on))
}

fn render(found: &Across) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "cell",
        "side",
        "",
        "old",
        "new",
        "runs",
        "new over old",
        "word",
    ]);
    for row in &found.rows {
        let [old, new] = row.medians.clone();
        let word = match row.decides {
            true => format!("{} *", row.word),
            false => row.word.to_owned(),
        };
        let runs = format!("{}, {}", row.runs[0], row.runs[1]);
        let texts = [
            row.cell.clone(),
            row.side.clone(),
            row.metric.clone(),
            old,
            new,
            runs,
            row.change.clone(),
            word,
        ];
        table.add_row(texts.into_iter().enumerate().map(|(at, text)| {
            Cell::new(text).set_alignment(match at {
                3..=6 => CellAlignment::Right,
                _ => CellAlignment::Left,
            })
        }));
    }
    let mut text = format!("{table}\n");
    for caution in &found.cautions {
        text.push_str(&format!("caution: {caution}\n"));
    }
    text.push_str(
        "* decides the exit code. Runs of different hours differ by their hours: to say faster \
         or slower, measure both together with `inkstone-lab ab`.\n",
    );
    text
}
