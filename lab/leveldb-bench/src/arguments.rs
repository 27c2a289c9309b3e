//! The command line.

use std::path::PathBuf;
use std::time::Duration;

/// When a run ends.
#[derive(Clone, Copy)]
pub enum Until {
    Time(Duration),
    Operations(u64),
}

#[derive(Clone)]
pub struct Arguments {
    pub verb: String,
    pub benchmarks: Vec<String>,
    pub threads: Vec<usize>,
    pub until: Until,
    pub keys: u64,
    pub value_bytes: usize,
    pub directory: PathBuf,
    pub database: Option<PathBuf>,
    pub leveldb: String,
    pub seed: u64,
    pub preload: Option<PathBuf>,
    pub rounds: usize,
}

const BENCHMARKS: [&str; 2] = ["fillrandom", "readrandom"];

pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        verb: words.next().ok_or("say what to do")?,
        benchmarks: BENCHMARKS.map(str::to_owned).to_vec(),
        threads: vec![1, 8, 64, 256],
        until: Until::Time(Duration::from_secs(5)),
        keys: 1_000_000,
        value_bytes: 100,
        directory: PathBuf::from("/dev/shm"),
        database: None,
        leveldb: "libleveldb.so.1d".to_owned(),
        seed: 1,
        preload: None,
        rounds: 3,
    };
    while let Some(name) = words.next() {
        let value = words.next().ok_or(format!("{name} wants a value"))?;
        set(&mut arguments, &name, value)?;
    }
    check(arguments)
}

fn set(arguments: &mut Arguments, name: &str, value: String) -> Result<(), String> {
    match name {
        "--benchmark" => arguments.benchmarks = value.split(',').map(str::to_owned).collect(),
        "--threads" => {
            let numbers = value.split(',').map(|number| positive(name, number));
            arguments.threads = numbers.collect::<Result<_, _>>()?;
        }
        "--seconds" => {
            let seconds: f64 = number(name, &value)?;
            let time = Duration::try_from_secs_f64(seconds);
            arguments.until = Until::Time(time.map_err(|why| format!("{name} {value}: {why}"))?);
        }
        "--operations" => arguments.until = Until::Operations(number(name, &value)?),
        "--keys" => arguments.keys = positive(name, &value)? as u64,
        "--value-bytes" => arguments.value_bytes = positive(name, &value)?,
        "--directory" => arguments.directory = value.into(),
        "--database" => arguments.database = Some(value.into()),
        "--leveldb" => arguments.leveldb = value,
        "--seed" => arguments.seed = number(name, &value)?,
        "--preload" => arguments.preload = Some(value.into()),
        "--rounds" => arguments.rounds = positive(name, &value)?,
        _ => return Err(format!("there is no option {name}")),
    }
    Ok(())
}

fn number<N: std::str::FromStr>(name: &str, value: &str) -> Result<N, String> {
    value
        .parse()
        .map_err(|_| format!("{name} wants a number, not `{value}`"))
}

fn positive(name: &str, value: &str) -> Result<usize, String> {
    match number(name, value)? {
        0 => Err(format!("{name} must be 1 at least")),
        number => Ok(number),
    }
}

fn check(arguments: Arguments) -> Result<Arguments, String> {
    for benchmark in &arguments.benchmarks {
        if !BENCHMARKS.contains(&benchmark.as_str()) {
            return Err(format!("there is no benchmark {benchmark}"));
        }
    }
    if arguments.value_bytes > crate::data::BYTES {
        return Err(format!(
            "--value-bytes {} is more than all random data, {}",
            arguments.value_bytes,
            crate::data::BYTES
        ));
    }
    let single = arguments.verb == "run";
    if single && (arguments.threads.len() != 1 || arguments.benchmarks.len() != 1) {
        return Err("run wants one --benchmark and one number of --threads".to_owned());
    }
    Ok(arguments)
}
