//! A simulated machine with a speed that changes over time.

use environment::randomness::Random;

/// Change of a machine's speed during an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Not at all.
    None,
    /// It slows down evenly, by 10 % from the first run to the last.
    Linear,
    /// It loses 15 % at one moment, as when a busy neighbour starts.
    Step,
    /// A burst of credits runs out: 30 % at first, halved every fifth of the way.
    Decay,
    /// The noise of each run is mostly that of the run before.
    Autoregressive,
}

impl Drift {
    /// Every drift, with its name in the output.
    pub const ALL: [(Drift, &str); 5] = [
        (Drift::None, "no drift"),
        (Drift::Linear, "linear drift"),
        (Drift::Step, "a step"),
        (Drift::Decay, "credits running out"),
        (Drift::Autoregressive, "autoregressive noise"),
    ];
}

/// Share of the last run's noise that the next one keeps.
const MEMORY: f64 = 0.8;

/// A machine during one experiment.
pub struct Machine {
    drift: Drift,
    /// Standard deviation of a single run, as a logarithm.
    noise: f64,
    /// Runs of the whole experiment.
    runs: usize,
    /// Runs so far.
    at: usize,
    /// Time of the step, as a share of the experiment.
    step_at: f64,
    /// Logarithm of the last run's autoregressive noise.
    last_noise: f64,
    random: Random,
}

impl Machine {
    /// A machine for an experiment of `runs` runs.
    pub fn new(drift: Drift, noise: f64, runs: usize, seed: u64) -> Machine {
        let mut random = Random::from_seed(seed);
        Machine {
            drift,
            noise,
            runs,
            at: 0,
            step_at: share(&mut random),
            last_noise: 0.0,
            random,
        }
    }

    /// Logarithm of the speed of the present run; moves on to the next one.
    pub fn next_log_speed(&mut self) -> f64 {
        let time = self.at as f64 / self.runs.max(1) as f64;
        self.at += 1;
        let drift = match self.drift {
            Drift::None | Drift::Autoregressive => 0.0,
            Drift::Linear => -0.105 * time,
            Drift::Step if time > self.step_at => -0.163,
            Drift::Step => 0.0,
            Drift::Decay => 0.262 * 0.5_f64.powf(5.0 * time),
        };
        let fresh = normal(&mut self.random) * self.noise;
        if self.drift != Drift::Autoregressive {
            return drift + fresh;
        }
        self.last_noise = MEMORY * self.last_noise + fresh;
        self.last_noise
    }
}

/// A number between 0 and 1, 0 excluded.
pub fn share(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 + f64::MIN_POSITIVE
}

/// A number of the standard normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let (radius, angle) = (share(random), share(random));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::summary::{deviation, mean};

    #[test]
    fn noise_has_the_given_deviation() {
        let mut machine = Machine::new(Drift::None, 0.02, 4000, 11);
        let logs: Vec<f64> = (0..4000).map(|_| machine.next_log_speed()).collect();
        assert!(mean(&logs).unwrap().abs() < 0.002);
        assert!((deviation(&logs).unwrap() - 0.02).abs() < 0.001);
    }

    #[test]
    fn drifts_end_below_where_they_began() {
        for drift in [Drift::Linear, Drift::Step, Drift::Decay] {
            let mut machine = Machine::new(drift, 0.0, 100, 3);
            let first = machine.next_log_speed();
            let last = (0..99).map(|_| machine.next_log_speed()).last();
            assert!(last.unwrap() < first - 0.08, "{drift:?}");
        }
    }
}
