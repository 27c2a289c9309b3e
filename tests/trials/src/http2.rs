//! Bad HTTP/2 and bad gRPC at the client port of one server.

mod attacks;
mod messages;

use crate::attack::attack;
use crate::bystander::PATIENCE;
use crate::servers::Servers;
use crate::{Length, Outcome, Report, Subject};

/// Attacks until the time has passed.
pub async fn run(subject: &Subject, length: Length) -> Outcome<Report> {
    let servers = Servers::start(&subject.inkstone, 1)?;
    let addresses = [servers.first().client_address().to_owned()];
    let write = |random: &mut _, _| attacks::one(random);
    attack("http2", servers, &addresses, length, PATIENCE, write).await
}
