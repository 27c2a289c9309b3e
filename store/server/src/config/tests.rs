//! Whole command lines, from their words to a checked configuration.

use std::path::Path;
use std::time::Duration;

use super::testing::refused;
use super::*;

fn resolve_with(
    words: &[&str],
    variables: &[(&str, &str)],
    file: Option<&str>,
) -> Result<Request, Error> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    let read_file = |_: &Path| {
        file.map(str::to_owned)
            .ok_or_else(|| "no such file".to_owned())
    };
    resolve(
        &words,
        &Surroundings {
            variables: &variables,
            read_file: &read_file,
        },
    )
}

fn served(request: Result<Request, Error>) -> Config {
    match request.unwrap() {
        Request::Serve(config) => *config,
        other => panic!("expected a configuration, got {other:?}"),
    }
}

fn config(words: &[&str]) -> Config {
    served(resolve_with(words, &[], None))
}

fn refusal(words: &[&str]) -> String {
    resolve_with(words, &[], None).unwrap_err().to_string()
}

#[test]
fn an_empty_command_line_has_etcd_s_defaults() {
    let config = config(&[]);
    assert_eq!(config.name, "default");
    assert_eq!(config.node.directory, Path::new("default.inkstone"));
    assert_eq!(
        config.addresses.listen_client[0].as_str(),
        "http://localhost:2379"
    );
    assert_eq!(
        config.addresses.advertise_peer[0].as_str(),
        "http://localhost:2380"
    );
    assert_eq!(config.node.replica.machine.quota_bytes, Some(2 << 30));
    assert_eq!(config.node.replica.command_limits.operations_max, 128);
    assert_eq!(
        config.node.replica.command_limits.request_bytes_max,
        1_572_864
    );
    assert_eq!(config.message_bytes_max(), 1_572_864 + 524_288);
    assert_eq!(config.request_timeout(), Duration::from_secs(7));
    assert_eq!(
        config.clients.keepalive_interval,
        Some(Duration::from_secs(7200))
    );
    assert_eq!(config.clients.ping_interval_min, Duration::from_secs(5));
    assert_eq!(config.durability, Durability::Durable);
    assert_eq!(config.auto_compaction, None);
    assert_eq!(config.log.outputs, [LogOutput::Stderr]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn the_page_is_on_unless_a_flag_a_variable_or_the_file_says_otherwise() {
    assert!(config(&[]).http.page);
    assert!(!config(&["--enable-ui=false"]).http.page);
    let variables = [("ETCD_ENABLE_UI", "false")];
    assert!(!served(resolve_with(&[], &variables, None)).http.page);
    let words = ["--config-file=a.yaml"];
    assert!(
        !served(resolve_with(&words, &[], Some("enable-ui: false")))
            .http
            .page
    );
}

#[test]
fn the_harness_of_etcd_s_own_tests_is_understood() {
    let config = config(&[
        "--name=TestKVPutNoTLS-test-0",
        "--listen-client-urls=http://localhost:20000",
        "--advertise-client-urls=http://localhost:20000",
        "--listen-peer-urls=http://localhost:20001",
        "--initial-advertise-peer-urls=http://localhost:20001",
        "--initial-cluster-token=new",
        "--data-dir=/tmp/x",
        "--snapshot-count=10000",
        "--quota-backend-bytes=53248",
        "--strict-reconfig-check=false",
        "--initial-cluster=TestKVPutNoTLS-test-0=http://localhost:20001",
        "--initial-cluster-state=new",
        "--initial-cluster-token=new",
        "--quota-backend-bytes=53248",
        "--snapshot-count=10000",
    ]);
    assert_eq!(config.node.replica.machine.quota_bytes, Some(53_248));
    assert_eq!(config.cluster.token, "new");
    assert!(!config.cluster.strict_reconfiguration);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn a_flag_beats_its_variable_and_the_last_flag_wins() {
    let variables = [
        ("ETCD_NAME", "from-variable"),
        ("ETCD_DATA_DIR", "d"),
        ("ETCD_FROB", "1"),
    ];
    let config = served(resolve_with(&["--name=a", "--name=b"], &variables, None));
    assert_eq!(config.name, "b");
    assert_eq!(config.node.directory, Path::new("d"));
    assert!(
        config.warnings[0].contains("ETCD_FROB"),
        "{:?}",
        config.warnings
    );
}

#[test]
fn a_file_silences_flags_and_variables() {
    let file = "name: n1\nelection-timeout: 2000\nfrob: 1\n";
    let words = ["--config-file=x.yaml", "--name=ignored"];
    let config = served(resolve_with(
        &words,
        &[("ETCD_DATA_DIR", "ignored")],
        Some(file),
    ));
    assert_eq!(config.name, "n1");
    assert_eq!(config.node.directory, Path::new("n1.inkstone"));
    assert_eq!(config.node.replica.election_timeout, Duration::from_secs(2));
    assert!(config.warnings.iter().any(|text| text.contains("frob")));
    let variable = [("ETCD_CONFIG_FILE", "x.yaml")];
    assert_eq!(served(resolve_with(&[], &variable, Some(file))).name, "n1");
}

#[test]
fn a_missing_file_is_named() {
    let text = refusal(&["--config-file=x.yaml"]);
    assert!(
        text.contains("x.yaml") && text.contains("no such file"),
        "{text}"
    );
}

#[test]
fn a_bad_value_is_reported_with_its_source() {
    let variables = [("ETCD_ELECTION_TIMEOUT", "x")];
    let text = resolve_with(&[], &variables, None).unwrap_err().to_string();
    assert!(
        text.starts_with("variable ETCD_ELECTION_TIMEOUT: --election-timeout=x"),
        "{text}"
    );
    let text = resolve_with(&["--election-timeout=y"], &variables, None)
        .unwrap_err()
        .to_string();
    assert!(text.starts_with("--election-timeout=y"), "{text}");
}

#[test]
fn corruption_checks_are_off_unless_their_flags_ask_for_them() {
    let plain = config(&[]);
    assert!(!plain.corruption.at_the_start() && !plain.corruption.after_compactions());
    assert!(plain.corruption.interval.is_zero());
    assert!(plain.node.replica.compares_states);
    assert_eq!(plain.node.scrubbing.unwrap().core_permille, 10);
    let all = config(&[
        "--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true",
        "--corrupt-check-time=10m",
        "--compare-states=false",
        "--scrub-core-percent=0",
    ]);
    assert!(all.corruption.at_the_start() && all.corruption.after_compactions());
    assert!(all.node.replica.machine.hash_every_compaction);
    assert_eq!(all.corruption.interval.as_secs(), 600);
    assert!(!all.node.replica.compares_states);
    assert_eq!(all.node.scrubbing, None);
}

#[test]
fn corruption_checks_with_senseless_values_are_refused() {
    for (word, expected) in [
        ("--compact-hash-check-time=0s", "must be >0 (set to 0s)"),
        (
            "--feature-gates=Nothing=true",
            "unrecognized feature gate: Nothing",
        ),
        ("--scrub-core-percent=101", "at most 100"),
        (
            "--experimental-initial-corrupt-check=true",
            "initial-corrupt-check",
        ),
    ] {
        let text = refusal(&[word]);
        assert!(text.contains(expected), "{word}: {text}");
    }
}

#[test]
fn flags_of_missing_features_are_refused() {
    let text = refusal(&["--wal-dir=w"]);
    assert!(text.contains("not supported yet"), "{text}");
}

#[test]
fn the_example_of_three_members_in_the_help_can_be_served() {
    let help = help::text();
    let (_, example) = help.split_once("serve --name a ").unwrap();
    let (example, _) = example.split_once("\n\n").unwrap();
    let line = format!("--name a {example}").replace('\\', " ");
    let config = config(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(config.cluster.founders.len(), 3);
    assert!(
        config.cluster.cannot_begin.is_none(),
        "{:?}",
        config.cluster.cannot_begin
    );
}

#[test]
fn clients_and_members_need_a_port_each() {
    let client = |url: &str| format!("--listen-client-urls={url}");
    let peer = |url: &str| format!("--listen-peer-urls={url}");
    let advertised = "--advertise-client-urls=http://localhost:2379";
    for (one, other, refused) in [
        ("http://localhost:2380", "http://localhost:2380", true),
        ("http://0.0.0.0:2380", "http://10.0.0.1:2380", true),
        ("http://10.0.0.2:2380", "http://10.0.0.1:2380", false),
        ("http://localhost:0", "http://localhost:0", false),
    ] {
        let words = [&client(one)[..], &peer(other), advertised];
        let error = resolve_with(&words, &[], None)
            .err()
            .map(|error| error.to_string());
        assert_eq!(error.is_some(), refused, "{one} and {other}: {error:?}");
        assert!(error.is_none_or(|error| error.contains("a port each")));
    }
    // A member that is alone opens no peer port, so its default does not collide.
    config(&[&client("http://localhost:2380"), advertised]);
}

#[test]
fn a_cluster_that_cannot_begin_is_judged_when_it_is_known_to_be_new() {
    for (word, part) in [
        (
            "--initial-cluster-state=existing",
            "those that run included",
        ),
        (
            "--initial-cluster=b=http://localhost:2380",
            "couldn't find local name \"default\" in the initial cluster configuration",
        ),
        (
            "--initial-cluster=default=http://localhost:1",
            "--initial-cluster has default=http://localhost:1 but missing from \
             --initial-advertise-peer-urls=http://localhost:2380",
        ),
        (
            "--initial-cluster=default=http://localhost:2380,b=http://localhost:2380",
            "has duplicate url http://localhost:2380",
        ),
        (
            "--initial-cluster=default=http://localhost:2380,b=unix:///run/b",
            "meet over TCP",
        ),
        (
            "--initial-cluster=default=http://localhost:2380,b=http://b:0",
            "must know the port",
        ),
    ] {
        let text = config(&[word]).cluster.cannot_begin.unwrap().to_string();
        assert!(text.contains(part), "{word}: {text}");
    }
    let fits = config(&["--initial-cluster=default=http://localhost:2380"]);
    assert!(fits.cluster.cannot_begin.is_none());
    let advertised = "--initial-advertise-peer-urls=http://localhost:2380,http://localhost:1";
    let words = [
        "--initial-cluster=default=http://localhost:2380",
        advertised,
    ];
    let text = config(&words).cluster.cannot_begin.unwrap().to_string();
    let part = "--initial-advertise-peer-urls has http://localhost:1 but missing from \
                --initial-cluster=default=http://localhost:2380";
    assert!(text.contains(part), "{text}");
}

#[test]
fn a_cluster_of_several_is_what_its_list_says() {
    let config = config(&[
        "--name=b",
        "--initial-advertise-peer-urls=http://h:3,http://h:2",
        "--initial-cluster=c=http://h:4,b=http://h:3,a=http://h:1,b=http://h:2,",
        "--heartbeat-interval=50",
    ]);
    assert!(
        config.cluster.cannot_begin.is_none(),
        "{:?}",
        config.cluster.cannot_begin
    );
    let founders: Vec<(&str, Vec<&str>)> = config
        .cluster
        .founders
        .iter()
        .map(|founder| {
            let urls = founder.peer_urls.iter().map(Url::as_str);
            (founder.name.as_str(), urls.collect())
        })
        .collect();
    assert_eq!(
        founders,
        [
            ("a", vec!["http://h:1"]),
            ("b", vec!["http://h:2", "http://h:3"]),
            ("c", vec!["http://h:4"]),
        ]
    );
    assert_eq!(
        config.node.replica.heartbeat_interval,
        Duration::from_millis(50)
    );
}

#[test]
fn a_member_that_joins_need_not_advertise_what_the_cluster_knows() {
    let config = config(&[
        "--name=b",
        "--initial-cluster=a=http://h:1,b=http://h:2",
        "--initial-cluster-state=existing",
    ]);
    assert!(config.cluster.joins);
    assert!(
        config.cluster.cannot_begin.is_none(),
        "{:?}",
        config.cluster.cannot_begin
    );
    assert!(refusal(&["--max-learners=0"]).contains("at least 1"));
}

#[test]
fn a_lone_member_warns_of_election_times_without_effect() {
    let config = config(&["--heartbeat-interval=50", "--election-timeout=1000"]);
    let warnings = &config.warnings_alone;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("no heartbeats"));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn etcd_s_defaults_of_the_same_flags_pass() {
    let config = config(&[
        "--cert-file=",
        "--auto-tls=false",
        "--auth-token=simple",
        "--enable-pprof=false",
        "--tls-min-version=TLS1.2",
        "--discovery-dial-timeout=2000ms",
    ]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn impossible_values_are_refused_with_a_remedy() {
    let table: &[(&[&str], &str)] = &[
        (&["--heartbeat-interval=0"], "must be >0"),
        (&["--heartbeat-interval=300"], "5 times"),
        (&["--election-timeout=60000"], "less than 50000ms"),
        (&["--election-timeout=x"], "whole number"),
        (&["--max-txn-ops=-1"], "whole number"),
        (&["--grpc-keepalive-timeout=5"], "duration"),
        (&["--pre-vote=maybe"], "true or false"),
        (
            &["--listen-client-urls=http://localhost:1"],
            "--advertise-client-urls is required",
        ),
        (&["--listen-client-urls="], "at least one URL"),
        (&["--initial-cluster-state=old"], "new or existing"),
        (&["--initial-cluster=default"], "name=http"),
        (
            &[
                "--auto-compaction-mode=hourly",
                "--auto-compaction-retention=1",
            ],
            "periodic",
        ),
        (
            &[
                "--auto-compaction-mode=revision",
                "--auto-compaction-retention=1h",
            ],
            "revisions",
        ),
        (
            &["--auto-compaction-mode=foo"],
            "write periodic or revision",
        ),
        (&["--auto-compaction-mode="], "write periodic or revision"),
        (
            &["--unsafe-no-fsync", "--durability=durable"],
            "--unsafe-no-fsync and --durability=durable",
        ),
        (&["--log-level=loud"], "write debug"),
        (&["--log-format=xml"], "json or console"),
        (&["--metrics=all"], "basic or extensive"),
        (&["--durability=maybe"], "durable, majority-memory or os"),
        (
            &["--unsafe-no-fsync", "--durability=majority-memory"],
            "--unsafe-no-fsync and --durability=majority-memory",
        ),
        (
            &["--durability=majority-memory", "--flush-entries-max=0"],
            "1 or more",
        ),
        (
            &["--durability=majority-memory", "--flush-entries-max=-1"],
            "flush-entries-max",
        ),
        (
            &["--durability=majority-memory", "--flush-interval=0s"],
            "at most 60s",
        ),
        (
            &["--durability=majority-memory", "--flush-interval=2h"],
            "at most 60s",
        ),
        (
            &["--flush-interval=10ms"],
            "--flush-interval goes with --durability=majority-memory",
        ),
        (
            &["--durability=os", "--flush-entries-max=10"],
            "--flush-entries-max goes with --durability=majority-memory",
        ),
        (&["--accept-lost-tail=perhaps"], "accept-lost-tail"),
        (&["--read-mode=local"], "read-index or lease"),
        (&["--segment-bytes=65537"], "power of two"),
        (&["--segment-bytes=1000"], "128 MiB"),
        (&["--segment-bytes=268435456"], "128 MiB"),
        (&["--quota-backend-bytes=10x"], "whole number of 64 bits"),
        (&["--memory-bytes-max=5"], "at least 1048576"),
    ];
    for (words, remedy) in table {
        let text = refusal(words);
        assert!(text.contains(remedy), "{words:?}: {text}");
    }
}

#[test]
fn retention_is_hours_durations_or_revisions() {
    let kept = |mode: &str, retention: &str| {
        config(&[
            "--auto-compaction-mode",
            mode,
            "--auto-compaction-retention",
            retention,
        ])
        .auto_compaction
    };
    assert_eq!(
        kept("periodic", "2"),
        Some(AutoCompaction::Periodic(Duration::from_secs(7200)))
    );
    assert_eq!(
        kept("periodic", "5m"),
        Some(AutoCompaction::Periodic(Duration::from_secs(300)))
    );
    assert_eq!(
        kept("revision", "1000"),
        Some(AutoCompaction::Revision(1000))
    );
    assert_eq!(kept("revision", "0"), None);
    assert_eq!(kept("periodic", "0"), None);
}

#[test]
fn a_negative_quota_is_no_limit() {
    assert_eq!(
        config(&["--quota-backend-bytes=-1"])
            .node
            .replica
            .machine
            .quota_bytes,
        None
    );
    assert_eq!(
        config(&["--quota-backend-bytes", "0"])
            .node
            .replica
            .machine
            .quota_bytes,
        Some(2 << 30)
    );
}

#[test]
fn majority_memory_flushes_by_entries_and_by_time() {
    let majority_memory = |words: &[&str]| {
        let mut all = vec!["--durability=majority-memory"];
        all.extend(words);
        let config = config(&all);
        assert!(config.warnings.iter().any(|it| it.contains("loses power")));
        config.durability
    };
    let window = |entries_max, milliseconds| Durability::MajorityMemory {
        entries_max,
        interval: Duration::from_millis(milliseconds),
    };
    assert_eq!(majority_memory(&[]), window(1024, 100));
    assert_eq!(
        majority_memory(&["--flush-entries-max=7", "--flush-interval=2s"]),
        window(7, 2000)
    );
}

#[test]
fn weaker_durability_is_named_in_a_warning() {
    for words in [
        &["--durability=os"][..],
        &["--unsafe-no-fsync"],
        &["--unsafe-no-fsync", "--durability=os"],
        &["--unsafe-no-fsync=false", "--durability=os"],
    ] {
        let config = config(words);
        assert_eq!(config.durability, Durability::Os);
        assert!(
            config
                .warnings
                .iter()
                .any(|text| text.contains("power cut")),
            "{words:?}"
        );
    }
}

#[test]
fn reads_ask_a_majority_unless_a_lease_is_asked_for() {
    assert_eq!(config(&[]).node.replica.read_mode, ReadMode::ReadIndex);
    assert_eq!(
        config(&["--read-mode=lease"]).node.replica.read_mode,
        ReadMode::Lease
    );
}

#[test]
fn an_open_address_is_worth_a_warning() {
    let open = [
        "--listen-client-urls=http://0.0.0.0:1",
        "--advertise-client-urls=http://a:1",
    ];
    assert!(config(&open).warnings[0].contains("without TLS"));
}

#[test]
fn help_and_version_need_no_valid_rest() {
    assert!(matches!(
        resolve_with(&["--help"], &[], None),
        Ok(Request::Help(_))
    ));
    assert!(matches!(
        resolve_with(&["-version"], &[], None),
        Ok(Request::Version)
    ));
}

fn warnings_of(words: &[&str]) -> String {
    config(words).warnings.join("\n")
}

#[test]
fn flags_that_etcd_will_drop_are_reported_in_its_words() {
    let warnings = warnings_of(&["--max-snapshots=5", "--v2-deprecation=gone"]);
    for text in [
        "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8",
        "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is \
         enforced, ignoring user input",
    ] {
        assert!(warnings.contains(text), "{warnings}");
    }
    assert!(!warnings_of(&[]).contains("deprecat"));
}

#[test]
fn a_start_that_should_defragment_says_that_it_does_not() {
    let flag = "--bootstrap-defrag-threshold-megabytes=1000";
    let warnings = warnings_of(&[flag]);
    assert!(warnings.contains("Skipping defragmentation"), "{warnings}");
}

#[test]
fn an_unknown_level_of_v2_deprecation_is_refused_in_etcd_s_words() {
    let refusal = refused(&["--v2-deprecation=not-yet"]);
    let text = "invalid value \"not-yet\" for flag -v2-deprecation: invalid value \"not-yet\"";
    assert!(refusal.contains(text), "{refusal}");
}

#[test]
fn requests_are_printed_if_the_variable_of_go_asks_for_it() {
    for (value, prints) in [
        ("http2debug=2", true),
        ("gctrace=1,http2debug=2", true),
        ("http2debug=1", false),
    ] {
        match resolve_with(&[], &[("GODEBUG", value)], None) {
            Ok(Request::Serve(config)) => assert_eq!(config.http.prints_requests, prints),
            other => panic!("expected a configuration, got {other:?}"),
        }
    }
}

#[test]
fn the_registry_is_read_from_all_of_its_flags() {
    let config = config(&[
        "--discovery-token=blue",
        "--discovery-endpoints=10.0.0.1:1, https://h:2",
        "--discovery-keepalive-time=2s",
        "--discovery-request-timeout=7s",
        "--discovery-user=root:pass",
    ]);
    assert_eq!(config.cluster.token, "blue");
    let registry = config.cluster.discovery.registry.unwrap();
    assert_eq!(registry.endpoints, ["http://10.0.0.1:1", "https://h:2"]);
    assert_eq!(registry.keepalive_interval, Duration::from_secs(10));
    assert_eq!(registry.request_timeout, Duration::from_secs(7));
    let login = registry.login.unwrap();
    assert_eq!((&*login.user, &*login.password), ("root", "pass"));
    assert_eq!(format!("{login:?}"), "Login");
}

#[test]
fn an_endpoint_of_the_registry_without_a_scheme_takes_tls_if_a_flag_of_tls_is_given() {
    for (flag, expected) in [
        ("--discovery-insecure-transport=true", "http://h:1"),
        ("--discovery-insecure-transport=false", "https://h:1"),
        ("--discovery-insecure-skip-tls-verify", "https://h:1"),
        ("--discovery-cacert=/ca.pem", "https://h:1"),
    ] {
        let words = ["--discovery-token=t", "--discovery-endpoints=h:1", flag];
        let registry = config(&words).cluster.discovery.registry.unwrap();
        assert_eq!(registry.endpoints, [expected], "{flag}");
    }
}

#[test]
fn flags_of_the_registry_that_contradict_others_are_refused() {
    let (token, endpoints) = ("--discovery-token=t", "--discovery-endpoints=h:1");
    let both = "both --discovery-token and --discovery-endpoints must be set";
    let table: &[(&[&str], &str)] = &[
        (&[endpoints], both),
        (&[token], both),
        (
            &[token, "--discovery-endpoints=h:1,,"],
            "must not contain empty",
        ),
        (
            &[token, "--discovery-endpoints=unix:///s"],
            "write http://host:port",
        ),
        (
            &[token, endpoints, "--initial-cluster=default=http://h:2"],
            "both say",
        ),
        (&[token, endpoints, "--discovery-srv=x.org"], "both say"),
        (
            &[token, endpoints, "--discovery-user=u"],
            "--discovery-password",
        ),
        (
            &[token, endpoints, "--discovery-password=p"],
            "--discovery-user",
        ),
        (&[token, endpoints, "--discovery-cert=c"], "belong together"),
    ];
    for (words, expected) in table {
        let text = refusal(words);
        assert!(text.contains(expected), "{words:?}: {text}");
    }
    let joins = [token, endpoints, "--initial-cluster-state=existing"];
    let cannot = config(&joins).cluster.cannot_begin.unwrap().to_string();
    assert!(cannot.contains("--discovery-token"), "{cannot}");
}

#[test]
fn a_ping_limit_of_zero_is_the_library_s_limit() {
    let clients = config(&["--grpc-keepalive-min-time=0"]).clients;
    assert_eq!(clients.ping_interval_min, Duration::from_secs(300));
}

#[test]
fn a_member_connects_from_the_first_announced_number_if_the_gate_is_open() {
    const GATE: &str = "--feature-gates=SetMemberLocalAddr=true";
    let urls = "http://localhost:2380,http://127.0.0.1:2381,http://10.1.2.3:2382";
    let advertised = format!("--initial-advertise-peer-urls={urls}");
    let listed = format!(
        "--initial-cluster=default={}",
        urls.replace(',', ",default=")
    );
    let local = |words: &[&str]| config(words).addresses.local();
    let expected = Some("10.1.2.3".parse().unwrap());
    assert_eq!(local(&[GATE, &advertised, &listed]), expected);
    assert_eq!(local(&[&advertised, &listed]), None);
    assert_eq!(local(&[GATE]), None);
    let warnings = warnings_of(&[GATE]);
    assert!(
        warnings.contains("unable to set a member local address"),
        "{warnings}"
    );
}

#[test]
fn tracing_is_read_when_it_is_enabled_and_warned_about_when_not() {
    let off = config(&["--distributed-tracing-sampling-rate=5"]);
    assert_eq!(off.clients.traces, None);
    assert!(
        off.warnings[0].contains("--enable-distributed-tracing"),
        "{:?}",
        off.warnings
    );
    let on = config(&[
        "--enable-distributed-tracing",
        "--distributed-tracing-instance-id=a",
    ]);
    let traces = on.clients.traces.unwrap();
    let texts = (&*traces.address, &*traces.service, &*traces.instance);
    assert_eq!(texts, ("localhost:4317", "etcd", "a"));
    for rate in ["-1", "1000001"] {
        let rate = format!("--distributed-tracing-sampling-rate={rate}");
        let text = refusal(&["--enable-distributed-tracing", &rate]);
        assert!(text.contains("0 to 1000000"), "{text}");
    }
}
