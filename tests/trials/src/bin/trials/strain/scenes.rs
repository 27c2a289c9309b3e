//! Scenes: the requests, the number of members, and the member that gets them.

/// Which member the client is connected to.
pub enum Asked {
    Leader,
    Follower,
}

pub struct Scene {
    pub name: &'static str,
    pub members: usize,
    pub asked: Asked,
    /// For the Go program: the verb, and what follows the endpoint.
    pub verb: &'static str,
    pub words: Vec<String>,
}

pub fn all(seconds: u64) -> Vec<Scene> {
    let one = |name, verb, words: &[String]| scene(name, 1, Asked::Leader, verb, words);
    let three = |name, verb, words: &[String]| scene(name, 3, Asked::Leader, verb, words);
    let leases = |count: u64, ttl: u64| [count, ttl, seconds].map(|number| number.to_string());
    let large = |kind: &str| [kind.to_owned(), "8".to_owned()];
    vec![
        one(
            "20,000 leases of 6 s, one node",
            "leases",
            &leases(20_000, 6),
        ),
        scene(
            "5,000 leases of 15 s at a follower of three",
            3,
            Asked::Follower,
            "leases",
            &leases(5_000, 15),
        ),
        one(
            "200,000 watches asked for on one stream",
            "watches",
            &["200000".to_owned()],
        ),
        one("range of 400 MiB, one node", "large", &large("range")),
        one(
            "transaction that reads 1,200 MiB, one node",
            "large",
            &large("transaction"),
        ),
        three(
            "transaction that reads 1,200 MiB, three",
            "large",
            &large("transaction"),
        ),
        one(
            "deletion of 400,000 keys, one node",
            "large",
            &large("deletion"),
        ),
        three(
            "deletion of 400,000 keys, three",
            "large",
            &large("deletion"),
        ),
    ]
}

fn scene(
    name: &'static str,
    members: usize,
    asked: Asked,
    verb: &'static str,
    words: &[String],
) -> Scene {
    Scene {
        name,
        members,
        asked,
        verb,
        words: words.to_vec(),
    }
}
