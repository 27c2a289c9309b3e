//! Clients that read and write a few keys.
//!
//! Every ten seconds the clients use new keys. So the history of a key stays small enough
//! for a checker that tries orders, and requests for the old keys that are still in progress
//! are tested too.

use std::{sync::Arc, time::Duration};

use environment::randomness::Random;

use super::{call::Caller, member::Member};
use crate::{
    load::{Keys, Load},
    process::Outcome,
    recorder::Recorder,
    values,
};

const KEYS: u64 = 5;
const AGE_SECONDS: u64 = 10;

/// The keys of the present ten seconds.
pub fn keys(recorder: &Recorder) -> Keys {
    Keys {
        prefix: format!("k{:05}/", recorder.elapsed().as_secs() / AGE_SECONDS),
        many: KEYS,
        value_bytes: values::mostly_small,
    }
}

/// Sends operations until the end; `pause` is the mean time between two operations.
pub async fn work(
    number: u32,
    members: Vec<Arc<Member>>,
    recorder: Arc<Recorder>,
    seed: u64,
    pause: Duration,
) -> Outcome {
    let mut random = Random::from_seed(seed);
    let mut caller = Caller::new(number, &members, &recorder);
    let mut load = Load::new(number, keys(&recorder));
    while !recorder.has_ended() {
        load.use_keys(keys(&recorder));
        let went_well = step(&mut caller, &mut load, &mut random).await;
        let part = random.below(2_000) as u32;
        tokio::time::sleep(pause * part / 1_000).await;
        if !went_well {
            let rest = random.below(300);
            tokio::time::sleep(Duration::from_millis(rest)).await;
        }
    }
    Ok(())
}

/// Sends one request. Returns whether there was an answer.
async fn step(caller: &mut Caller, load: &mut Load, random: &mut Random) -> bool {
    let request = load.draw(random);
    let patience = match random.below(10) {
        0 => random.below(100) + 10,
        1..=7 => random.below(2_000) + 500,
        _ => 9_000,
    };
    let patience = Duration::from_millis(patience);
    let Some(operation) = caller.call(request, patience, random).await else {
        return false;
    };
    let answer = operation.answer();
    if let Some(answer) = answer {
        load.learn(&operation.request, answer);
    }
    answer.is_some()
}
