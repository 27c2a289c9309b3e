//! Parser of workload files, with errors that name the place and the remedy.

use std::path::Path;

use super::{Arrival, Distribution, KeyKind, LIMIT_MIN, Mix, Workload};

/// Error for a workload that cannot be used; the text names the place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Mistake {
    /// Name of the file or of the text.
    pub place: String,
    /// The mistake and its remedy.
    pub what: String,
}

/// Greatest number of clients; more are taken for a typing error.
const CLIENTS_MAX: u32 = 100_000;
/// Greatest number of rounds; more are taken for a typing error.
const ROUNDS_MAX: u32 = 10_000;
/// Greatest distance of the sum of the shares from 1, for rounded shares.
const SHARES_TOLERANCE: f64 = 1e-6;

/// Reads a workload from a file.
pub fn load(path: &Path) -> Result<Workload, Mistake> {
    let place = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Mistake {
        place: place.clone(),
        what: format!("cannot read the workload: {error}"),
    })?;
    parse(&place, &text)
}

/// Parses a workload; errors call the text `place`.
pub fn parse(place: &str, text: &str) -> Result<Workload, Mistake> {
    let mistake = |what: String| Mistake {
        place: place.to_owned(),
        what,
    };
    let workload: Workload =
        toml::from_str(text).map_err(|error| mistake(error.to_string().trim_end().to_owned()))?;
    workload.check().map_err(mistake)?;
    Ok(workload)
}

impl Workload {
    /// Refuses workloads that no target can run; the error names the field.
    pub fn check(&self) -> Result<(), String> {
        self.check_load()?;
        self.check_rounds()?;
        self.check_mix()?;
        self.check_inserts()?;
        self.check_memory()?;
        self.check_clients()?;
        self.check_times()
    }

    fn check_load(&self) -> Result<(), String> {
        let load = &self.load;
        ensure(load.keys > 0, || {
            "load.keys is 0: write how many keys there are, at least 1".into()
        })?;
        let (size, needed) = (load.key.size, load.key.kind.bytes_min(load.keys));
        ensure(size == 0 || size >= needed, || {
            format!(
                "load.key.size = {size}: the last of {} keys needs {needed} bytes; write 0 for as \
                 many as needed",
                load.keys
            )
        })?;
        let left = load.value.compressible;
        ensure(left > 0.0 && left <= 1.0, || {
            format!(
                "load.value.compressible = {left}: write what compression leaves, above 0 and up \
                 to 1"
            )
        })
    }

    fn check_rounds(&self) -> Result<(), String> {
        let (rounds, preload) = (self.load.rounds, self.load.preload);
        ensure(rounds <= ROUNDS_MAX, || {
            format!("load.rounds = {rounds}: at most {ROUNDS_MAX}; use fewer rounds of more keys")
        })?;
        ensure(rounds == 0 || preload, || {
            format!("load.rounds = {rounds} overwrites preloaded keys: write load.preload = true")
        })?;
        ensure(!self.load.compact || preload, || {
            "load.compact = true puts preloaded keys in order: write load.preload = true".into()
        })
    }

    fn check_mix(&self) -> Result<(), String> {
        let mix = &self.mix;
        let shares = [
            ("get", mix.get),
            ("put", mix.put),
            ("insert", mix.insert),
            ("read_modify_write", mix.read_modify_write),
            ("range.share", mix.range.share),
        ];
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let all: f64 = shares.iter().map(|(_, share)| share).sum();
        let is_whole = (all - 1.0).abs() <= SHARES_TOLERANCE;
        let are_shares = shares.iter().all(|(_, share)| is_share(*share));
        ensure(are_shares && is_whole, || {
            let shares = shares.map(|(name, share)| format!("{name} = {share}"));
            format!(
                "mix: {} add up to {all}; they are shares and must add up to 1",
                shares.join(", ")
            )
        })?;
        let (least, most) = (mix.range.limit_min, mix.range.limit);
        ensure(
            least == 0 || (least <= most && !mix.range.from_start),
            || {
                format!(
                    "mix.range.limit_min = {least}: from 1 to mix.range.limit = {most}, of ranges \
                 that begin at drawn keys"
                )
            },
        )?;
        let missing = self.access.missing;
        ensure(is_share(missing), || {
            format!("access.missing = {missing}: a share is from 0 to 1")
        })?;
        ensure(
            mix.writes() > 0.0 || self.load.preload || missing >= 1.0,
            || "load.preload = false, and nothing is put: there is nothing to read".into(),
        )
    }

