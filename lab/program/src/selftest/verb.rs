//! The text and the exit code of `inkstone-lab selftest`.

use std::fmt::Write;

use super::proofs::prove;
use crate::verdict::Exit;

/// Runs all proofs; returns the text to print and the exit code.
pub fn selftest(seed: u64) -> (String, Exit) {
    let proofs = prove(seed);
    let mut text = String::new();
    for proof in &proofs {
        let mark = if proof.holds { "holds" } else { "FAILS" };
        let _ = writeln!(text, "{mark}  {}\n       {}", proof.statement, proof.seen);
    }
    let failures = proofs.iter().filter(|proof| !proof.holds).count();
    let _ = writeln!(text, "{} proofs, {failures} failed", proofs.len());
    let exit = if failures == 0 {
        Exit::Fine
    } else {
        Exit::Error
    };
    (text, exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_text_says_that_all_proofs_hold() {
        let (text, exit) = selftest(1);
        assert_eq!(exit, Exit::Fine, "{text}");
        assert!(text.ends_with("8 proofs, 0 failed\n"), "{text}");
    }
}
