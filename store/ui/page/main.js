// The frame: which view is shown, the user at the right, and the sign-in when a call asks for it.

import { CallError, token, userName } from "./api.js";
import { address } from "./address.js";
import { button, el, empty, failure, fill } from "./dom.js";
import { KeysView } from "./keys.js";
import { loadSession, session, signOut } from "./session.js";
import { SignIn } from "./signin.js";
import { turns } from "./turns.js";

const VIEWS = {
  keys: async () => KeysView,
  watch: async () => (await import("./watch.js")).WatchView,
  leases: async () => (await import("./leases.js")).LeasesView,
  cluster: async () => (await import("./cluster.js")).ClusterView,
  access: async () => (await import("./access.js")).AccessView,
  snapshot: async () => (await import("./snapshot.js")).SnapshotView,
};
const TITLES = {
  keys: "Keys",
  watch: "Watch",
  leases: "Leases",
  cluster: "Cluster",
  access: "Access",
  snapshot: "Snapshot",
};
const RETRY_AFTER = 5000; // ms

const main = document.getElementById("main");
let shown = { name: null, view: null };
let signingIn = false;
let beginning = null; // timer
const turn = turns();

async function route() {
  if (signingIn || location.hash === "#main") return;
  const isNewest = turn();
  const { view: name, params } = address();
  markView(name);
  if (!Object.hasOwn(VIEWS, name)) return showAbsent();
  try {
    if (shown.name !== name) {
      const View = await VIEWS[name]();
      if (!isNewest()) return;
      closeView();
      shown = { name, view: new View(main) };
    }
    await shown.view.update(params);
  } catch (error) {
    if (isNewest()) showFailure(error);
  }
}

function closeView() {
  shown.view?.close();
  shown = { name: null, view: null };
}

function showAbsent() {
  closeView();
  fill(main, empty("No such view", "This address names a view that the page does not have."));
}

function showFailure(error, again = route) {
  if (error.needsSignIn) return;
  closeView();
  if (error instanceof CallError) return fill(main, failure(error.sentence, again));
  console.error(error);
  // A browser may keep the failure of an import until the page is loaded again.
  fill(
    main,
    failure(`This view could not be shown: ${error.message}.`, () => location.reload()),
  );
}

function markView(name) {
  for (const entry of document.querySelectorAll("#views a")) {
    if (entry.dataset.view === name) entry.setAttribute("aria-current", "page");
    else entry.removeAttribute("aria-current");
  }
  document.title = `${TITLES[name] ?? "No such view"} · Inkstone`;
}

function showAccount() {
  const place = document.getElementById("account");
  if (session.authentication !== "on" || !token()) {
    fill(place);
    return;
  }
  fill(
    place,
    el("span", { id: "user", title: "signed in" }, userName()),
    button("Sign out", { id: "sign-out" }, () => {
      signOut();
      location.reload();
    }),
  );
}

function askForSignIn(reason) {
  if (signingIn) return;
  signingIn = true;
  turn();
  closeView();
  signOut();
  showAccount();
  document.title = "Sign in · Inkstone";
  new SignIn(main, reason, () => {
    signingIn = false;
    begin();
  });
}

async function begin() {
  clearTimeout(beginning);
  const isNewest = turn();
  try {
    await loadSession();
    if (!isNewest()) return;
    showAccount();
    if (session.authentication === "on" && !token()) askForSignIn("");
    else await route();
  } catch (error) {
    if (!isNewest() || signingIn) return;
    showFailure(error, begin);
    beginning = setTimeout(begin, RETRY_AFTER);
  }
}

addEventListener("hashchange", () => (session.authentication === "unknown" ? begin() : route()));
addEventListener("sign-in-needed", () =>
  askForSignIn(token() ? "Your sign-in is no longer valid: sign in once more." : ""),
);
addEventListener("connection", ({ detail: connected }) => {
  document.getElementById("connection").textContent = connected
    ? ""
    : "The server does not answer. The page may show old data, and asks again every few seconds.";
});
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.getElementById("search");
  if (!search) return;
  event.preventDefault();
  search.focus();
  search.select();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
begin();
