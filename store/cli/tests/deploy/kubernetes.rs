//! The StatefulSet and kubeadm's static pod.

use std::collections::BTreeMap;
use std::process::Command;

use harness::{page, ports};
use yaml_rust2::Yaml;

use crate::manifest::{all, one, text, texts};
use crate::running::{Certificates, Folder, Running, Substitutions, three_members, wait_for_page};

const FILE: &str = "kubernetes/statefulset.yaml";
const PROBES: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];

fn of_kind(kind: &str, name: &str) -> Yaml {
    let mut all = all(FILE).into_iter();
    let found = all.find(|it| {
        it["kind"].as_str() == Some(kind) && it["metadata"]["name"].as_str() == Some(name)
    });
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn pod() -> Yaml {
    of_kind("StatefulSet", "inkstone")["spec"]["template"].clone()
}

/// The variables of the member with this number.
fn variables(number: usize) -> BTreeMap<String, String> {
    let pod = pod();
    let variables = pod["spec"]["containers"][0]["env"].as_vec().unwrap();
    let name = format!("inkstone-{number}");
    let given = variables.iter().filter(|it| !it["value"].is_badvalue());
    given
        .map(|it| {
            let value = text(&it["value"]).replace("$(POD_NAME)", &name);
            (text(&it["name"]), value)
        })
        .collect()
}

/// The members of the StatefulSet, each with its own variables.
pub struct StatefulCluster {
    folder: Folder,
    certificates: Certificates,
    members: Vec<Running>,
}

impl StatefulCluster {
    /// Starts all members and waits until they are ready.
    pub fn start() -> StatefulCluster {
        let folder = Folder::new();
        let certificates = Certificates::new(&folder, ["tls.crt", "tls.key"]);
        let place = certificates.path().to_str().unwrap();
        let files = Substitutions::default()
            .with("/etc/inkstone/server", place)
            .with("/etc/inkstone/peer", place);
        let hosts = [0, 1, 2].map(|number| format!("inkstone-{number}.inkstone.inkstone.svc"));
        let settings = [0, 1, 2].map(variables);
        let members = three_members(&folder, &settings, &hosts, &files);
        StatefulCluster {
            folder,
            certificates,
            members,
        }
    }

    /// A client's program with the flags that lead it to one of the members.
    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join(program));
        let endpoint = format!("--endpoints=https://{}", self.members[1].client);
        command.args(self.certificates.flags()).arg(endpoint);
        command.args(words);
        command
    }

    /// Runs `etcdctl`; returns its output.
    pub fn etcdctl(&self, words: &[&str]) -> String {
        let output = self.command("etcdctl", words).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Address and metrics of each member.
    pub fn metrics(&self) -> impl Iterator<Item = (String, String)> {
        self.members.iter().map(|member| {
            let page = page::get(&member.metrics, "/metrics").unwrap();
            assert_eq!(page.status, 200);
            (member.metrics.clone(), page.body)
        })
    }
}

#[test]
fn members_of_the_stateful_set_form_a_cluster_and_pass_their_probes() {
    let mut cluster = StatefulCluster::start();
    let container = &pod()["spec"]["containers"][0];
    for member in &mut cluster.members {
        for probe in PROBES {
            let request = &container[probe]["httpGet"];
            assert_eq!(text(&request["port"]), "metrics");
            member.wait_for_page(&text(&request["path"]));
        }
    }
    assert_eq!(cluster.etcdctl(&["put", "k", "v"]), "OK\n");
}

#[test]
fn certificates_have_the_names_and_secrets_that_members_use() {
    let pod = pod();
    for (volume, host) in [
        ("server", "ETCD_ADVERTISE_CLIENT_URLS"),
        ("peer", "ETCD_INITIAL_ADVERTISE_PEER_URLS"),
    ] {
        let certificate = of_kind("Certificate", &format!("inkstone-{volume}"));
        let names = texts(&certificate["spec"]["dnsNames"]);
        for number in 0..3 {
            let url = &variables(number)[host];
            let host = url.strip_prefix("https://").unwrap();
            let host = host.rsplit_once(':').unwrap().0.to_owned();
            assert!(names.contains(&host), "{host} in {names:?}");
        }
        let volumes = pod["spec"]["volumes"].as_vec().unwrap();
        let mounted = volumes
            .iter()
            .find(|it| it["name"].as_str() == Some(volume));
        assert_eq!(
            mounted.unwrap()["secret"]["secretName"],
            certificate["spec"]["secretName"]
        );
    }
}

#[test]
fn every_selector_fits_the_labels_of_the_pods() {
    let set = of_kind("StatefulSet", "inkstone");
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(set["spec"]["serviceName"].as_str(), Some("inkstone"));
    for service in ["inkstone", "inkstone-client"] {
        assert_eq!(&of_kind("Service", service)["spec"]["selector"], labels);
    }
    let budget = of_kind("PodDisruptionBudget", "inkstone");
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(budget["spec"]["maxUnavailable"].as_i64(), Some(1));
    let founders = variables(0)["ETCD_INITIAL_CLUSTER"].split(',').count();
    assert_eq!(
        set["spec"]["replicas"].as_i64(),
        i64::try_from(founders).ok()
    );
}

#[test]
fn the_flags_of_kubeadm_s_static_pod_start_etcd() {
    let pod = one("kubernetes/kubeadm-etcd.yaml");
    let container = &pod["spec"]["containers"][0];
    let words = texts(&container["command"]);
    assert_eq!(words[0], "etcd");
    let folder = Folder::new();
    let certificates = Certificates::new(&folder, ["server.crt", "server.key"]);
    for (from, to) in [("server.crt", "peer.crt"), ("server.key", "peer.key")] {
        std::fs::copy(certificates.path().join(from), certificates.path().join(to)).unwrap();
    }
    let [local, client, peer, metrics] = std::array::from_fn(|_| ports::free_address().unwrap());
    let own = Substitutions::default()
        .with("127.0.0.1:2379", &local)
        .with("127.0.0.1:2381", &metrics)
        .with("10.0.0.1:2379", &client)
        .with("10.0.0.1:2380", peer)
        .with(
            "/etc/kubernetes/pki/etcd",
            certificates.path().to_str().unwrap(),
        )
        .with(
            "/var/lib/etcd",
            folder.path().join("data").to_str().unwrap(),
        );
    let flags: Vec<String> = words[1..].iter().map(|word| own.apply(word)).collect();
    let mut process = folder.start("cp1", &flags, &BTreeMap::new());
    for probe in PROBES {
        let request = &container[probe]["httpGet"];
        assert_eq!(text(&request["port"]), text(&container["ports"][0]["name"]));
        wait_for_page(&mut process, &metrics, &text(&request["path"]));
    }
    let tls = certificates.flags();
    for address in [local, client] {
        let endpoint = format!("--endpoints=https://{address}");
        let mut words: Vec<&str> = tls.iter().map(String::as_str).collect();
        words.extend([&*endpoint, "put", "k", "v"]);
        assert_eq!(folder.printed("etcdctl", &words), "OK\n");
    }
    process.stop().unwrap();
}
