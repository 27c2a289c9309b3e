//! Whether an endpoint is healthy: it commits a read, and has no alarm.

use std::io;
use std::time::Duration;

use environment::Clock;
use environment::real::RealClock;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, RangeRequest};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Asked;
use crate::client::{Connection, Endpoints, Form, NamedEndpoint, Printer, duration};
use crate::failure::{self, Failure};

/// A key as good as any other: only the answer counts.
const KEY: &str = "health";

/// The health of an endpoint.
pub(super) struct Health {
    endpoint: String,
    /// `None` if no connection was made.
    took: Option<Duration>,
    /// Empty if it is healthy.
    error: String,
}

/// Asks each endpoint, and prints the answers; false if one is not healthy.
pub(super) async fn run(endpoints: &Endpoints, printer: &mut Printer) -> Result<bool, Failure> {
    let answers = endpoints.iter().map(|it| Health::of(endpoints, it));
    let answers = join_all(answers).await;
    match printer.form() {
        Form::Simple => print_sentences(printer, &answers)?,
        _ => super::print(printer, &answers)?,
    }
    printer.flush()?;
    let all_well = answers.iter().all(|health| health.error.is_empty());
    if !all_well {
        failure::report(&Failure::failed("unhealthy cluster", ""));
    }
    Ok(all_well)
}

fn print_sentences(printer: &mut Printer, answers: &[Health]) -> Result<(), Failure> {
    for health in answers.iter().filter(|health| health.error.is_empty()) {
        let (endpoint, took) = (&health.endpoint, health.took());
        printer.line(format_args!(
            "{endpoint} is healthy: successfully committed proposal: took = {took}"
        ))?;
    }
    printer.flush()?;
    for health in answers.iter().filter(|health| !health.error.is_empty()) {
        failure::say(&format!(
            "{} is unhealthy: failed to commit proposal: {}",
            health.endpoint, health.error
        ));
    }
    Ok(())
}

impl Health {
    async fn of(endpoints: &Endpoints, endpoint: &NamedEndpoint) -> Health {
        let mut health = Health {
            endpoint: endpoint.name.clone(),
            took: None,
            error: String::new(),
        };
        let asked = async {
            let connection = endpoints.connect(endpoint).await?;
            let begun = RealClock.now();
            let read = commits(&connection).await;
            health.took = Some(RealClock.now().saturating_since(begun));
            read?;
            check_alarms(&connection).await
        };
        let asked = asked.await;
        if let Err(failure) = asked {
            health.error = failure.what();
        }
        health
    }

    fn took(&self) -> String {
        self.took.map_or_else(String::new, duration::shown)
    }
}

/// Reads a key through the cluster. A refusal to a user was committed, too.
async fn commits(connection: &Connection) -> Result<(), Failure> {
    let message = RangeRequest {
        key: KEY.into(),
        ..RangeRequest::default()
    };
    let send = async |request| connection.kv().range(request).await;
    match connection.attempt(message, send).await? {
        Err(status) if status.message() != Refusal::PermissionDenied.message() => {
            Err(connection.refused(&status))
        }
        _ => Ok(()),
    }
}

async fn check_alarms(connection: &Connection) -> Result<(), Failure> {
    let message = AlarmRequest {
        action: AlarmAction::Get.into(),
        ..AlarmRequest::default()
    };
    let send = async |request| connection.maintenance().alarm(request).await;
    let alarms = connection.attempt(message, send).await?;
    let alarms = alarms
        .map_err(|_| Failure::failed("Unable to fetch the alarm list", ""))?
        .alarms;
    if alarms.is_empty() {
        return Ok(());
    }
    let names = alarms
        .iter()
        .map(|it| format!("{} ", it.alarm().as_str_name()));
    let names = names.collect::<String>();
    Err(Failure::failed(
        format_args!("Active Alarm(s): {names}"),
        "",
    ))
}

impl Asked for Health {
    const COLUMNS: &'static [&'static str] = &["<ENDPOINT", "<HEALTH", "TOOK", "<ERROR"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.endpoint.clone(),
            self.error.is_empty().to_string(),
            self.took(),
            self.error.clone(),
        ]
    }

    fn json(&self) -> Value {
        let mut health = json!({
            "endpoint": self.endpoint,
            "health": self.error.is_empty(),
            "took": self.took(),
        });
        if !self.error.is_empty() {
            health["error"] = self.error.clone().into();
        }
        health
    }

    fn print_fields(&self, printer: &mut Printer) -> io::Result<()> {
        printer.text_field("Endpoint", &self.endpoint)?;
        printer.field("Health", self.error.is_empty())?;
        printer.field("Took", self.took())?;
        printer.field("Error", &self.error)
    }
}
