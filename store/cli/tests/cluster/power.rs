//! Members that acknowledge writes from their page caches (`--durability=majority-memory`).

use crate::metrics::sample;
use crate::rolling::{Load, keys_of};
use crate::three::{LOOK, LOOKS_MAX, Three};

const FLAGS: [&str; 3] = [
    "--durability=majority-memory",
    "--flush-entries-max=64",
    "--flush-interval=20ms",
];

#[tokio::test]
async fn killed_processes_keep_every_acknowledged_write() {
    let mut three = Three::start_with(&FLAGS);
    three.put(0, "k", "before").await;
    let load = Load::start(&three, 6, &[0, 1, 2]);
    for round in 0..20 {
        three.put(round % 3, "k", "between").await;
    }
    let written = load.stop().await;
    (0..3).for_each(|number| three.kill(number));
    (0..3).for_each(|number| three.launch(number));
    for writer in written {
        assert!(writer.keys > 0);
        assert_eq!(three.get(0, "k").await.as_deref(), Some("between"));
        assert!(keys_of(&three, 0, writer.writer).await >= writer.keys);
    }
    for number in 0..3 {
        assert_eq!(sample(&three, number, "inkstone_returning").unwrap(), 0.0);
        assert_eq!(sample(&three, number, "inkstone_durable").unwrap(), 0.0);
    }
}

#[tokio::test]
async fn acknowledged_writes_are_flushed_soon() {
    let three = Three::start_with(&FLAGS);
    three.put(0, "k", "value").await;
    for number in 0..3 {
        let mut looks = 0;
        loop {
            let entries = sample(&three, number, "inkstone_unflushed_entries").unwrap();
            let bytes = sample(&three, number, "inkstone_unflushed_bytes").unwrap();
            let age = sample(&three, number, "inkstone_unflushed_age_seconds").unwrap();
            if (entries, bytes, age) == (0.0, 0.0, 0.0) {
                break;
            }
            looks += 1;
            assert!(
                looks < LOOKS_MAX,
                "{entries} entries, {bytes} bytes, {age} s"
            );
            tokio::time::sleep(LOOK).await;
        }
    }
}
