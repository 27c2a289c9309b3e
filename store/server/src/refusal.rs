//! Maps errors of the node to the gRPC status that a client receives.
//!
//! The code decides what etcd's clients do. On `Unavailable` a client repeats reads, also at
//! another member, and continues to renew leases, but repeats no writes: after `leader changed`
//! or `too many requests` a write was not done, after a timeout its outcome is unknown. `ResourceExhausted`, `DataLoss` and
//! `Internal` are returned to the caller at once. No error is `Unknown`, which a client
//! cannot act on.

use environment::Shortage;
use tonic::Status;

/// The status for an error of the node.
pub(crate) fn status(error: &cluster::Error) -> Status {
    match error {
        cluster::Error::Refused(error) => of_machine(error),
        cluster::Error::TooManyRequests { .. } => etcd_api::Error::TooManyRequests.to_status(),
        cluster::Error::Stopped => etcd_api::Error::Stopped.to_status(),
        _ => Status::unavailable(format!("inkstone: {error}")),
    }
}

/// The status for an error of the state machine.
pub(crate) fn of_machine(error: &revisions::Error) -> Status {
    match error {
        revisions::Error::Etcd(error) => error.to_status(),
        revisions::Error::Storage(storage) => of_storage(storage),
        revisions::Error::LeaseFull { .. } | revisions::Error::ReadsTooMuch { .. } => {
            Status::resource_exhausted(format!("inkstone: {error}"))
        }
        revisions::Error::Follow(_) => Status::failed_precondition(format!("inkstone: {error}")),
        revisions::Error::Short(_)
        | revisions::Error::NoSnapshot(_)
        | revisions::Error::Elsewhere(_)
        | revisions::Error::Randomness(_) => Status::unavailable(format!("inkstone: {error}")),
        revisions::Error::State { .. } | revisions::Error::DamagedElsewhere(_) => {
            Status::data_loss(format!("inkstone: {error}"))
        }
        other => Status::internal(format!("inkstone: {other}")),
    }
}

/// The status for an error of the engine. An error that etcd has, too, gets etcd's code;
/// for a limit that etcd does not have, the text names the limit.
fn of_storage(error: &engine::Error) -> Status {
    let text = format!("inkstone: {error}");
    match error {
        engine::Error::NoSpace { .. } => etcd_api::Error::NoSpace.to_status(),
        engine::Error::Compacted { .. } => etcd_api::Error::Compacted.to_status(),
        engine::Error::MemoryLimit { .. } => Status::resource_exhausted(text),
        engine::Error::TooLarge { .. } => {
            Status::invalid_argument(format!("{text} (the server's --segment-bytes)"))
        }
        engine::Error::InvalidBatch { .. } => Status::internal(text),
        engine::Error::RecordUnreadable { .. } => Status::data_loss(text),
        damage if damage.is_damage() => Status::data_loss(text),
        // A put without room fails with `NoSegment` instead.
        engine::Error::Disk { source, .. } if !ends_by_itself(source) => Status::internal(text),
        // The system refused a call, for example for lack of descriptors or memory.
        _ => Status::unavailable(text),
    }
}

/// Whether a failed system call may succeed later: a shortage ends, also one of
/// threads (EAGAIN). A device that does not read or write
/// (EIO) and a file that may not be opened (EACCES) do not recover by themselves.
fn ends_by_itself(error: &std::io::Error) -> bool {
    Shortage::of(error).is_some() || error.kind() == std::io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    // Linux's numbers.
    const EIO: i32 = 5;
    const EAGAIN: i32 = 11;
    const ENOMEM: i32 = 12;
    const EACCES: i32 = 13;
    const EMFILE: i32 = 24;
    const ENOSPC: i32 = 28;

    #[test]
    fn a_write_larger_than_a_segment_is_refused_with_the_flag() {
        let large = engine::Error::TooLarge {
            batch_bytes: 9,
            batch_bytes_max: 8,
        };
        let text = of_storage(&large).message().to_owned();
        assert!(text.contains("write less"), "{text}");
        assert!(text.contains("--segment-bytes"), "{text}");
    }

    #[test]
    fn a_shortage_is_unavailable_and_damage_is_not() {
        let shortage = engine::Error::Disk {
            file: "00000002.log".into(),
            doing: "open",
            source: std::io::Error::from_raw_os_error(24),
        };
        let damage = engine::Error::RecordUnreadable {
            segment: 1,
            offset: 4096,
            what: "no such kind",
        };
        let elsewhere = revisions::Error::Elsewhere("no descriptor".into());
        for (error, code) in [
            (revisions::Error::from(shortage), Code::Unavailable),
            (damage.into(), Code::DataLoss),
            (elsewhere, Code::Unavailable),
        ] {
            let status = status(&cluster::Error::Refused(error));
            assert_eq!(status.code(), code, "{status}");
            assert!(status.message().starts_with("inkstone: "), "{status}");
        }
        for error in [
            cluster::Error::Panicked,
            cluster::Error::Raft("dropped".into()),
        ] {
            assert_eq!(status(&error).code(), Code::Unavailable);
        }
    }

    fn disk(number: i32) -> engine::Error {
        engine::Error::Disk {
            file: "/data/1.checkpoint".into(),
            doing: "write",
            source: std::io::Error::from_raw_os_error(number),
        }
    }

    #[test]
    fn shortages_of_the_system_are_unavailable_and_its_failures_internal() {
        for (number, code) in [
            (EMFILE, Code::Unavailable),
            (ENOMEM, Code::Unavailable),
            (ENOSPC, Code::Unavailable),
            (EAGAIN, Code::Unavailable),
            (EIO, Code::Internal),
            (EACCES, Code::Internal),
        ] {
            let status = of_machine(&revisions::Error::from(disk(number)));
            assert_eq!(status.code(), code, "{status}");
        }
        let elsewhere = revisions::Error::Short("nothing was written".into());
        assert_eq!(of_machine(&elsewhere).code(), Code::Unavailable);
    }

    #[test]
    fn a_put_without_a_further_segment_is_unavailable_for_any_reason() {
        for number in [EMFILE, ENOMEM, EIO, EACCES] {
            let cause = value_log::Error::Io {
                action: "create",
                path: "/data/2.log".into(),
                source: std::sync::Arc::new(std::io::Error::from_raw_os_error(number)),
            };
            let refused = engine::Error::NoSegment { cause };
            let status = of_machine(&revisions::Error::from(refused));
            assert_eq!(status.code(), Code::Unavailable, "{status}");
            assert!(status.message().contains("nothing was written"), "{status}");
        }
    }

    #[test]
    fn a_record_that_the_device_does_not_read_is_lost_data() {
        let unread = value_log::Error::Io {
            action: "read",
            path: "/data/1.log".into(),
            source: std::sync::Arc::new(std::io::Error::from_raw_os_error(EIO)),
        };
        let status = of_machine(&revisions::Error::from(engine::Error::from(unread)));
        assert_eq!(status.code(), Code::DataLoss, "{status}");
    }

    #[test]
    fn limits_of_the_engine_have_codes_that_clients_treat_rightly() {
        let limit = engine::Error::MemoryLimit {
            index_bytes: 9,
            memory_bytes_max: 8,
        };
        let large = engine::Error::TooLarge {
            batch_bytes: 9,
            batch_bytes_max: 8,
        };
        for (error, code) in [
            (limit, Code::ResourceExhausted),
            (large, Code::InvalidArgument),
        ] {
            let status = of_machine(&revisions::Error::from(error));
            assert_eq!(status.code(), code);
            assert!(status.message().contains(" 9 bytes"), "{status}");
        }
    }
}
