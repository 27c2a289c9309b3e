//! The words that `handoff run` gives us.

use crate::refusal::Refusal;

/// Whom to give the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One queue, nobody preempts.
    Fifo,
    /// The same, but holders of locks first.
    Hint,
}

impl Rule {
    /// The scheduler's name in the program and, after `handoff_`, in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Fifo => "fifo",
            Rule::Hint => "hint",
        }
    }
}

/// What to load.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Tell waiters when a holder loses its core.
    pub monitor: bool,
    /// Replace the kernel's scheduler.
    pub scheduler: Option<Rule>,
}

/// Reads `[--monitor] [--sched fifo|hint]`; one of them at least.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, Refusal> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--monitor" => options.monitor = true,
            "--sched" => options.scheduler = Some(rule(words.next().as_deref())?),
            _ => return Err(wrong(&format!("there is no option `{word}`"))),
        }
    }
    if options == Options::default() {
        return Err(wrong("there is nothing to load"));
    }
    Ok(options)
}

fn rule(word: Option<&str>) -> Result<Rule, Refusal> {
    match word {
        Some("fifo") => Ok(Rule::Fifo),
        Some("hint") => Ok(Rule::Hint),
        _ => Err(wrong("--sched wants fifo or hint")),
    }
}

fn wrong(what: &str) -> Refusal {
    Refusal::new(
        what,
        "handoff-scheduler [--monitor] [--sched fifo|hint]\n\
         `handoff run` calls it with these; it ends when its standard input does.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Options, Refusal> {
        parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn both_can_be_asked_for() {
        let both = parsed("--monitor --sched hint").map_err(|_| ()).unwrap();
        assert!(both.monitor);
        assert_eq!(both.scheduler, Some(Rule::Hint));
    }

    #[test]
    fn nothing_and_unknown_words_are_refused() {
        for words in ["", "--sched", "--sched batch", "--monitor now"] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }
}
