//! Experiments in which scripts with prepared answers replace the workers.

use super::*;
use crate::record::{ARM_A, Outcome, Run, Taint, TaintKind};
use crate::verdict::evidence::comparison;
use crate::worker::{Job, worker_script};

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
        repetitions_max: 3,
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
fn the_schedule_has_every_run_and_the_ceiling_before_each_cell() {
    let experiment = experiment(&[("A", "engine"), ("A'", "engine"), ("B", "log")]);
    let schedule = experiment.schedule(&experiment.plan().runs, true);
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
fn the_error_for_an_unknown_target_lists_the_known_ones() {
    let experiment = experiment(&[("A", "leveldb")]);
    let error = experiment.worker(&experiment.arms[0].target);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("`leveldb`") && error.contains("engine"),
        "{error}"
    );
}

#[test]
fn a_target_of_another_build_uses_its_worker() {
    let experiment = experiment(&[("A", "engine@/old/inkstone-lab")]);
    let worker = experiment.worker(&experiment.arms[0].target).unwrap();
    assert_eq!(worker.program, Path::new("/old/inkstone-lab"));
}

/// A worker that answers with the runs in turn, then always with the last one.
fn scripted_worker(folder: &Path, name: &str, runs: &[Run]) -> TargetSpec {
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
    let experiment = Experiment {
        repetitions: 1,
        repetitions_max: 1,
        ..of_one_cell(folder.path(), &[disturbed, quiet.clone()])
    };
    let mut record = empty_record();
    let file = folder.path().join("run.json.gz");
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

/// An experiment with one cell, in which the worker of A answers with these runs in turn.
fn of_one_cell(folder: &Path, of_a: &[Run]) -> Experiment {
    let arm = |name: &str, runs: &[Run]| Arm {
        name: name.into(),
        target: scripted_worker(folder, &format!("worker-{name}"), runs),
    };
    let workload = crate::workload::parse("test", "name = \"w\"").unwrap();
    Experiment {
        points: Point::of(&workload),
        arms: vec![
            arm(ARM_A, of_a),
            arm(ARM_NULL, &[measured(ARM_NULL, Vec::new())]),
        ],
        parent: folder.join("data"),
        ..experiment(&[])
    }
}

fn run(experiment: &Experiment, folder: &Path, record: &mut Record) {
    let file = folder.join("run.json.gz");
    let ended = experiment.run(record, &file, &Interrupt::default());
    ended.unwrap();
}

fn runs_of_a(record: &Record) -> Vec<&Run> {
    record.runs.iter().filter(|run| run.arm == ARM_A).collect()
}

#[test]
fn a_disturbed_group_is_repeated_after_all_planned_runs() {
    let folder = tempfile::tempdir().unwrap();
    let quiet = |pair| Run {
        pair,
        ..measured(ARM_A, Vec::new())
    };
    let steal = Taint {
        kind: TaintKind::Steal,
        value: 0.5,
        limit: 0.01,
    };
    let disturbed = measured(ARM_A, vec![steal]);
    let experiment = Experiment {
        repetitions: 2,
        repetitions_max: 2,
        ..of_one_cell(folder.path(), &[disturbed, quiet(1), quiet(0)])
    };
    let mut record = empty_record();
    run(&experiment, folder.path(), &mut record);
    let seen: Vec<(u32, bool)> = runs_of_a(&record)
        .iter()
        .map(|run| (run.pair, run.replaced))
        .collect();
    assert_eq!(seen, [(0, true), (1, false), (0, false)]);
}

#[test]
fn a_budget_is_filled_with_whole_repetitions() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = Experiment {
        repetitions: 1,
        repetitions_max: 4,
        budget: Some(Duration::from_secs(3600)),
        ..of_one_cell(folder.path(), &[measured(ARM_A, Vec::new())])
    };
    let mut record = empty_record();
    run(&experiment, folder.path(), &mut record);
    assert_eq!(runs_of_a(&record).len(), 4);
    assert_eq!(record.schedule.len(), 8);
    assert!(record.complete);
}

#[test]
fn a_budget_that_is_too_small_leaves_an_incomplete_record() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = Experiment {
        repetitions: 1,
        repetitions_max: 4,
        budget: Some(Duration::from_secs(60)),
        ..of_one_cell(folder.path(), &[measured(ARM_A, Vec::new())])
    };
    let mut record = empty_record();
    record.started_unix_ms -= 3_600_000;
    run(&experiment, folder.path(), &mut record);
    assert!(!record.complete && record.runs.is_empty());
    let because = record.incomplete_because.unwrap();
    assert!(because.contains("after 0 of 2 runs"), "{because}");
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
