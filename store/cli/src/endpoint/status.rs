//! The status of an endpoint.

use std::io;

use etcd_api::etcdserverpb::{StatusRequest, StatusResponse};
use serde_json::{Value, json};

use super::Asked;
use crate::client::{Connection, Printer, header_json, without_empty};
use crate::failure::Failure;
use crate::table::decimal_size;

/// The status of an endpoint.
pub(super) struct EndpointStatus {
    endpoint: String,
    status: StatusResponse,
}

impl EndpointStatus {
    pub(super) async fn of(name: &str, connection: &Connection) -> Result<EndpointStatus, Failure> {
        let send = async |request| connection.maintenance().status(request).await;
        let status = connection.call(StatusRequest {}, send).await?;
        Ok(EndpointStatus {
            endpoint: name.to_owned(),
            status,
        })
    }

    fn member(&self) -> u64 {
        self.status.header.map_or(0, |header| header.member_id)
    }

    /// Share of the file that is not in use, in percent.
    fn unused_percent(&self) -> i64 {
        let (used, all) = (self.status.db_size_in_use, self.status.db_size);
        100 - used.saturating_mul(100).checked_div(all).unwrap_or(100)
    }

    fn downgrade(&self) -> (&str, bool) {
        let info = self.status.downgrade_info.as_ref();
        info.map_or(("", false), |it| (&it.target_version, it.enabled))
    }
}

fn bytes(number: i64) -> String {
    decimal_size(number.unsigned_abs())
}

impl Asked for EndpointStatus {
    const COLUMNS: &'static [&'static str] = &[
        "<ENDPOINT",
        "<ID",
        "VERSION",
        "STORAGE VERSION",
        "DB SIZE",
        "IN USE",
        "PERCENTAGE NOT IN USE",
        "QUOTA",
        "IS LEADER",
        "IS LEARNER",
        "RAFT TERM",
        "RAFT INDEX",
        "RAFT APPLIED INDEX",
        "<ERRORS",
        "DOWNGRADE TARGET VERSION",
        "DOWNGRADE ENABLED",
    ];

    fn cells(&self) -> Vec<String> {
        let status = &self.status;
        let (target, enabled) = self.downgrade();
        vec![
            self.endpoint.clone(),
            format!("{:x}", self.member()),
            status.version.clone(),
            status.storage_version.clone(),
            bytes(status.db_size),
            bytes(status.db_size_in_use),
            format!("{}%", self.unused_percent()),
            bytes(status.db_size_quota),
            (status.leader == self.member()).to_string(),
            status.is_learner.to_string(),
            status.raft_term.to_string(),
            status.raft_index.to_string(),
            status.raft_applied_index.to_string(),
            status.errors.join(", "),
            target.to_owned(),
            enabled.to_string(),
        ]
    }

    fn json(&self) -> Value {
        let status = &self.status;
        let mut object = json!({
            "header": header_json(status.header.as_ref()),
            "version": status.version,
            "dbSize": status.db_size,
            "leader": status.leader,
            "raftIndex": status.raft_index,
            "raftTerm": status.raft_term,
            "raftAppliedIndex": status.raft_applied_index,
            "errors": status.errors,
            "dbSizeInUse": status.db_size_in_use,
            "isLearner": status.is_learner,
            "storageVersion": status.storage_version,
            "dbSizeQuota": status.db_size_quota,
        });
        without_empty(&mut object);
        if status.downgrade_info.is_some() {
            let (target, enabled) = self.downgrade();
            let mut info = json!({ "enabled": enabled, "targetVersion": target });
            without_empty(&mut info);
            object["downgradeInfo"] = info;
        }
        json!({ "Endpoint": self.endpoint, "Status": object })
    }

    fn print_fields(&self, printer: &mut Printer) -> io::Result<()> {
        let status = &self.status;
        let (target, enabled) = self.downgrade();
        printer.header_fields(status.header.as_ref())?;
        printer.text_field("Version", &status.version)?;
        printer.text_field("StorageVersion", &status.storage_version)?;
        printer.field("DBSize", status.db_size)?;
        printer.field("DBSizeInUse", status.db_size_in_use)?;
        printer.field("DBSizeQuota", status.db_size_quota)?;
        printer.field("Leader", status.leader)?;
        printer.field("IsLearner", status.is_learner)?;
        printer.field("RaftIndex", status.raft_index)?;
        printer.field("RaftAppliedIndex", status.raft_applied_index)?;
        printer.field("Errors", format_args!("[{}]", status.errors.join(" ")))?;
        printer.text_field("Endpoint", &self.endpoint)?;
        printer.text_field("DowngradeTargetVersion", target)?;
        printer.field("DowngradeEnabled", enabled)
    }
}
