//! Experiments with workers that say what they are told to.

use super::*;
use crate::record::{ARM_A, Taint, TaintKind};
use crate::verdict::evidence::comparison;
use crate::worker::worker_script;

fn experiment(arms: &[(&str, &str)]) -> Experiment {
    let text = "name = \"w\"\n[clients]\nclients = [1, 2]\n";
    let workload = crate::workload::parse("test", text).unwrap();
    let arm = |(name, target): &(&str, &str)| Arm {
        name: (*name).into(),
        target: target.parse().unwrap(),
    };
    Experiment {
        points: Point::of(&workload),
        arms: arms.iter().map(arm).collect(),
        repetitions: 3,
        budget: None,
        seed: 1,
        parent: ".".into(),
        loop_fs: None,
        threads: 1,
        verify_keys_max: 0,
        quiet_seconds_max: 0.0,
        repeat_disturbed: true,
    }
}

#[test]
fn a_curve_has_a_point_for_each_number_of_clients() {
    let points = experiment(&[("A", "engine")]).points;
    let names: Vec<&str> = points
        .iter()
        .map(|point| point.cell.name.as_str())
        .collect();
    assert_eq!(names, ["w, 1 client", "w, 2 clients"]);
    assert_eq!(points[1].workload.clients.clients, [2]);
}

#[test]
fn the_schedule_shows_every_run_and_a_cells_ceiling_before_it() {
    let experiment = experiment(&[("A", "engine"), ("A'", "engine"), ("B", "log")]);
    let schedule = experiment.schedule(&experiment.plan());
    assert_eq!(schedule.len(), 2 + 2 * 3 * 3);
    for cell in ["w, 1 client", "w, 2 clients"] {
        let here: Vec<bool> = schedule
            .iter()
            .filter(|planned| planned.cell == cell)
            .map(|planned| planned.arm == ARM_NULL)
            .collect();
        assert!(here[0] && !here[1..].contains(&true), "{cell}");
    }
    let of_cell = |planned: &&crate::record::Planned| planned.cell == "w, 1 client";
    let arms = schedule
        .iter()
        .filter(of_cell)
        .filter(|planned| planned.arm == "B");
    assert_eq!(arms.count(), 3);
    let second = schedule.iter().find(|it| it.cell == "w, 2 clients");
    assert_eq!(second.unwrap().point, 1);
}

#[test]
fn servers_have_no_ceiling_run() {
    let experiment = experiment(&[("A", "server:a"), ("B", "endpoints:b:1")]);
    assert!(!experiment.has_ceilings());
}

#[test]
fn a_target_that_is_not_here_is_named_with_what_is() {
    let experiment = experiment(&[("A", "leveldb")]);
    let error = experiment.worker(&experiment.arms[0].target).unwrap_err();
    assert!(
        error.contains("`leveldb`") && error.contains("engine"),
        "{error}"
    );
}

#[test]
fn the_worker_of_another_build_is_called() {
    let experiment = experiment(&[("A", "engine@/old/inkstone-lab")]);
    let worker = experiment.worker(&experiment.arms[0].target).unwrap();
    assert_eq!(worker.program, Path::new("/old/inkstone-lab"));
}

/// A worker that answers with the runs in turn, and with the last again and again.
fn worker_that_says(folder: &Path, name: &str, runs: &[Run]) -> TargetSpec {
    for (number, run) in runs.iter().enumerate() {
        let line = crate::worker::Line::Done(Box::new(run.clone()));
        let text = serde_json::to_string(&line).unwrap() + "\n";
        std::fs::write(folder.join(format!("{name}.{number}")), text).unwrap();
    }
    let path = folder.join(name);
    let text = format!(
        "cd '{}'\nnext=$(ls {name}.[0-9]* 2>/dev/null | head -1)\n\
         [ -z \"$next\" ] || mv \"$next\" {name}.last\nexec cat {name}.last",
        folder.display()
    );
    worker_script(&path, &text);
    format!("null@{}", path.display()).parse().unwrap()
}

fn measured(arm: &str, taints: Vec<Taint>) -> Run {
    let workload = crate::workload::parse("test", "name = \"w\"").unwrap();
    Run {
        arm: arm.into(),
        outcome: Outcome::Measured,
        taints,
        ..Run::of(&Job::bare(workload))
    }
}

#[test]
fn a_disturbed_group_is_repeated_counted_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = Taint {
        kind: TaintKind::ForeignLoad,
        value: 0.5,
        limit: 0.05,
    };
    let disturbed = measured(ARM_A, vec![foreign]);
    let quiet = measured(ARM_A, Vec::new());
    let arm = |name: &str, runs: &[Run]| Arm {
        name: name.into(),
        target: worker_that_says(folder.path(), &format!("worker-{name}"), runs),
    };
    let arms = vec![
        arm(ARM_A, &[disturbed, quiet.clone()]),
        arm(ARM_NULL, &[measured(ARM_NULL, Vec::new())]),
    ];
    let workload = crate::workload::parse("test", "name = \"w\"").unwrap();
    let experiment = Experiment {
        points: Point::of(&workload),
        arms,
        repetitions: 1,
        parent: folder.path().join("data"),
        ..experiment(&[])
    };
    let mut record = empty_record();
    let file = folder.path().join("run.json");
    experiment
        .run(&mut record, &file, &Interrupt::default())
        .unwrap();
    let of_a: Vec<bool> = record
        .runs
        .iter()
        .filter(|run| run.arm == ARM_A)
        .map(|run| run.replaced)
        .collect();
    assert_eq!(of_a, [true, false]);
    let repeated = comparison(&record, &quiet.cell).repeated;
    assert_eq!(repeated, ["triple 1: other programs used 50 %"]);
    assert_eq!(Record::load(&file).unwrap(), record);
    assert!(record.complete);
}

fn empty_record() -> Record {
    Record {
        format: crate::record::FORMAT,
        verb: "run".into(),
        title: String::new(),
        command_line: Vec::new(),
        tool: String::new(),
        complete: false,
        incomplete_because: None,
        started_unix_ms: crate::worker::unix_ms(),
        seed: 1,
        environment: crate::record::Environment::default(),
        schedule: Vec::new(),
        runs: Vec::new(),
    }
}
