//! A headless Chromium, driven over its debugging pipe.
//!
//! ```text
//!   test ──{"id":1,"method":…}\0──► fifo ──► descriptor 3 ─┐
//!        ◄──{"id":1,"result":…}\0── fifo ◄── descriptor 4 ─┴─ chromium --remote-debugging-pipe
//! ```
//!
//! A shell opens the two descriptors, so that no code of the test runs between fork and exec. The
//! browser ends when its pipe does.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// Time limit of [`Tab::wait_for`], in milliseconds. It ends a test that would never end.
const WAIT_MS: u64 = 60_000;
/// Chromium's error for an expression in a document that another has replaced.
const NAVIGATED: &str = "Inspected target navigated or closed";
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--window-size=1280,900",
];

/// The browser of this machine: that of `INKSTONE_BROWSER`, or one on the path.
pub fn installed() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("INKSTONE_BROWSER") {
        return Some(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let files = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |it| it.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// A running browser; it ends with this value.
pub struct Browser {
    process: Child,
    /// `None` once the browser is asked to end.
    commands: Option<File>,
    answers: BufReader<File>,
    last_id: u64,
    /// Events that came while an answer was awaited.
    events: VecDeque<Value>,
    _place: tempfile::TempDir,
}

impl Browser {
    pub fn start(program: &Path) -> Browser {
        let place = tempfile::tempdir().unwrap();
        let [to, from] = ["to", "from"].map(|name| place.path().join(name));
        let made = Command::new("mkfifo").args([&to, &from]).status().unwrap();
        assert!(made.success(), "mkfifo");
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        flags.push(format!(
            "--user-data-dir={}",
            place.path().join("profile").display()
        ));
        if rustix::process::geteuid().is_root() {
            flags.push("--no-sandbox".to_owned());
        }
        let process = Command::new("sh")
            .args(["-c", r#"exec 3<"$1" 4>"$2"; shift 2; exec "$@""#, "sh"])
            .args([&to, &from])
            .arg(program)
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // In the order in which the shell opens them: each waits for the other side.
        let commands = OpenOptions::new().write(true).open(&to).unwrap();
        let answers = BufReader::new(File::open(&from).unwrap());
        Browser {
            process,
            commands: Some(commands),
            answers,
            last_id: 0,
            events: VecDeque::new(),
            _place: place,
        }
    }

    /// Opens a page and waits until its document is there.
    pub fn open(&mut self, url: &str) -> Tab<'_> {
        let target = self.call("", "Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("", "Target.attachToTarget", &attach);
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let mut tab = Tab {
            browser: self,
            session,
        };
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            tab.call(&format!("{domain}.enable"), &json!({}));
        }
        tab.go(url);
        tab
    }

    fn call(&mut self, session: &str, method: &str, params: &Value) -> Value {
        let answer = self.try_call(session, method, params);
        answer.unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    /// The result of a command, or its error.
    fn try_call(&mut self, session: &str, method: &str, params: &Value) -> Result<Value, Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut command = json!({"id": id, "method": method, "params": params});
        if !session.is_empty() {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        let pipe = self.commands.as_mut().unwrap();
        pipe.write_all(&bytes).unwrap();
        loop {
            let mut message = self.read();
            if message["id"] != json!(id) {
                self.events.push_back(message);
                continue;
            }
            return match message.get_mut("error") {
                Some(error) => Err(error.take()),
                None => Ok(message["result"].take()),
            };
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A page in the browser.
pub struct Tab<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Tab<'_> {
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.browser.call(&self.session, method, params)
    }

    /// Goes to an address, as its bar would.
    pub fn go(&mut self, url: &str) {
        let answer = self.call("Page.navigate", &json!({"url": url}));
        let error = answer["errorText"].as_str().unwrap_or_default();
        assert!(error.is_empty(), "{url}: {error}");
        self.wait_for("document.readyState === 'complete'");
    }

    /// The value of an expression; a promise is awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let value = self.try_evaluate(expression);
        value.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The value of an expression, or the browser's error.
    fn try_evaluate(&mut self, expression: &str) -> Result<Value, Value> {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let session = self.session.clone();
        let mut answer = self
            .browser
            .try_call(&session, "Runtime.evaluate", &params)?;
        let failure = answer.get("exceptionDetails");
        assert!(failure.is_none(), "{expression}: {failure:?}");
        Ok(answer["result"]["value"].take())
    }

    /// Waits until an expression is true, and returns its value. A document that is replaced
    /// takes what waits in it along: then the next one is looked at.
    pub fn wait_for(&mut self, expression: &str) -> Value {
        let look = format!(
            "new Promise((done, fail) => {{
                const end = Date.now() + {WAIT_MS};
                const look = () => {{
                    const found = (() => {{ try {{ return {expression} }} catch {{ return null }} }})();
                    if (found) done(found);
                    else if (Date.now() > end) fail(document.body.innerText.slice(0, 4000));
                    else setTimeout(look, 10);
                }};
                look();
            }})"
        );
        loop {
            match self.try_evaluate(&look) {
                Ok(value) => return value,
                Err(error) if error["message"] == json!(NAVIGATED) => {}
                Err(error) => panic!("{expression}: {error}"),
            }
        }
    }

    /// Waits for an element that is shown.
    pub fn see(&mut self, selector: &str) {
        let selector = json!(selector);
        self.wait_for(&format!(
            "document.querySelector({selector})?.checkVisibility({{visibilityProperty: true}})"
        ));
    }

    /// Waits until an element shows a text.
    pub fn see_text(&mut self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        // Of a field, the text is its value. The value of an item of a list is a number.
        let text_of = "it => typeof it.value === 'string' ? it.value : it.textContent";
        self.wait_for(&format!(
            "[...document.querySelectorAll({selector})].map({text_of}).some(it => it.includes({text}))"
        ));
    }

    /// Clicks into the middle of an element, with the mouse.
    pub fn click(&mut self, selector: &str) {
        self.see(selector);
        let place = self.evaluate(&format!(
            "(() => {{
                const element = document.querySelector({});
                element.scrollIntoView({{block: 'center', behavior: 'instant'}});
                const box = element.getBoundingClientRect();
                return {{x: box.x + box.width / 2, y: box.y + box.height / 2}};
            }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({
                "type": kind, "x": place["x"], "y": place["y"], "button": "left", "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", &params);
        }
    }

    /// Replaces the text of a field, as a paste does.
    pub fn fill(&mut self, selector: &str, text: &str) {
        self.click(selector);
        self.evaluate(&format!(
            "document.querySelector({}).select()",
            json!(selector)
        ));
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Presses a key that writes no character.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            other => panic!("{other} has no number here"),
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let params = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", &params);
        }
    }

    /// Exceptions of scripts, errors that they log, and reports of the content security policy, up
    /// to now.
    pub fn complaints(&mut self) -> Vec<String> {
        // Events before this answer were reported before it.
        self.evaluate("0");
        let complaints = self.browser.events.iter().filter(|event| {
            let entry = &event["params"]["entry"];
            let is_logged =
                event["method"] == "Runtime.consoleAPICalled" && event["params"]["type"] == "error";
            is_logged
                || event["method"] == "Runtime.exceptionThrown"
                || entry["source"] == "security"
                || entry["text"]
                    .as_str()
                    .is_some_and(|text| text.contains("Content Security"))
        });
        complaints.map(Value::to_string).collect()
    }

    /// Addresses of all requests up to now.
    pub fn requests(&mut self) -> Vec<String> {
        self.evaluate("0");
        let url = |event: &Value| {
            match event["method"].as_str() {
                Some("Network.requestWillBeSent") => event["params"]["request"]["url"].as_str(),
                Some("Network.webSocketCreated") => event["params"]["url"].as_str(),
                _ => None,
            }
            .map(str::to_owned)
        };
        self.browser.events.iter().filter_map(url).collect()
    }
}
