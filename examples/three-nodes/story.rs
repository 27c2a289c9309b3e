//! Three members in one process: written through any, read everywhere, and on
//! without the one that led.

use inkstone::{Condition, Error, Node, NodeOptions, Remedy};

use crate::{NAMES, name_of};

/// Increments that each member makes of one counter.
const INCREMENTS: usize = 20;

/// Tells it. `options` describe a member by its name.
pub fn run(options: impl Fn(&str) -> NodeOptions) -> Result<(), Error> {
    let start = |name: &&str| options(name).start();
    let mut nodes: Vec<Node> = NAMES.iter().map(start).collect::<Result<_, _>>()?;

    let led = nodes[0].wait_for_leader().wait()?;
    let leader = led.leader.expect("that is what was waited for");
    println!(
        "three members are up, and {} leads (term {})",
        name_of(&nodes[0], leader),
        led.term
    );

    let first = any_member_takes_writes(&nodes)?;
    everybody_counts(&nodes)?;
    a_watch_tells_everything(&nodes[2], first)?;

    let place = nodes.iter().position(|node| node.id() == leader);
    let stopped = nodes.remove(place.expect("the leader is one of them"));
    let name = stopped.name().to_owned();
    without_its_leader(&stopped, &nodes)?;
    drop(stopped);
    nodes.push(back_again(options(&name), &nodes)?);
    for node in nodes {
        node.stop();
    }
    Ok(())
}

/// Returns the first revision that it wrote.
fn any_member_takes_writes(nodes: &[Node]) -> Result<i64, Error> {
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

fn everybody_counts(nodes: &[Node]) -> Result<(), Error> {
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

/// One more, if nobody has written it since it was read; otherwise again.
/// Returns how many answers were lost: the lead changed meanwhile, and whether it
/// was done is not known. Doing it again could count it twice.
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

fn a_watch_tells_everything(node: &Node, first: i64) -> Result<(), Error> {
    let view = patiently(|| node.linearizable().wait())?;
    println!(
        "\na watch at {} tells what happened since revision {first}",
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

fn without_its_leader(stopped: &Node, others: &[Node]) -> Result<(), Error> {
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
        "  {} was told that {} leads now",
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
        "  the watch at {} tells: {}",
        others[1].name(),
        String::from_utf8_lossy(event.value())
    );
    Ok(())
}

/// Its directory knows who it is; what happened meanwhile it hears from the
/// others.
fn back_again(options: NodeOptions, others: &[Node]) -> Result<Node, Error> {
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

/// Calls again what may be done twice, while the lead changes hands.
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
