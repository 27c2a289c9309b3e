//! A demonstration with three members in one process: writes through every member, reads at
//! every member, and a stop of the leader.

use inkstone::{Condition, Error, Node, NodeOptions, Remedy};

use crate::{NAMES, name_of};

/// Number of increments of one counter through each member.
const INCREMENTS: usize = 20;

/// Runs the demonstration. `options` returns the options of a member by its name.
pub fn run(options: impl Fn(&str) -> NodeOptions) -> Result<(), Error> {
    let start = |name: &&str| options(name).start();
    let mut nodes: Vec<Node> = NAMES.iter().map(start).collect::<Result<_, _>>()?;

    let led = nodes[0].wait_for_leader().wait()?;
    let leader = led.leader.expect("the answer arrives when a member leads");
    println!(
        "three members are up, and {} leads (term {})",
        name_of(&nodes[0], leader),
        led.term
    );

    let first = write_through_each(&nodes)?;
    count_concurrently(&nodes)?;
    show_watch(&nodes[2], first)?;

    let place = nodes.iter().position(|node| node.id() == leader);
    let stopped = nodes.remove(place.expect("the leader is one of them"));
    let name = stopped.name().to_owned();
    stop_leader(&stopped, &nodes)?;
    drop(stopped);
    nodes.push(restart(options(&name), &nodes)?);
    for node in nodes {
        node.stop();
    }
    Ok(())
}

/// Writes through each member and reads at the next. Returns the first written revision.
fn write_through_each(nodes: &[Node]) -> Result<i64, Error> {
    println!("\nwritten through each member, read at once through the next one");
    let mut first = None;
    for (writer, reader) in nodes.iter().zip(nodes.iter().cycle().skip(1)) {
        let key = format!("from/{}", writer.name());
        let revision = patiently(|| writer.put(key.clone(), "hello").wait())?;
        first.get_or_insert(revision);
        let view = patiently(|| reader.linearizable().wait())?;
        let found = view.get(&key)?.expect("it was acknowledged before");
        println!(
            "  revision {revision}: {key} = {}  (through {}, read at {})",
            String::from_utf8_lossy(&found.value),
            writer.name(),
            reader.name()
        );
    }
    Ok(first.expect("there are members"))
}

fn count_concurrently(nodes: &[Node]) -> Result<(), Error> {
    println!("\none counter, {INCREMENTS} increments through each member at the same time");
    let lost: Result<usize, Error> = std::thread::scope(|scope| {
        let increments = |node| (0..INCREMENTS).map(|_| increment(node)).sum();
        let count = |node| scope.spawn(move || -> Result<usize, Error> { increments(node) });
        let threads: Vec<_> = nodes.iter().map(count).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|outcome| outcome.expect("a thread that counts does not panic"))
            .sum()
    });
    let found = patiently(|| nodes[0].get("counter").wait())?;
    let found = found.expect("it was written");
    println!(
        "  it stands at {} after {} writes, of which {} were not answered",
        String::from_utf8_lossy(&found.value),
        found.version,
        lost?
    );
    Ok(())
}

/// Increments the counter: reads it, writes it if it is unchanged, and otherwise tries again.
/// Returns the number of lost answers, 0 or 1. After a lost answer (the leader has changed)
/// the outcome is unknown, and trying again could count twice.
fn increment(node: &Node) -> Result<usize, Error> {
    loop {
        let found = patiently(|| node.get("counter").wait())?;
        let (value, unchanged) = match &found {
            None => (0, Condition::missing("counter")),
            Some(entry) => (
                String::from_utf8_lossy(&entry.value).parse().unwrap_or(0),
                Condition::written_by("counter", entry.mod_revision),
            ),
        };
        let next: u64 = value + 1;
        match node.put_if(unchanged, "counter", next.to_string()).wait() {
            Ok(swapped) if swapped.succeeded => return Ok(0),
            Ok(_) => {}
            Err(error) if error.remedy() == Remedy::LookFirst => return Ok(1),
            Err(error) => return Err(error),
        }
    }
}

fn show_watch(node: &Node, first: i64) -> Result<(), Error> {
    let view = patiently(|| node.linearizable().wait())?;
    println!(
        "\na watch at {} shows the changes since revision {first}",
        node.name()
    );
    let mut watch = node.watch_prefix("", first);
    let (mut counted, mut last) = (0, first);
    while last < view.revision() {
        let event = watch.next()?;
        last = event.revision();
        match event.key() {
            b"counter" => counted += 1,
            key => println!(
                "  {last:>3}  {} = {}",
                String::from_utf8_lossy(key),
                String::from_utf8_lossy(event.value())
            ),
        }
    }
    println!("  and {counted} increments, in order");
    Ok(())
}

fn stop_leader(stopped: &Node, others: &[Node]) -> Result<(), Error> {
    println!("\n{}, which leads, is stopped", stopped.name());
    let mut changes = others[0].leadership_changes();
    let mut watch = others[1].watch("after".."after0", 0);
    stopped.stop();
    let next = loop {
        match changes.next()?.leader {
            Some(leader) if leader != stopped.id() => break leader,
            _ => {}
        }
    };
    println!(
        "  {} was notified that {} leads now",
        others[0].name(),
        name_of(&others[0], next)
    );
    let revision = patiently(|| others[0].put("after", "we go on").wait())?;
    println!(
        "  revision {revision} was written through {}",
        others[0].name()
    );
    let event = watch.next()?;
    println!(
        "  the watch at {} shows: {}",
        others[1].name(),
        String::from_utf8_lossy(event.value())
    );
    Ok(())
}

/// Starts a member again. Its identity is in its directory; it receives the missed writes from
/// the others.
fn restart(options: NodeOptions, others: &[Node]) -> Result<Node, Error> {
    let node = options.start()?;
    println!("\n{} starts again from its directory", node.name());
    let found = patiently(|| node.get("after").wait())?;
    let found = found.expect("the others have it");
    println!(
        "  and reads what was written without it: {}",
        String::from_utf8_lossy(&found.value)
    );
    let local = node.serializable();
    println!(
        "  {} keys at revision {}, as at {}",
        local.prefix("").count()?,
        local.revision(),
        others[0].name()
    );
    Ok(node)
}

/// Repeats a call that may be done twice while the leader changes.
fn patiently<T>(call: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let mut outcome = call();
    for _ in 0..10 {
        match &outcome {
            Err(error) if matches!(error.remedy(), Remedy::Retry | Remedy::LookFirst) => {
                outcome = call();
            }
            _ => break,
        }
    }
    outcome
}
