//! Judgement whether the device was flushed as often as durable puts require.
//!
//! A device with a volatile cache may lose everything that was not flushed. The kernel counts
//! flushes, so the judgement needs no statistics: a target that acknowledges durable writes
//! and flushes too rarely is not durable.

use crate::record::{BlockDevice, DurabilityJudgement, Judged, Run};
use crate::report::number::{bytes, grouped};
use crate::workload::DurabilityLevel;

/// Share of the required flushes that suffices: the edges of the measured part cut through
/// groups that share a flush.
const TOLERANCE: f64 = 0.9;

/// Judges a run by the counts of its measured part; `device` is the one of its data.
pub fn durability(run: &Run, device: Option<&BlockDevice>) -> DurabilityJudgement {
    let verdict = |judged, because: String| DurabilityJudgement { judged, because };
    if run.workload.durability.level != DurabilityLevel::Durable {
        return verdict(Judged::NotAsked, "the workload does not ask for it".into());
    }
    let buffer_bytes = run.workload.durability.buffer_bytes;
    if buffer_bytes > 0 {
        let because = format!(
            "a put returns when it is in a buffer of {}: two of them can be lost",
            bytes(buffer_bytes as f64)
        );
        return verdict(Judged::NotAsked, because);
    }
    let puts = run.load.writes();
    if puts == 0 {
        return verdict(Judged::NotAsked, "nothing was put".into());
    }
    let (Some(work), Some(device)) = (&run.device, device) else {
        return verdict(Judged::Unknown, "there is no device to count at".into());
    };
    if device.cache.contains("through") {
        let because = format!("{} has no volatile cache: a write is enough", device.name);
        return verdict(Judged::Unknown, because);
    }
    // One flush serves at most one put of each client.
    let clients = run.workload.clients.clients[0];
    let needed = (puts as f64 / f64::from(clients) * TOLERANCE).floor();
    let counted = format!(
        "{} device flushes for {} acknowledged puts, of which {clients} may share one",
        grouped(work.flushes as f64),
        grouped(puts as f64)
    );
    if (work.flushes as f64) < needed || work.flushes == 0 {
        return verdict(Judged::NotDurable, counted);
    }
    match work.shared {
        true => verdict(
            Judged::Unknown,
            format!("{counted}, on a device that others use"),
        ),
        false => verdict(Judged::Durable, counted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{DeviceWork, Kind, KindResult};
    use crate::worker::Job;

    fn judged(flushes: u64, puts: u64, clients: u32, shared: bool) -> Judged {
        let workload = format!("name = \"a\"\n[clients]\nclients = {clients}\n");
        let workload = crate::workload::parse("test", &workload).unwrap();
        let device = BlockDevice {
            cache: "write back".into(),
            ..BlockDevice::default()
        };
        let mut run = Run::of(&Job::bare(workload));
        let put = KindResult {
            operations: puts,
            ..KindResult::default()
        };
        run.load.kinds.insert(Kind::Put, put);
        run.device = Some(DeviceWork {
            flushes,
            shared,
            ..DeviceWork::default()
        });
        durability(&run, Some(&device)).judged
    }

    #[test]
    fn one_client_needs_a_flush_for_each_put() {
        assert_eq!(judged(1000, 1000, 1, false), Judged::Durable);
        assert_eq!(judged(100, 1000, 1, false), Judged::NotDurable);
    }

    #[test]
    fn many_clients_share_flushes() {
        assert_eq!(judged(100, 1000, 10, false), Judged::Durable);
        assert_eq!(judged(10, 1000, 10, false), Judged::NotDurable);
    }

    #[test]
    fn buffered_puts_are_not_judged() {
        let workload = "name = \"a\"\n[durability]\nbuffer_bytes = 65536\n";
        let workload = crate::workload::parse("test", workload).unwrap();
        let judgement = durability(&Run::of(&Job::bare(workload)), None);
        assert_eq!(judgement.judged, Judged::NotAsked);
        assert!(judgement.because.contains("64 KiB"));
    }

    #[test]
    fn a_shared_device_proves_only_missing_flushes() {
        assert_eq!(judged(1000, 1000, 1, true), Judged::Unknown);
        assert_eq!(judged(0, 1000, 1, true), Judged::NotDurable);
    }
}