    fn check_inserts(&self) -> Result<(), String> {
        let Mix { put, insert, .. } = self.mix;
        let is_latest = self.access.distribution == Distribution::Latest;
        ensure(!is_latest || put + insert > 0.0, || {
            "access.distribution = \"latest\" needs writes that it can follow: mix.put and \
             mix.insert are 0"
                .into()
        })?;
        if insert == 0.0 {
            return Ok(());
        }
        ensure(self.load.preload || insert == 1.0, || {
            format!(
                "mix.insert = {insert} beside other operations needs keys for these: write \
                 load.preload = true, or insert = 1.0"
            )
        })?;
        ensure(!is_latest || put == 0.0, || {
            format!(
                "access.distribution = \"latest\" follows either puts or inserts: mix.put = \
                 {put} and mix.insert = {insert}; write 0 for one of them"
            )
        })?;
        let missing = self.access.missing;
        ensure(missing == 0.0, || {
            format!(
                "access.missing = {missing}: inserts would write the missing keys; write 0, or \
                 mix.insert = 0.0"
            )
        })?;
        let is_search = matches!(self.arrival, Arrival::Search { .. });
        ensure(!is_search, || {
            format!(
                "mix.insert = {insert}: a search loads one data set several times, and would \
                 insert the same keys again; write another arrival.mode"
            )
        })
    }

    fn check_memory(&self) -> Result<(), String> {
        let limit = self.memory.limit.unwrap_or(LIMIT_MIN);
        ensure(limit >= LIMIT_MIN, || {
            format!("memory.limit = {limit}: at least {LIMIT_MIN}, for the lab's own memory")
        })
    }

    fn check_clients(&self) -> Result<(), String> {
        let clients = &self.clients;
        if clients.generator.is_some() {
            crate::load::etcd_benchmark::check(self)?;
        }
        ensure(clients.connections > 0, || {
            "clients.connections = 0: write at least 1".into()
        })?;
        ensure(!clients.clients.is_empty(), || {
            "clients.clients is empty: write at least 1 number of clients".into()
        })?;
        clients.clients.iter().try_for_each(|count| {
            ensure((1..=CLIENTS_MAX).contains(count), || {
                format!("clients.clients = {count}: from 1 to {CLIENTS_MAX}")
            })
        })
    }

    fn check_times(&self) -> Result<(), String> {
        let (interval, measure) = (self.time.interval, self.time.measure);
        ensure(interval.as_seconds() >= 0.01 && measure >= interval, || {
            format!(
                "time: measure = {measure} must hold at least one interval = {interval} of 10ms \
                 or more"
            )
        })?;
        match self.arrival {
            Arrival::Open { rate, .. } => ensure(rate > 0.0 && rate <= 1e8, || {
                format!("arrival.rate = {rate}: operations per second, above 0")
            }),
            _ => Ok(()),
        }
    }
}

fn ensure(is_valid: bool, mistake: impl FnOnce() -> String) -> Result<(), String> {
    if is_valid { Ok(()) } else { Err(mistake()) }
}

