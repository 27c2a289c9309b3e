//! The page at `/ui` in a browser that clicks, against a server of the test.
//!
//! Without a Chromium each test says SKIPPED and passes. The names of elements are those that
//! `store/ui/page` keeps for tests: ids and `data-test`.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts processes and opens the pipes to them"
)]

mod browser;

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use browser::{Browser, Tab};
use harness::{Cluster, Member, Program};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");

/// One browser at a time: each is several processes.
static TURN: Mutex<()> = Mutex::new(());

struct Server {
    member: Member,
    _place: tempfile::TempDir,
}

impl Server {
    fn start(flags: &[&str]) -> Server {
        let place = tempfile::tempdir().unwrap();
        let program = Program::new(PROGRAM).with(flags);
        let member = Member::alone(program, place.path()).unwrap();
        Server {
            member,
            _place: place,
        }
    }

    /// The output of a command, which must succeed.
    fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .env("INKSTONE_ENDPOINT", self.member.client_url());
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn put(&self, key: &str, value: &str) {
        self.run(&["put", "--", key, value]);
    }

    fn get(&self, key: &str) -> String {
        let value = self.run(&["get", "--print-value-only", "--", key]);
        value.trim_end().to_owned()
    }

    fn page(&self, address: &str) -> String {
        page_of(&self.member, address)
    }
}

fn page_of(member: &Member, address: &str) -> String {
    format!("{}/ui/{address}", member.client_url())
}

