//! An address book with history, which uses every part of the embedded API once.
//!
//! `cargo run --release -p inkstone --example embedded`
//! (an argument names the directory; default: a new one under the system's
//! temporary directory)

use std::path::PathBuf;

use inkstone::{Error, KeyValue, Store, WriteBatch};

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("inkstone-embedded-{}", std::process::id())),
        PathBuf::from,
    );
    println!("store in {}", directory.display());
    let store = Store::open(&directory)?;

    println!("\nthree people, written one by one; each write is durable when it returns");
    let start = store.put("people/ada", "London")?;
    store.put("people/grace", "New York")?;
    store.put("people/edsger", "Rotterdam")?;
    print(&store.prefix("people/").collect()?);

    println!("\none batch: two move, one leaves; all of it or nothing, one revision");
    let batch = WriteBatch::new()
        .put("people/ada", "Marylebone")
        .put("people/edsger", "Austin")
        .delete("people/grace");
    let moved = store.write_batch(batch)?;
    print(&store.prefix("people/").reverse().collect()?);

    println!(
        "\nas it was one revision earlier ({} people)",
        store.at(moved - 1).prefix("people/").count()?
    );
    print(&store.at(moved - 1).prefix("people/").collect()?);

    println!("\neverything that happened since revision {start}");
    let mut watch = store.watch_prefix("people/", start)?;
    for _ in 0..6 {
        let event = watch.next()?;
        let what = if event.is_deletion() { "left" } else { "is in" };
        println!(
            "  {:>3}  {} {what} {}",
            event.revision(),
            String::from_utf8_lossy(event.key()),
            String::from_utf8_lossy(event.value()),
        );
    }

    println!("\nhistory before revision {moved} is given up");
    store.compact(moved)?;
    match store.at(start).get("people/ada") {
        Ok(entry) => println!("  still there: {entry:?}"),
        Err(error) => println!("  {error}"),
    }

    drop((watch, store));
    println!(
        "\nclosed and opened again: {} people",
        Store::open(&directory)?.prefix("people/").count()?
    );
    Ok(())
}

fn print(entries: &[KeyValue]) {
    for entry in entries {
        println!(
            "  {:>3}  {} is in {}",
            entry.mod_revision,
            String::from_utf8_lossy(&entry.key),
            String::from_utf8_lossy(&entry.value),
        );
    }
}
