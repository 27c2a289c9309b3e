//! One of three processes: writes the typed lines to the store, and shows those of all
//! members.

use std::io::BufRead;

use inkstone::{Error, KeyValue, LeadershipChanges, Node, NodeOptions, View, Watch};

use crate::name_of;

const HELP: &str = "\
  any other line   is written, and shown by all members
  /read            shows the newest line of each member, linearizable
  /local           shows the same from this member's data, without confirmation
  /members         lists the members and marks the leader
  /lead a|b|c      transfers the lead, if this member leads
  /quit            stops this member; a leader transfers the lead first";

/// Runs the chat until `/quit` or the end of the input.
pub fn run(options: NodeOptions) -> Result<(), Error> {
    let node = options.start()?;
    println!(
        "member {} is up; waiting for a majority of the three",
        node.name()
    );
    // Both cursors end when the node stops.
    let (changes, watch) = (node.leadership_changes(), node.watch_prefix("chat/", 1));
    std::thread::scope(|scope| {
        let shown = &node;
        scope.spawn(move || show_leaders(shown, changes));
        scope.spawn(move || show_lines(watch));
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line.trim() == "/quit" {
                break;
            }
            // After a failed line, the next one may succeed.
            if let Err(error) = obey(&node, line.trim()) {
                println!("! {error} ({:?})", error.remedy());
            }
        }
        node.stop();
    });
    Ok(())
}

fn show_leaders(node: &Node, mut changes: LeadershipChanges) {
    let mut shown = None;
    while let Ok(now) = changes.next() {
        // A new term without a leader is not shown.
        if shown == Some(now.leader) {
            continue;
        }
        shown = Some(now.leader);
        let term = now.term;
        match now.leader {
            Some(leader) if leader == node.id() => println!("* this member leads (term {term})"),
            Some(leader) => println!("* {} leads (term {term})", name_of(node, leader)),
            None => println!("* no member leads"),
        }
    }
}

fn show_lines(mut watch: Watch) {
    while let Ok(event) = watch.next() {
        let from = String::from_utf8_lossy(&event.key()["chat/".len()..]);
        let line = String::from_utf8_lossy(event.value());
        println!("{:>5} {from}: {line}", event.revision());
    }
}

fn obey(node: &Node, line: &str) -> Result<(), Error> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("", _) => {}
        ("/read", _) => show(&node.linearizable().wait()?)?,
        ("/local", _) => show(&node.serializable())?,
        ("/members", _) => show_members(node),
        ("/lead", to) => hand_over(node, to.trim())?,
        (word, _) if word.starts_with('/') => println!("{HELP}"),
        _ => {
            let key = format!("chat/{}", node.name());
            node.put(key, line.to_owned()).wait()?;
        }
    }
    Ok(())
}

fn show(view: &View<'_>) -> Result<(), Error> {
    println!("  at revision {}", view.revision());
    for KeyValue {
        key,
        value,
        version,
        ..
    } in view.prefix("chat/").collect()?
    {
        let (key, value) = (
            String::from_utf8_lossy(&key),
            String::from_utf8_lossy(&value),
        );
        println!("  {key}, line {version}: {value}");
    }
    Ok(())
}

fn show_members(node: &Node) {
    let leader = node.leadership().leader;
    for member in node.members() {
        let leads = if Some(member.id) == leader {
            "leads"
        } else {
            ""
        };
        let place = member.peer_urls.join(" ");
        println!("  {:16x} {:3} {place} {leads}", member.id, member.name);
    }
}

fn hand_over(node: &Node, to: &str) -> Result<(), Error> {
    let members = node.members();
    match members.iter().find(|member| member.name == to) {
        Some(member) => node.move_leader(member.id).wait(),
        None => {
            println!("  no member is called {to:?}");
            Ok(())
        }
    }
}
