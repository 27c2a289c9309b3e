//! Parser of workload files, with errors that name the place and the remedy.

use std::path::Path;

use super::{Arrival, Distribution, KeyKind, Workload};

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
        self.check_mix()?;
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

    fn check_mix(&self) -> Result<(), String> {
        let (get, put, range) = (self.mix.get, self.mix.put, self.mix.range.share);
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        let all = get + put + range;
        let is_whole = (all - 1.0).abs() <= SHARES_TOLERANCE;
        ensure([get, put, range].iter().all(is_share) && is_whole, || {
            format!(
                "mix: get = {get}, put = {put} and range.share = {range} add up to {all}; they \
                 are shares and must add up to 1"
            )
        })?;
        let missing = self.access.missing;
        ensure(is_share(&missing), || {
            format!("access.missing = {missing}: a share is from 0 to 1")
        })?;
        ensure(put > 0.0 || self.load.preload || missing >= 1.0, || {
            "load.preload = false, and nothing is put: there is nothing to read".into()
        })?;
        ensure(
            put > 0.0 || self.access.distribution != Distribution::Latest,
            || {
                "access.distribution = \"latest\" needs puts that it can follow: mix.put is 0"
                    .into()
            },
        )
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
            KeyKind::U64BigEndian => 8,
            // Zigzag doubles the number; seven bits in each byte.
            KeyKind::EtcdVarint => {
                let bits = 64 - (last.saturating_mul(2)).leading_zeros();
                (bits.max(1)).div_ceil(7) as usize
            }
            KeyKind::DbBench => 16.max(last.to_string().len()),
            KeyKind::Series => "series-".len() + last.to_string().len(),
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
            [mix]\nget = 0.5\nput = 0.4\nrange = { share = 0.1, limit = 7 }\n\
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
    fn a_missing_file_is_named() {
        let error = load(Path::new("/nowhere/w.toml")).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/w.toml: "), "{error}");
    }
}
