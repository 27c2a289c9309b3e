//! The commands of a page.
//!
//! A block of commands begins with ```` ```sh ```` and is run at the desk, in one shell for all
//! of these blocks. One that begins with ```` ```sh on a b ```` is run on the machines `a` and `b`
//! in turn, and ```` ```sh on each ```` on `a`, `b` and `c`. The text above it says so,
//! too, because a reader does not see these words. Other blocks are not run.

/// Machines of a cluster of three.
const EACH: [&str; 3] = ["a", "b", "c"];

/// Commands of one block at one place.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the block on its page, from 1.
    pub number: usize,
    /// `None` at the desk.
    pub machine: Option<String>,
    pub commands: String,
}

/// The blocks of a page in the order of their execution.
pub fn parse(page: &str) -> Vec<Block> {
    let (mut blocks, mut number) = (Vec::new(), 0);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(words) = line.strip_prefix("```") else {
            continue;
        };
        let inside = lines.by_ref().take_while(|line| *line != "```");
        let commands: String = inside.map(|line| format!("{line}\n")).collect();
        let Some(place) = words.strip_prefix("sh") else {
            continue;
        };
        number += 1;
        let machines: Vec<Option<&str>> = match place.strip_prefix(" on ") {
            None => vec![None],
            Some("each") => EACH.map(Some).to_vec(),
            Some(machines) => machines.split(' ').map(Some).collect(),
        };
        blocks.extend(machines.into_iter().map(|machine| Block {
            number,
            machine: machine.map(str::to_owned),
            commands: commands.clone(),
        }));
    }
    blocks
}

#[test]
fn blocks_have_their_place_and_others_are_left_out() {
    let page =
        "a\n```sh\none\ntwo\n```\n```\nno\n```\n```yaml\nno: no\n```\n```sh on d\nthree\n```\n";
    let block = |number, machine: Option<&str>, commands: &str| Block {
        number,
        machine: machine.map(str::to_owned),
        commands: commands.to_owned(),
    };
    let expected = [block(1, None, "one\ntwo\n"), block(2, Some("d"), "three\n")];
    assert_eq!(parse(page), expected);
    for (words, expected) in [("each", "a b c"), ("c d", "c d")] {
        let blocks = parse(&format!("```sh on {words}\nx\n```\n"));
        let machines: Vec<_> = blocks.iter().filter_map(|it| it.machine.clone()).collect();
        assert_eq!(machines.join(" "), expected);
    }
}
