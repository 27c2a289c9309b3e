//! Users and roles in the machine: evaluation of their requests.

use std::sync::Arc;

use auth::{
    Auth, AuthChange, AuthCommand, AuthCommandResponse, AuthRequest, EnableRequest, SECRET_BYTES,
};
use environment::randomness::secret_bytes;
use etcd_api::Error as Refusal;

use crate::acting::{Acting, Actor};
use crate::machine::Machine;
use crate::permit::Permit;
use crate::state::StateRecord;
use crate::{Command, Error, Response};

/// Refuses a command that its caller may not ask for.
pub(crate) fn check_permitted(
    machine: &Machine,
    command: &Command,
    trust: Trust,
) -> Result<(), Refusal> {
    let (shared, auth) = (&machine.shared, &machine.decided.auth);
    if trust == Trust::Member || !shared.options.checks_callers || !auth.is_enabled() {
        return Ok(());
    }
    let (caller, plain) = match command {
        Command::As(acting) => match &**acting {
            Acting {
                actor: Actor::Member,
                ..
            } => return Ok(()),
            Acting {
                actor: Actor::User(identity),
                command,
                ..
            } => (Some(&**identity), command),
            Acting {
                actor: Actor::Unknown,
                command,
                ..
            } => (None, command),
        },
        plain => (None, plain),
    };
    let keys_of_lease = |lease| shared.keys_of_lease(&machine.overlay, lease);
    Permit::new(auth, caller, &keys_of_lease).command(plain)
}

/// The command that picks the key of tokens, if it is missing. Without random bytes it is tried again
/// at the next call.
pub(crate) fn pick_secret(auth: &Auth) -> Option<Command> {
    let secret = auth
        .lacks_secret()
        .then(secret_bytes::<SECRET_BYTES>)?
        .ok()?;
    let request = EnableRequest {
        secret: secret.to_vec(),
    };
    Some(Command::Auth(AuthCommand {
        request: Some(AuthRequest::Enable(request)),
    }))
}

/// Evaluates a request about users.
pub(crate) fn change(machine: &mut Machine, command: &AuthCommand) -> Result<Response, Error> {
    let request = command.request.as_ref();
    let request = request.ok_or(Refusal::InvalidAuthManagement)?;
    if let AuthRequest::Renew(renewal) = request {
        if machine.decided.auth.is_enabled() {
            machine.open.push_state(&StateRecord::TokenRenewed {
                number: renewal.token,
                until: renewal.until,
                now: renewal.now,
            });
        }
    } else if let Some(change) = machine.decided.auth.decide(request)? {
        let record = StateRecord::Auth(change.clone());
        check_record_size(&record, machine.shared.command_bytes_max())?;
        machine.open.push_state(&record);
        let applied = Arc::make_mut(&mut machine.decided.auth).apply(change);
        assert_eq!(applied, Ok(()), "the change was decided on this state");
    }
    Ok(Response::Auth(AuthCommandResponse::default()))
}

/// Replaces all users and roles.
pub(crate) fn replace(machine: &mut Machine, auth: Auth) -> Result<(), Error> {
    let change = AuthChange::Replaced {
        auth: Box::new(auth),
    };
    let record = StateRecord::Auth(change.clone());
    check_record_size(&record, machine.shared.command_bytes_max())?;
    machine.open.push_state(&record);
    let applied = Arc::make_mut(&mut machine.decided.auth).apply(change);
    assert_eq!(applied, Ok(()), "a whole replacement contradicts nothing");
    Ok(())
}

/// Refuses a record that would leave no room in a batch for the next command.
fn check_record_size(record: &StateRecord, batch_bytes_max: u64) -> Result<(), Error> {
    let batch_bytes = record.log_bytes();
    if batch_bytes <= batch_bytes_max {
        return Ok(());
    }
    let too_large = engine::Error::TooLarge {
        batch_bytes,
        batch_bytes_max,
    };
    Err(too_large.into())
}

/// Whether a command comes from this machine itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The command itself has its actor.
    Caller,
    /// The member that evaluates it asks for it.
    Member,
}
