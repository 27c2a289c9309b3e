//! The container file. No test can build it without its base image: these read it.

use crate::manifest::{all, read};

/// The lines of one stage, continued ones joined, comments left out.
fn stages() -> Vec<Vec<String>> {
    let text = read("container/Containerfile");
    let text = text.lines().filter(|line| !line.starts_with('#'));
    let text = text.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let mut stages: Vec<Vec<String>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("FROM ") {
            stages.push(Vec::new());
        }
        stages.last_mut().unwrap().push(line.to_owned());
    }
    stages
}

fn value<'a>(stage: &'a [String], word: &str) -> Option<&'a str> {
    let mut lines = stage.iter();
    lines.find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
}

#[test]
fn the_image_is_empty_but_for_the_binary_and_runs_as_the_user_of_the_pods() {
    let stages = stages();
    let [_, etcd, last] = &stages[..] else {
        panic!("{} stages", stages.len());
    };
    assert_eq!(value(etcd, "FROM"), Some("scratch AS etcd"));
    assert_eq!(value(last, "FROM"), Some("scratch"));
    for stage in [etcd, last] {
        assert_eq!(value(stage, "COPY"), Some("--from=build /image /"));
        assert!(value(stage, "RUN").is_none() && value(stage, "ADD").is_none());
    }
    let documents = all("kubernetes/statefulset.yaml");
    let set = documents.last().unwrap();
    let context = &set["spec"]["template"]["spec"]["securityContext"];
    let user = context["runAsUser"].as_i64().unwrap();
    assert_eq!(value(last, "USER"), Some(format!("{user}:{user}").as_str()));
    assert_eq!(context["fsGroup"].as_i64(), Some(user));
    assert_eq!(context["runAsNonRoot"].as_bool(), Some(true));
}

#[test]
fn only_the_fetch_of_crates_has_the_network() {
    let stages = stages();
    let commands: Vec<&str> = stages[0]
        .iter()
        .filter_map(|line| line.strip_prefix("RUN "))
        .collect();
    let [fetch, build] = commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!(fetch, "cargo fetch --locked");
    assert!(build.starts_with("--network=none ") && build.contains("--offline"));
    for name in ["etcd", "etcdctl", "etcdutl"] {
        assert!(
            build.contains(&format!("/image/usr/local/bin/{name}")),
            "{name}"
        );
    }
}
