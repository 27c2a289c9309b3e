//! Append, read back, rotate, retain, recover:
//! `cargo run -p value-log --example append_read_recover`.

use std::error::Error;
use std::sync::Arc;

use environment::real::RealDisk;
use value_log::{Log, Options, Position, Record};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disk = Arc::new(RealDisk);
    let options = Options {
        segment_bytes: 1 << 20,
        ..Options::default()
    };

    let (log, _) = Log::open(
        disk.clone(),
        directory.path(),
        options.clone(),
        None,
        &mut |_| Ok(()),
    )?;
    log.on_durable(Box::new(|result| {
        if let Ok(sequence) = result {
            println!("on stable storage: everything up to group {sequence}");
        }
    }));

    // Append: the position is known at once, the promise comes with the flush.
    let appended = log.append(&[Record {
        kind: 1,
        parts: &[b"ink ", b"on stone"],
    }])?;
    log.wait_durable(appended.sequence)?;

    // Read back.
    let record = log.read(appended.positions[0], 0)?;
    println!(
        "{} holds {:?}",
        appended.positions[0],
        String::from_utf8_lossy(&record.payload)
    );

    // Rotate: the segment is sealed, the next append goes into another one.
    log.rotate()?;
    let kept = log.append(&[Record {
        kind: 1,
        parts: &[b"kept"],
    }])?;
    log.wait_durable(kept.sequence)?;

    // Retain: release a sealed segment; its file is recycled.
    let sealed: Vec<u32> = log
        .segments()
        .into_iter()
        .filter(|segment| segment.sealed)
        .map(|segment| segment.id)
        .collect();
    log.release(&sealed)?;
    println!("released segments {sealed:?}");
    log.close()?;

    // Recover: every group that is there is shown again, in order.
    let (log, recovered) = Log::open(disk, directory.path(), options, None, &mut |group| {
        for (position, _, payload) in &group.records {
            println!(
                "recovered {position}: {:?}",
                String::from_utf8_lossy(payload)
            );
        }
        Ok(())
    })?;
    println!(
        "{} groups, closed cleanly: {}",
        recovered.groups, recovered.clean
    );
    let groups = log.groups(Position::NONE).collect::<Result<Vec<_>, _>>()?;
    assert_eq!(&groups[0].records[0].2[..], b"kept");
    Ok(())
}
