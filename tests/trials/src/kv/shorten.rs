//! Finds fewer operations that are still answered differently.
//!
//! Halves, quarters, eighths and so on of the list are removed while the answers to the rest
//! still differ. Each attempt starts fresh servers, so the total time is limited.

use std::time::{Duration, Instant};

use super::{Operation, Pair};
use crate::{Outcome, Subject};

const LASTING_MAX: Duration = Duration::from_secs(60);

/// The shortest list found within the time limit.
pub async fn shorten(subject: &Subject, operations: &[Operation]) -> Vec<Operation> {
    let deadline = Instant::now() + LASTING_MAX;
    let mut shortest = operations.to_vec();
    let mut size = shortest.len() / 2;
    while size > 0 && Instant::now() < deadline {
        let mut first = 0;
        while first < shortest.len() && Instant::now() < deadline {
            let after = (first + size).min(shortest.len());
            let without = [&shortest[..first], &shortest[after..]].concat();
            match differing_prefix(subject, &without).await {
                Ok(Some(length)) => shortest = without[..length].to_vec(),
                // A server that does not start does not end the search.
                Ok(None) | Err(_) => first += size,
            }
        }
        size /= 2;
    }
    shortest
}

/// Number of operations until answers differ; `None` if they do not.
async fn differing_prefix(subject: &Subject, operations: &[Operation]) -> Outcome<Option<usize>> {
    let mut pair = Pair::start(subject).await?;
    for (index, operation) in operations.iter().enumerate() {
        match pair.run(operation).await? {
            None => return Ok(None),
            Some((expected, found)) if expected != found => return Ok(Some(index + 1)),
            Some(_) => {}
        }
    }
    Ok(None)
}
