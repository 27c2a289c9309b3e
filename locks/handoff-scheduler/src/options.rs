//! The arguments, which `handoff run` gives.

use crate::refusal::Refusal;

/// Rule by which the scheduler gives threads the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One queue; threads that wake do not preempt others.
    Fifo,
    /// The same, but threads that hold a lock go first.
    Hint,
}

impl Rule {
    /// Name of the scheduler's map in the object; in the kernel it follows `handoff_`.
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
    /// Whether to mark, for their waiters, holders that lose their core.
    pub monitor: bool,
    /// Rule of the scheduler that replaces the kernel's.
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
        _ => Err(wrong("--sched must be fifo or hint")),
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
    fn monitor_and_scheduler_can_be_combined() {
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
