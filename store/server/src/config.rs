//! The server's configuration: flags, environment variables, a file.
//!
//! ```text
//!   default  <  ETCD_* variable  <  flag          without a file
//!   default  <  key in the file                   with --config-file
//! ```
//!
//! All values are first gathered as text by name (`gather`), then parsed and
//! checked in one place (`settings`). Every value of type [`Config`] has passed the
//! checks.

mod arguments;
mod configuration;
mod durability;
mod error;
mod file;
mod flags;
mod founders;
mod gates;
mod gather;
mod help;
mod log_rotation;
mod peer_secret;
mod registry;
mod settings;
mod suggest;
mod tls_flags;
mod traces;
mod urls;
mod users;
mod values;

pub use cluster::{Durability, ReadMode};
pub use configuration::{
    Addresses, AutoCompaction, Clients, Cluster, Config, CorruptionChecks, Discovery, Founder,
    Http, LogConfig, LogFormat, LogOutput, LogRotation, Login, Registry, Tls, TlsSide, Traces,
};
pub use error::Error;
pub(crate) use founders::describe;
pub use gates::FeatureGates;
pub(crate) use gates::GATES;
pub use gather::Surroundings;
pub(crate) use urls::ChosenPort;
pub use urls::{Address, Url};

/// Action that a command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Run a server.
    Serve(Box<Config>),
    /// Print this text and exit.
    Help(String),
    /// Print the versions and exit.
    Version,
}

/// The text of `--help`: every flag with its default.
pub fn help_text() -> String {
    help::text()
}

/// Reads a command line (without program and verb) and what goes with it.
pub fn resolve(words: &[String], surroundings: &Surroundings<'_>) -> Result<Request, Error> {
    let arguments = arguments::parse(words)?;
    if arguments.help {
        return Ok(Request::Help(help::text()));
    }
    if arguments.version {
        return Ok(Request::Version);
    }
    let mut gathered = gather::gather(arguments, surroundings)?;
    let judged = gathered.judge();
    let read = judged.and_then(|()| settings::read(&mut gathered));
    let mut config = read.map_err(|error| gathered.name(error))?;
    config.http.prints_requests = surroundings.debugs_http2();
    let cannot_begin = &mut config.cluster.cannot_begin;
    *cannot_begin = cannot_begin.take().map(|error| gathered.name(error));
    Ok(Request::Serve(Box::new(config)))
}

#[cfg(test)]
pub(crate) mod testing {
    //! Configurations for the tests of this crate.

    use super::{Config, Error, Request, Surroundings, resolve};

    /// The refusal of this command line.
    pub(crate) fn refused(words: &[&str]) -> String {
        match resolved(words) {
            Err(error) => error.to_string(),
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    /// The configuration of this command line, which must be valid.
    pub(crate) fn config(words: &[&str]) -> Config {
        match resolved(words) {
            Ok(Request::Serve(config)) => *config,
            other => panic!("expected a configuration, got {other:?}"),
        }
    }

    fn resolved(words: &[&str]) -> Result<Request, Error> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let read_file = |_: &std::path::Path| Err("no files here".to_owned());
        let surroundings = Surroundings {
            variables: &[],
            read_file: &read_file,
        };
        resolve(&words, &surroundings)
    }
}

#[cfg(test)]
mod tests;
