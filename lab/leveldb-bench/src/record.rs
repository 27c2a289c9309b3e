//! The result of one run, written and read as a line of JSON.

/// Numbers have the order of the line.
#[derive(Clone, Default)]
pub struct Record {
    pub benchmark: String,
    pub leveldb: String,
    /// The file that the locks come from.
    pub locks: String,
    pub threads: f64,
    pub operations: f64,
    /// Number of reads that found their key.
    pub found: f64,
    pub wall_seconds: f64,
    pub operations_per_second: f64,
    pub per_thread_mean: f64,
    pub slowest_thread: f64,
    pub fastest_thread: f64,
    pub jain: f64,
    pub voluntary_switches_per_operation: f64,
    pub involuntary_switches_per_operation: f64,
    pub cpu_micros_per_operation: f64,
    pub cores_used: f64,
    /// Cores that other processes used at the same time, a disturbance of the run.
    pub cores_used_by_others: f64,
}

impl Record {
    fn texts(&mut self) -> [(&'static str, &mut String); 3] {
        [
            ("benchmark", &mut self.benchmark),
            ("leveldb", &mut self.leveldb),
            ("locks", &mut self.locks),
        ]
    }

    fn numbers(&mut self) -> [(&'static str, &mut f64); 14] {
        [
            ("threads", &mut self.threads),
            ("operations", &mut self.operations),
            ("found", &mut self.found),
            ("wall_seconds", &mut self.wall_seconds),
            ("operations_per_second", &mut self.operations_per_second),
            ("per_thread_mean", &mut self.per_thread_mean),
            ("slowest_thread", &mut self.slowest_thread),
            ("fastest_thread", &mut self.fastest_thread),
            ("jain", &mut self.jain),
            (
                "voluntary_switches_per_operation",
                &mut self.voluntary_switches_per_operation,
            ),
            (
                "involuntary_switches_per_operation",
                &mut self.involuntary_switches_per_operation,
            ),
            (
                "cpu_micros_per_operation",
                &mut self.cpu_micros_per_operation,
            ),
            ("cores_used", &mut self.cores_used),
            ("cores_used_by_others", &mut self.cores_used_by_others),
        ]
    }

    pub fn to_json(&self) -> String {
        let mut copy = self.clone();
        let texts = copy
            .texts()
            .map(|(name, value)| format!("\"{name}\":{:?}", value));
        let numbers = copy
            .numbers()
            .map(|(name, value)| format!("\"{name}\":{}", (*value * 1e4).round() / 1e4));
        format!("{{{},{}}}", texts.join(","), numbers.join(","))
    }

    /// Reads what [`Record::to_json`] wrote.
    pub fn from_json(line: &str) -> Result<Record, String> {
        let mut record = Record::default();
        for (name, value) in record.texts() {
            field(line, name)?.trim_matches('"').clone_into(value);
        }
        for (name, value) in record.numbers() {
            let text = field(line, name)?;
            *value = text
                .parse()
                .map_err(|_| format!("{name} is no number in `{line}`"))?;
        }
        Ok(record)
    }
}

fn field<'a>(line: &'a str, name: &str) -> Result<&'a str, String> {
    let label = format!("\"{name}\":");
    let start = line
        .find(&label)
        .ok_or(format!("no {name} in the answer of a run: `{line}`"))?;
    let rest = &line[start + label.len()..];
    Ok(&rest[..rest.find([',', '}']).unwrap_or(rest.len())])
}
