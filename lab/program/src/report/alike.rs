//! Whether two records can be compared: the facts about machine and work that must be equal.

use crate::record::Environment;
use crate::workload::Workload;

/// Name and text of a fact about a machine.
type Fact = (&'static str, fn(&Environment) -> String);

const FACTS: [Fact; 7] = [
    ("processor", |it| it.processor.clone()),
    ("cores", |it| it.cores.to_string()),
    ("memory", |it| it.memory_bytes.to_string()),
    ("kernel", |it| it.kernel.clone()),
    ("governor", |it| it.governor.clone()),
    ("file system", |it| it.file_system.clone()),
    ("device", device),
];

fn device(environment: &Environment) -> String {
    match &environment.device {
        Some(device) if device.private => format!("{} ({}, private)", device.name, device.cache),
        Some(device) => format!("{} ({})", device.name, device.cache),
        None => "none".to_owned(),
    }
}

/// A sentence for each fact in which two machines differ.
pub fn other_machine(old: &Environment, new: &Environment) -> Vec<String> {
    let differing = FACTS.into_iter().filter_map(|(name, fact)| {
        let [old, new] = [old, new].map(fact);
        let differ = || format!("not the same machine: {name} `{old}`, then `{new}`");
        (old != new).then(differ)
    });
    differing.collect()
}

/// Names of the facts in which two machines differ.
pub fn other_facts(old: &Environment, new: &Environment) -> Vec<&'static str> {
    let differing = FACTS.into_iter().filter(|(_, fact)| fact(old) != fact(new));
    differing.map(|(name, _)| name).collect()
}

/// Names of the parts in which two workloads differ; lengths of time are none of them.
pub fn other_parts(old: &Workload, new: &Workload) -> Vec<&'static str> {
    let parts = [
        ("load", old.load == new.load),
        ("memory limit", old.memory == new.memory),
        ("mix", old.mix == new.mix),
        ("access", old.access == new.access),
        ("clients", old.clients == new.clients),
        ("arrival", old.arrival == new.arrival),
        ("durability", old.durability == new.durability),
    ];
    let differing = parts.into_iter().filter(|(_, same)| !same);
    differing.map(|(name, _)| name).collect()
}
