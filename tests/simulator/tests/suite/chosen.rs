//! Seeds and lengths of runs, which the environment may set.

/// The number in the environment variable `name`, or `default`.
pub fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// The seeds to run: `default` seeds from 0 on, unless the environment sets others.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    let first = number("INKSTONE_SIMULATION_SEED", 0);
    first..first + number("INKSTONE_SIMULATION_SEEDS", default)
}
