//! The files of `deploy/`: what they say fits together, and this server starts with it.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

mod container;
mod expressions;
mod kubernetes;
mod manifest;
mod monitoring;
mod prometheus;
mod running;
mod scraped;
mod unit;

use std::collections::BTreeMap;

use manifest::{merged, one, text, texts};
use running::{Folder, Substitutions, three_members};

#[test]
fn composed_members_form_a_cluster_and_pass_their_health_check() {
    let file = one("compose/docker-compose.yml");
    let services = &file["services"];
    let settings = ["a", "b", "c"].map(|name| -> BTreeMap<String, String> {
        let environment = merged(&services[name]["environment"]);
        environment
            .into_iter()
            .map(|(key, value)| (key, text(&value)))
            .collect()
    });
    let folder = Folder::new();
    let hosts = ["a", "b", "c"].map(|host| format!("//{host}"));
    let members = three_members(&folder, &settings, &hosts, &Substitutions::default());
    for (name, member) in ["a", "b", "c"].iter().zip(&members) {
        let service = merged(&services[*name]);
        let check = texts(&service["healthcheck"]["test"]);
        assert_eq!(check[..2], ["CMD", "/usr/local/bin/inkstone"]);
        let words: Vec<&str> = check[2..].iter().map(String::as_str).collect();
        let endpoint = format!("http://{}", member.client);
        folder.printed(
            "inkstone",
            &[&words[..], &["--endpoint", &endpoint]].concat(),
        );
    }
}

#[test]
fn published_ports_and_volumes_are_one_each() {
    let file = one("compose/docker-compose.yml");
    let services = &file["services"];
    let mut ports = ["a", "b", "c"].map(|name| texts(&services[name]["ports"]).remove(0));
    ports.sort();
    let expected = [
        "127.0.0.1:22379:2379",
        "127.0.0.1:2379:2379",
        "127.0.0.1:32379:2379",
    ];
    assert_eq!(ports, expected);
    for name in ["a", "b", "c"] {
        let volume = format!("{name}:/var/lib/inkstone");
        assert_eq!(texts(&services[name]["volumes"]), [volume]);
        assert!(!file["volumes"][name].is_badvalue());
    }
}
