//! `readme`: writes the tables between markers of Markdown pages from records.

use std::path::{Path, PathBuf};

use crate::record::replace;
use crate::report::readme::{PagePaths, rewrite};
use crate::verdict::Exit;

#[derive(clap::Args)]
pub struct Options {
    /// Pages with markers, as seen from the current folder
    #[arg(value_name = "PAGE", default_value = "README.md")]
    pages: Vec<PathBuf>,
    /// The folder of the records
    #[arg(long, value_name = "FOLDER", default_value = "lab/records")]
    records: PathBuf,
    /// Write nothing; end with 1 if a page is not what the records say
    #[arg(long)]
    check: bool,
}

pub fn run(options: &Options) -> super::Outcome {
    for page in &options.pages {
        one(page, options)?;
    }
    Ok(Exit::Fine)
}

fn one(page: &Path, options: &Options) -> Result<(), super::Error> {
    let shown = page.display();
    let text = std::fs::read_to_string(page).map_err(|error| format!("{shown}: {error}"))?;
    let paths = PagePaths {
        root: Path::new(""),
        page,
        records: &options.records,
    };
    let made = rewrite(paths, &text)?;
    if made == text {
        return Ok(());
    }
    if options.check {
        return Err(format!(
            "{shown}: its tables are not what the records say; `inkstone-lab readme {shown}` \
             writes them"
        )
        .into());
    }
    replace(page, made.as_bytes()).map_err(|error| format!("{shown}: {error}"))?;
    print_line!("{shown}: written");
    Ok(())
}
