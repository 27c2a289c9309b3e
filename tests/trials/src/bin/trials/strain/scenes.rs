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
    let scene = |name, members, asked, verb, words: &str| Scene {
        name,
        members,
        asked,
        verb,
        words: words.split(' ').map(str::to_owned).collect(),
    };
    let one = |name, verb, words: &str| scene(name, 1, Asked::Leader, verb, words);
    let three = |name, words: &str| scene(name, 3, Asked::Leader, "large", words);
    let leases = |words: &str| format!("{words} {seconds}");
    let many = "20,000 leases of 6 s, one node";
    let followed = "5,000 leases of 15 s at a follower of three";
    let watches = "200,000 watches asked for on one stream";
    vec![
        one(many, "leases", &leases("20000 6")),
        scene(followed, 3, Asked::Follower, "leases", &leases("5000 15")),
        one(watches, "watches", "200000"),
        one("range of 400 MiB, one node", "large", "range 8"),
        one(
            "transaction that reads 1,200 MiB, one node",
            "large",
            "transaction 8",
        ),
        three("transaction that reads 1,200 MiB, three", "transaction 8"),
        one("deletion of 400,000 keys, one node", "large", "deletion 8"),
        three("deletion of 400,000 keys, three", "deletion 8"),
    ]
}
