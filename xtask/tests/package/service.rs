//! The installed unit, started without systemd.

use std::{
    fs,
    io::ErrorKind,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    process::Command,
    time::Duration,
};

use harness::{ServerProcess, ports, wait_for};

use crate::clean_root::CleanRoot;

const UNIT: &str = "/usr/lib/systemd/system/inkstone.service";
const SETTINGS: &str = "/etc/default/inkstone";
/// Time limit for a report of the server on a busy machine.
const REPORT_MAX: Duration = Duration::from_secs(120);

/// The process of the unit, and the socket where it reports its state.
pub struct Service {
    process: ServerProcess,
    reports: UnixDatagram,
}

impl Service {
    /// Chooses an address for clients, and writes it to the settings as an administrator does.
    pub fn settle(root: &CleanRoot) -> String {
        let address = ports::free_address().unwrap();
        let mut settings = fs::read_to_string(root.path(SETTINGS)).unwrap();
        for name in ["LISTEN", "ADVERTISE"] {
            settings += &format!("ETCD_{name}_CLIENT_URLS=http://{address}\n");
        }
        fs::write(root.path(SETTINGS), settings).unwrap();
        address
    }

    /// Starts the command of the unit and waits until the server reports that it is ready.
    pub fn start(root: &CleanRoot) -> Service {
        let unit = fs::read_to_string(root.path(UNIT)).unwrap();
        let name = format!("inkstone-package-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let reports = UnixDatagram::bind_addr(&address).unwrap();
        reports.set_nonblocking(true).unwrap();
        let mut command = command_of(root, &unit);
        command.env("NOTIFY_SOCKET", format!("@{name}"));
        let process = ServerProcess::spawn(command, &root.path("tmp/inkstone.log")).unwrap();
        let mut service = Service { process, reports };
        service.wait_for("READY=1");
        service
    }

    /// Ends it as systemd does.
    pub fn stop(mut self) {
        let status = self.process.stop().unwrap();
        assert!(status.success(), "{status}");
        self.wait_for("STOPPING=1");
    }

    fn wait_for(&mut self, state: &str) {
        let report = wait_for(state, REPORT_MAX, || {
            let mut bytes = [0; 64];
            match self.reports.recv(&mut bytes) {
                Ok(length) => Ok(Some(bytes[..length].to_vec())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match self.process.status()? {
                        None => Ok(None),
                        Some(status) => Err(format!("it ended with {status}").into()),
                    }
                }
                Err(error) => Err(error.into()),
            }
        });
        let report = report.unwrap_or_else(|error| panic!("{error}: {}", self.process.log()));
        assert_eq!(String::from_utf8(report).unwrap(), state);
    }
}

/// The unit's command with its user and its variables, inside of the root.
fn command_of(root: &CleanRoot, unit: &str) -> Command {
    let values = |key: &'static str| unit.lines().filter_map(move |line| line.strip_prefix(key));
    let one = |key: &'static str| values(key).next().unwrap();
    let user = format!("--userspec={}:{}", one("User="), one("Group="));
    let words: Vec<&str> = one("ExecStart=").split(' ').collect();
    let mut command = root.command(&[&user], &words);
    let file = one("EnvironmentFile=-");
    let settings = fs::read_to_string(root.path(file)).unwrap();
    let settings = settings.lines().filter(|line| !line.starts_with('#'));
    for variable in values("Environment=").chain(settings) {
        if let Some((name, value)) = variable.split_once('=') {
            command.env(name, value);
        }
    }
    command
}