/// Runs a test in a browser, and then asks the page for complaints, and for requests elsewhere.
fn in_browser(server: &Server, address: &str, test: impl FnOnce(&mut Tab<'_>)) {
    in_browser_at(&server.member, address, test);
}

/// The same with the page of a member.
fn in_browser_at(member: &Member, address: &str, test: impl FnOnce(&mut Tab<'_>)) {
    let Some(program) = browser::installed() else {
        eprintln!("SKIPPED: there is no Chromium on the path, nor in INKSTONE_BROWSER");
        return;
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut browser = Browser::start(&program);
    let mut tab = browser.open(&page_of(member, address));
    test(&mut tab);
    assert_eq!(tab.complaints(), [""; 0]);
    let host = member.client_url();
    let host = host.split_once("://").unwrap().1.to_owned();
    for url in tab.requests() {
        let is_inside = ["about:", "data:", "blob:"]
            .iter()
            .any(|it| url.starts_with(it));
        let is_own = url
            .split_once("://")
            .is_some_and(|(_, rest)| rest.starts_with(&host));
        assert!(is_own || is_inside, "{url} is not at {host}");
    }
}

fn node(name: &str) -> String {
    let name = json!(name);
    format!("#tree [data-test=node][data-name={name}]")
}

/// Waits until a key is absent from the tree. `content` is an element that comes with the answer in
/// which the key would be.
fn absent(tab: &mut Tab<'_>, name: &str, content: &str) {
    tab.see(content);
    tab.wait_for(&format!("!document.querySelector({})", json!(node(name))));
}

fn small_store(flags: &[&str]) -> Server {
    let server = Server::start(flags);
    for (key, value) in [
        ("/app/config", r#"{"colour":"red","size":3}"#),
        ("/app/greeting", "hello"),
        ("/app/web/1", "10.0.0.1"),
        ("/app/web/2", "10.0.0.2"),
        ("plain", "text"),
    ] {
        server.put(key, value);
    }
    server
}

#[test]
fn the_tree_shows_prefixes_with_their_counts_and_opens_them() {
    let server = small_store(&[]);
    in_browser(&server, "", |tab| {
        tab.see(&node("/"));
        tab.see(&node("plain"));
        tab.click(&node("/"));
        tab.see_text(&node("/app/"), "4");
        tab.click(&node("/app/"));
        tab.see(&node("/app/greeting"));
        tab.see_text(&node("/app/web/"), "2");
    });
}

#[test]
fn a_key_that_another_client_puts_appears_by_itself() {
    let server = small_store(&[]);
    in_browser(&server, "#/keys?prefix=/app/", |tab| {
        tab.see(&node("/app/greeting"));
        server.put("/app/later", "1");
        tab.see(&node("/app/later"));
    });
}

#[test]
fn a_value_is_edited_and_stored() {
    let server = small_store(&[]);
    in_browser(&server, "#/keys?key=/app/greeting", |tab| {
        tab.see_text("#value", "hello");
        tab.click("#edit");
        tab.fill("#editor", "good morning");
        tab.click("#save");
        tab.see_text("#value", "good morning");
    });
    if browser::installed().is_some() {
        assert_eq!(server.get("/app/greeting"), "good morning");
    }
}

#[test]
fn an_edit_of_a_key_that_was_changed_in_between_is_refused_until_it_is_wanted() {
    let server = small_store(&[]);
    in_browser(&server, "#/keys?key=/app/greeting", |tab| {
        tab.click("#edit");
        tab.fill("#editor", "mine");
        server.put("/app/greeting", "theirs");
        tab.click("#save");
        tab.see("[data-test=conflict]");
        assert_eq!(server.get("/app/greeting"), "theirs");
        tab.click("[data-test=save-over]");
        tab.see_text("#value", "mine");
        assert_eq!(server.get("/app/greeting"), "mine");
    });
}

#[test]
fn a_key_is_deleted_only_after_a_second_word() {
    let server = small_store(&[]);
    in_browser(&server, "#/keys?key=/app/greeting", |tab| {
        tab.click("#delete");
        tab.see("[data-test=confirm-delete]");
        tab.click("[data-test=confirm-no]");
        assert_eq!(server.get("/app/greeting"), "hello");
        tab.click("#delete");
        tab.click("[data-test=confirm-yes]");
        absent(tab, "/app/greeting", &node("/app/config"));
        assert_eq!(server.get("/app/greeting"), "");
    });
}

#[test]
fn a_deleted_prefix_loses_its_figures_and_has_them_when_it_comes_back() {
    let server = small_store(&[]);
    let look = "dispatchEvent(new Event('store-changed'))";
    in_browser(&server, "#/keys?prefix=/app/web/", |tab| {
        tab.see_text("#pane dl", "2");
        server.run(&["del", "/app/web/", "--prefix"]);
        tab.evaluate(look);
        tab.wait_for("!document.querySelector('#pane dl')");
        server.put("/app/web/3", "10.0.0.3");
        tab.evaluate(look);
        tab.see_text("#pane dl", "1");
    });
}

#[test]
fn arrow_keys_between_the_tabs_of_a_key_keep_the_focus() {
    let server = small_store(&[]);
    in_browser(&server, "#/keys?key=/app/greeting", |tab| {
        tab.see("#value");
        tab.evaluate("document.querySelector('[data-test=tab-value]').focus()");
        tab.press("ArrowRight");
        tab.see("[data-test=version]");
        let focused = tab.evaluate("document.activeElement.dataset.test");
        assert_eq!(focused, "tab-history");
    });
}

#[test]
fn a_history_has_each_version_and_the_difference() {
    let server = small_store(&[]);
    for value in ["one\ntwo\nthree", "one\n2\nthree"] {
        server.put("/app/list", value);
    }
    in_browser(&server, "#/keys?key=/app/list&show=history", |tab| {
        tab.see("[data-test=versions] [data-test=version]");
        let versions = "document.querySelectorAll('[data-test=version]').length === 2";
        tab.wait_for(versions);
        tab.see_text("[data-test=difference] tr.old", "two");
        tab.see_text("[data-test=difference] tr.new", "2");
    });
}

#[test]
fn a_past_revision_shows_the_tree_as_it_was() {
    let server = small_store(&[]);
    server.run(&["del", "/app/web/", "--prefix"]);
    in_browser(&server, "#/keys?prefix=/app/", |tab| {
        absent(tab, "/app/web/", &node("/app/greeting"));
    });
    in_browser(&server, "#/keys?prefix=/app/&rev=6", |tab| {
        tab.see_text(&node("/app/web/"), "2");
    });
}

#[test]
fn a_search_finds_keys_that_begin_with_a_text() {
    let server = small_store(&[]);
    in_browser(&server, "", |tab| {
        tab.see(&node("/"));
        tab.fill("#search", "/app/web");
        tab.see("#results [data-test=found][data-name=\"/app/web/1\"]");
        tab.see("#results [data-test=found][data-name=\"/app/web/2\"]");
    });
}

/// Markup in a name or a value is text, in each view that shows it.
#[test]
fn hostile_names_and_values_are_shown_as_what_they_are() {
    let server = Server::start(&[]);
    let script = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
    server.put(&format!("evil/{script}"), &format!("<b>{script}</b>"));
    server.put("evil/\u{202e}txt.exe", "\u{202e}reversed");
    server.put(
        "evil/a\nb\tc",
        "{{constructor.constructor('window.hit=1')()}}",
    );
    in_browser(&server, "#/keys?prefix=evil/", |tab| {
        tab.wait_for("document.querySelectorAll('#tree [data-test=node]').length >= 3");
        let found = tab.evaluate(
            "[...document.querySelectorAll('#tree [data-test=node]')].find(it => it.textContent.includes('<img src=x'))?.dataset.name",
        );
        let name = found.as_str().unwrap().to_owned();
        tab.click(&node(&name));
        tab.see_text("#value", "<script>window.hit=1</script>");
        assert_eq!(tab.evaluate("window.hit ?? null"), Value::Null);
        let markup = "document.querySelectorAll('#main img, #main script, #main b').length";
        assert_eq!(tab.evaluate(markup), 0);
    });
}

#[test]
fn bytes_that_are_no_text_are_shown_in_hex() {
    let server = Server::start(&[]);
    server.put("blob", "placeholder");
    let body = json!({"key": "YmxvYg==", "value": "AP/+gA=="});
    in_browser(&server, "#/keys?key=blob", |tab| {
        tab.see_text("#value", "placeholder");
        tab.evaluate(&format!(
            "fetch('/v3/kv/put', {{method: 'POST', body: {:?}}}).then(it => it.status)",
            body.to_string()
        ));
        tab.go("about:blank");
        tab.go(&server.page("#/keys?key=blob"));
        tab.see_text("#value", "00 ff fe 80");
    });
}

#[test]
fn a_watch_shows_changes_as_they_come() {
    let server = small_store(&[]);
    in_browser(&server, "#/watch", |tab| {
        tab.fill("#watch-prefix", "/app/");
        tab.click("#watch-toggle");
        tab.see_text("#watch-state", "Watching since");
        server.put("plain", "of another prefix");
        server.put("/app/greeting", "again");
        tab.see_text("#watch-rows tr", "/app/greeting");
        let rows = tab.evaluate("document.querySelectorAll('#watch-rows tr').length");
        assert_eq!(rows, 1);
        tab.see_text("#hot li", "/app/");
    });
}

#[test]
fn leases_members_and_the_snapshot_are_views_of_their_own() {
    let server = small_store(&[]);
    server.run(&["lease", "grant", "600"]);
    in_browser(&server, "#/leases", |tab| {
        tab.see("#leases tr");
        tab.click("#views a[data-view=cluster]");
        tab.see("#cluster [data-test=member]");
        tab.click("#views a[data-view=snapshot]");
        tab.see("#save-snapshot");
        tab.see_text("[data-test=restore-command]", "restore");
        let current = "document.querySelector('#views [aria-current=page]').dataset.view";
        assert_eq!(tab.evaluate(current), "snapshot");
    });
}

/// Waits until the page has asked for the cluster once more and shows the answer.
fn look_again(tab: &mut Tab<'_>) {
    tab.evaluate("document.querySelector('#cluster [data-test=member]').dataset.seen = 'yes'");
    tab.evaluate("dispatchEvent(new Event('store-changed'))");
    tab.wait_for(
        "document.querySelector('#cluster [data-test=member]')
            && !document.querySelector('#cluster [data-seen]')",
    );
}

fn cards_of(name: &str) -> String {
    format!("[data-test=member-cards][data-name={name}]")
}

/// The server that serves the page asks the other members for their figures.
#[test]
fn each_member_s_figures_stand_in_its_row_and_its_cards_are_shown_when_it_is_chosen() {
    let place = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(&Program::new(PROGRAM), place.path(), 3).unwrap();
    in_browser_at(cluster.leader(), "#/cluster", |tab| {
        for name in ["a", "b", "c"] {
            for cell in ["version", "flush", "memory", "disk"] {
                let row = format!("#cluster [data-test=member][data-name={name}]");
                let cell = json!(format!("{row} [data-test={cell}]"));
                tab.wait_for(&format!(
                    "/[0-9]/.test(document.querySelector({cell}).textContent)"
                ));
            }
        }
        let names = tab_names(tab);
        let [own, first, second] = &names[..] else {
            panic!("{names:?}");
        };
        tab.see(&cards_of(own));
        tab.click(&format!("[data-test=member-tab][data-name={first}]"));
        tab.see_text(&format!("{} h2", cards_of(first)), first);
        tab.press("ArrowRight");
        tab.see_text(&format!("{} h2", cards_of(second)), second);
        look_again(tab);
        tab.see(&cards_of(second));
        let focused = tab.evaluate("document.activeElement.dataset.name");
        assert_eq!(focused, json!(second));
    });
}

/// Names of the members that can be chosen, in their order.
fn tab_names(tab: &mut Tab<'_>) -> Vec<String> {
    let names = tab.evaluate(
        "[...document.querySelectorAll('[data-test=member-tab]')].map(it => it.dataset.name)",
    );
    let names = names.as_array().unwrap().iter();
    names.map(|it| it.as_str().unwrap().to_owned()).collect()
}

#[test]
fn three_members_fit_the_width_of_a_phone() {
    let place = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(&Program::new(PROGRAM), place.path(), 3).unwrap();
    in_browser_at(cluster.follower(), "#/cluster", |tab| {
        let phone = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
        tab.call("Emulation.setDeviceMetricsOverride", &phone);
        tab.wait_for("document.querySelectorAll('[data-test=member-tab]').length === 3");
        let width = tab.evaluate("document.scrollingElement.scrollWidth");
        assert!(width.as_u64().unwrap() <= 360, "{width}");
    });
}

/// A store with the users `root` and `alice`; `alice` may read and write below `/app/`.
fn store_with_users() -> Server {
    let server = small_store(&["--bcrypt-cost=4"]);
    for words in [
        &["user", "add", "root:toor"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "alice:secret"],
        &["role", "add", "app"],
        &[
            "role",
            "grant-permission",
            "app",
            "readwrite",
            "/app/",
            "--prefix",
        ],
        &["user", "grant-role", "alice", "app"],
        &["auth", "enable"],
    ] {
        server.run(words);
    }
    server
}

fn sign_in(tab: &mut Tab<'_>, user: &str, password: &str) {
    tab.fill("#sign-in-user", user);
    tab.fill("#sign-in-password", password);
    tab.click("#sign-in");
}

#[test]
fn a_user_signs_in_and_sees_what_its_role_may_see() {
    let server = store_with_users();
    in_browser(&server, "#/keys?prefix=/app/", |tab| {
        sign_in(tab, "alice", "wrong");
        tab.see(".sign-in .notice.bad");
        sign_in(tab, "alice", "secret");
        tab.see(&node("/app/greeting"));
        tab.see_text("#user", "alice");
        let texts = tab.evaluate("document.body.innerText");
        assert!(!texts.as_str().unwrap().contains("plain"), "{texts}");
        let stored = "JSON.stringify([{...localStorage}, document.cookie])";
        let stored = tab.evaluate(stored);
        assert!(!stored.as_str().unwrap().contains("secret"), "{stored}");
        tab.click("#sign-out");
        absent(tab, "/app/greeting", "#sign-in-user");
    });
}

/// A user's tree has the parts of prefixes that its roles permit, and the search finds the keys there. In
/// each part, keys before and behind it exist.
#[test]
fn ranges_that_are_no_prefixes_are_shown_as_far_as_they_go() {
    let server = store_with_users();
    let root = "--user=root:toor";
    for words in [
        &["put", "other/1/x", "1"][..],
        &["put", "other/2/x", "1"],
        &["put", "other/3/x", "1"],
        &["role", "add", "part"],
        &[
            "role",
            "grant-permission",
            "part",
            "read",
            "other/2",
            "otter",
        ],
        &["role", "grant-permission", "part", "read", "pl", "plb"],
        &["user", "grant-role", "alice", "part"],
    ] {
        server.run(&[words, &[root]].concat());
    }
    in_browser(&server, "#/keys?key=other/3/x", |tab| {
        sign_in(tab, "alice", "secret");
        tab.see(&node("/app/greeting"));
        // The key of the address is marked, so the levels above it are open.
        tab.see(&format!("{}[aria-selected=true]", node("other/3/x")));
        tab.see(&node("other/2/"));
        let texts = tab.evaluate("document.querySelector('#tree').innerText");
        let texts = texts.as_str().unwrap().to_owned();
        assert!(texts.contains("other/2 … otter"), "{texts}");
        assert!(!texts.contains("other/1"), "{texts}");
        tab.click("#views a[data-view=watch]");
        tab.fill("#watch-prefix", "other");
        tab.click("#watch-toggle");
        tab.see_text("#watch-state", "from other/2 up to, without, othes");
        server.run(&["put", "other/1/y", "1", root]);
        server.run(&["put", "other/2/y", "1", root]);
        tab.see_text("#watch-rows", "other/2/y");
        let rows = tab.evaluate("document.querySelector('#watch-rows').innerText");
        assert!(!rows.as_str().unwrap().contains("other/1/y"), "{rows}");
        tab.click("#views a[data-view=keys]");
        tab.fill("#search", "other");
        tab.see("#results [data-test=found][data-name='other/2/x']");
        let found = "document.querySelectorAll('#results [data-test=found]').length";
        assert_eq!(tab.evaluate(found), 3);
        tab.fill("#search", "pl");
        tab.see("#results [data-test=found][data-name=plain]");
    });
}

#[test]
fn what_a_user_may_not_do_is_refused_and_said() {
    let server = store_with_users();
    in_browser(&server, "#/keys?key=plain", |tab| {
        sign_in(tab, "alice", "secret");
        tab.see_text("#pane .notice", "permission");
        assert_eq!(
            tab.evaluate("document.querySelector('#value')"),
            Value::Null
        );
    });
}

#[test]
fn a_view_that_does_not_exist_is_said() {
    let server = small_store(&[]);
    in_browser(&server, "#/nothing", |tab| {
        tab.see_text("#main", "No such view");
        tab.click("#views a[data-view=keys]");
        tab.see(&node("/"));
    });
}

#[test]
fn a_first_load_that_fails_is_tried_again() {
    let server = small_store(&[]);
    in_browser(&server, "", |tab| {
        let blocked = json!({"urls": ["*/v3/inkstone/children"]});
        tab.call("Network.setBlockedURLs", &blocked);
        tab.go("about:blank");
        tab.go(&server.page("#/keys"));
        tab.see("[data-test=try-again]");
        tab.call("Network.setBlockedURLs", &json!({"urls": []}));
        tab.see(&node("plain"));
    });
}

#[test]
fn a_long_tree_scrolls_beside_the_value() {
    let server = Server::start(&[]);
    let puts = "(async () => {
        for (let at = 0; at < 80; at++) {
            const body = JSON.stringify({key: btoa('/list/' + at), value: btoa('value ' + at)});
            await fetch('/v3/kv/put', {method: 'POST', body});
        }
    })()";
    in_browser(&server, "", |tab| {
        tab.evaluate(puts);
        tab.go("about:blank");
        tab.go(&server.page("#/keys?prefix=/list/"));
        tab.click(&node("/list/9"));
        tab.see_text("#value", "value 9");
        assert_eq!(tab.evaluate("document.scrollingElement.scrollTop"), 0);
    });
}

#[test]
fn a_dialog_ends_when_the_user_goes_back() {
    let server = small_store(&[]);
    in_browser(&server, "#/keys", |tab| {
        tab.click(&node("plain"));
        tab.click("#delete");
        tab.see("[data-test=confirm-delete]");
        tab.evaluate("history.back()");
        tab.wait_for("!document.querySelector('dialog')");
    });
    if browser::installed().is_some() {
        assert_eq!(server.get("plain"), "text");
    }
}

/// Each control that the keyboard reaches has a name for a screen reader.
#[test]
fn controls_have_names_and_the_tree_follows_the_arrow_keys() {
    let server = small_store(&[]);
    in_browser(&server, "#/keys?prefix=/app/", |tab| {
        tab.see(&node("/app/greeting"));
        tab.click(&node("/app/config"));
        tab.press("ArrowDown");
        tab.press("Enter");
        tab.see("[data-test=key-name][data-name=\"/app/greeting\"]");
        let tree = tab.call("Accessibility.getFullAXTree", &json!({}));
        for node in tree["nodes"].as_array().unwrap() {
            let role = node["role"]["value"].as_str().unwrap_or_default();
            let is_control = [
                "button",
                "link",
                "textbox",
                "searchbox",
                "slider",
                "treeitem",
                "tab",
            ]
            .contains(&role);
            let name = node["name"]["value"].as_str().unwrap_or_default();
            let is_ignored = node["ignored"] == json!(true);
            assert!(!is_control || is_ignored || !name.is_empty(), "{node}");
        }
    });
}

#[test]
fn a_phone_s_width_needs_no_scrolling_to_the_side() {
    let server = small_store(&[]);
    in_browser(&server, "", |tab| {
        let phone = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
        tab.call("Emulation.setDeviceMetricsOverride", &phone);
        for (view, content) in [
            ("keys", "#tree [data-test=node]"),
            ("watch", "#watch-toggle"),
            ("leases", "#leases .empty"),
            ("cluster", "#cluster [data-test=member]"),
            ("access", "#access .command"),
            ("snapshot", "[data-test=restore-command]"),
        ] {
            tab.go("about:blank");
            tab.go(&server.page(&format!("#/{view}")));
            tab.see(content);
            let width = tab.evaluate("document.scrollingElement.scrollWidth");
            assert!(width.as_u64().unwrap() <= 360, "{view}: {width}");
        }
    });
}

#[test]
fn colours_follow_the_system_and_text_stands_out_in_both() {
    let server = small_store(&[]);
    in_browser(&server, "", |tab| {
        tab.see(&node("/"));
        let mut grounds = Vec::new();
        for scheme in ["light", "dark"] {
            let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
            tab.call("Emulation.setEmulatedMedia", &media);
            let colours = tab.evaluate(
                "(() => {
                    const lightness = colour => {
                        const canvas = document.createElement('canvas').getContext('2d');
                        canvas.fillStyle = colour;
                        canvas.fillRect(0, 0, 1, 1);
                        const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
                        const [r, g, b] = parts.map(it => {
                            const part = it / 255;
                            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
                        });
                        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                    };
                    const style = getComputedStyle(document.body);
                    return {text: lightness(style.color), ground: lightness(style.backgroundColor)};
                })()",
            );
            let (text, ground) = (
                colours["text"].as_f64().unwrap(),
                colours["ground"].as_f64().unwrap(),
            );
            let contrast = (text.max(ground) + 0.05) / (text.min(ground) + 0.05);
            assert!(contrast >= 7.0, "{scheme}: {contrast}");
            grounds.push(ground);
        }
        assert!(grounds[0] > 0.7 && grounds[1] < 0.1, "{grounds:?}");
    });
}