impl KeyKind {
    /// Length in bytes that the last of `keys` keys needs.
    pub fn bytes_min(self, keys: u64) -> usize {
        let last = keys.saturating_sub(1);
        match self {
            KeyKind::U64BigEndian | KeyKind::U64Random => 8,
            KeyKind::Kubernetes => {
                let deployment = (last / 10).to_string().len();
                let namespace = (last / 500).to_string().len();
                54 + namespace.max(5) + deployment.max(7)
            }
            // Zigzag doubles the number; seven bits in each byte.
            KeyKind::EtcdVarint => {
                let bits = 64 - (last.saturating_mul(2)).leading_zeros();
                (bits.max(1)).div_ceil(7) as usize
            }
            KeyKind::DbBench => 16.max(last.to_string().len()),
            KeyKind::Series => "series-".len() + last.to_string().len(),
            KeyKind::Ycsb => "user".len() + 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        parse("file.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_workload_needs_only_a_name() {
        let workload = parse("file.toml", "name = \"a\"").unwrap();
        assert_eq!(workload.load.keys, 100_000);
        assert_eq!(workload.clients.clients, [1]);
    }

    #[test]
    fn a_written_workload_parses_to_the_same() {
        let text = "name = \"a\"\n[load]\nkeys = 1_000\nkey = { kind = \"dbbench-%016d\", size = 0 }\n\
            value = { length = \"uniform:1..9\", unique = false, compressible = 0.5 }\n\
            [mix]\nget = 0.3\nput = 0.4\nread_modify_write = 0.2\n\
            range = { share = 0.1, limit = 7, limit_min = 2 }\n\
            [access]\ndistribution = \"zipf:0.99\"\nmissing = 0.25\n[clients]\nclients = [1, 2]\n\
            [arrival]\nmode = \"search\"\nobjective = \"p99<5ms\"\n\
            [durability]\nlevel = \"os\"\n[time]\nwarmup = \"2s\"\nmeasure = \"3s\"\n";
        let workload = parse("file.toml", text).unwrap();
        let again = toml::to_string(&workload).unwrap();
        assert_eq!(parse("again", &again).unwrap(), workload);
    }

    #[test]
    fn an_unknown_field_is_named_with_its_line() {
        let error = mistake("name = \"a\"\n[load]\nkyes = 7\n");
        assert!(
            error.starts_with("file.toml: ") && error.contains("line 3"),
            "{error}"
        );
        assert!(error.contains("kyes"), "{error}");
    }

    #[test]
    fn the_error_for_an_invalid_value_says_what_is_valid() {
        let error = mistake("name = \"a\"\n[access]\ndistribution = \"zipfian\"\n");
        assert!(error.contains("zipf:0.99"), "{error}");
        let error = mistake("name = \"a\"\n[mix]\nget = 0.9\nput = 0.9\n");
        assert!(error.contains("add up to 1"), "{error}");
        let error = mistake("name = \"a\"\n[load]\nkeys = 0\n");
        assert!(error.contains("load.keys"), "{error}");
        let error = mistake("name = \"a\"\n[load]\nkey = { kind = \"u64be\", size = 4 }\n");
        assert!(error.contains("needs 8 bytes"), "{error}");
        let error = mistake("name = \"a\"\n[clients]\nclients = []\n");
        assert!(error.contains("clients"), "{error}");
        let error = mistake("name = \"a\"\n[time]\nmeasure = \"1ms\"\n");
        assert!(error.contains("interval"), "{error}");
        let error = mistake("name = \"a\"\n[arrival]\nmode = \"open\"\nrate = 0.0\n");
        assert!(error.contains("arrival.rate"), "{error}");
    }

    #[test]
    fn inserts_and_rounds_are_refused_where_they_would_measure_something_else() {
        let cases = [
            ("[load]\nrounds = 2\npreload = false", "load.preload = true"),
            ("[load]\nrounds = 20000", "at most 10000"),
            ("[mix]\nput = 0.5\ninsert = 0.6", "insert = 0.6"),
            ("[mix]\nput = 0.9\ninsert = -0.1\nget = 0.2", "shares"),
            (
                "[mix]\nput = 0.0\nread_modify_write = 1.5",
                "read_modify_write = 1.5",
            ),
            (
                "[load]\npreload = false\n[mix]\nput = 0.5\ninsert = 0.5",
                "or insert = 1.0",
            ),
            (
                "[mix]\nput = 0.5\ninsert = 0.5\n[access]\ndistribution = \"latest\"",
                "either puts or inserts",
            ),
            (
                "[mix]\nput = 0.0\nread_modify_write = 1.0\n[access]\ndistribution = \"latest\"",
                "needs writes",
            ),
            (
                "[mix]\nput = 0.0\nget = 0.5\ninsert = 0.5\n[access]\nmissing = 0.1",
                "access.missing = 0.1",
            ),
            (
                "[mix]\nput = 0.0\ninsert = 1.0\n[arrival]\nmode = \"search\"\n\
                 objective = \"p99<5ms\"",
                "another arrival.mode",
            ),
            (
                "[mix]\nput = 0.0\nrange = { share = 1.0, limit = 5, limit_min = 6 }",
                "limit_min = 6",
            ),
            (
                "[mix]\nput = 0.0\nrange = { share = 1.0, limit_min = 1 }",
                "limit = 0",
            ),
        ];
        for (text, expected) in cases {
            let error = mistake(&format!("name = \"a\"\n{text}\n"));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_limit_of_memory_is_a_number_of_bytes_with_a_unit() {
        let with = |limit: &str| format!("name = \"a\"\n[memory]\nlimit = {limit}\n");
        let workload = parse("file.toml", &with("\"256MiB\"")).unwrap();
        let again = toml::to_string(&workload).unwrap();
        assert_eq!(parse("again", &again).unwrap(), workload);
        assert_eq!(workload.memory.limit.unwrap().0, 256 << 20);
        for (limit, expected) in [
            ("\"256\"", "256MiB"),
            ("\"1MiB\"", "at least 32MiB"),
            ("268435456", "expected a string"),
        ] {
            let error = mistake(&with(limit));
            assert!(error.contains(expected), "{limit}: {error}");
        }
    }

    #[test]
    fn fields_that_earlier_labs_do_not_know_are_written_only_where_they_are_used() {
        let text = |text: &str| toml::to_string(&parse("a", text).unwrap()).unwrap();
        let plain = text("name = \"a\"");
        let used = text(
            "name = \"a\"\n[load]\nrounds = 3\n[mix]\nput = 0.0\ninsert = 0.5\n\
             read_modify_write = 0.25\nrange = { share = 0.25, limit = 9, limit_min = 1 }\n",
        );
        assert!(!plain.contains("memory"), "{plain}");
        for field in ["rounds", "insert", "read_modify_write", "limit_min"] {
            assert!(!plain.contains(field) && used.contains(field), "{field}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Path::new("/nowhere/w.toml")).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/w.toml: "), "{error}");
    }
}
