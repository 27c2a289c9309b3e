// The frame: which view is shown, the user at the right, and the sign-in when a call asks for it.

import { CallError, token, userName } from "./api.js";
import { address, go } from "./address.js";
import { button, el, fill, notice } from "./dom.js";
import { KeysView } from "./keys.js";
import { loadSession, session, signOut } from "./session.js";
import { SignIn } from "./signin.js";

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

const main = document.getElementById("main");
let shown = { name: null, view: null };
let signingIn = false;

async function route() {
  if (signingIn || location.hash === "#main") return;
  const { view: name, params } = address();
  if (!Object.hasOwn(VIEWS, name)) {
    go("keys", {}, { replace: true });
    return;
  }
  markView(name);
  try {
    if (shown.name !== name) await openView(name);
    await shown.view?.update(params);
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    if (!error.needsSignIn) fill(main, notice("bad", error.sentence));
  }
}

async function openView(name) {
  shown.view?.close();
  shown = { name, view: null };
  const View = await VIEWS[name]();
  if (shown.name === name && !signingIn) shown.view = new View(main);
}

function markView(name) {
  for (const entry of document.querySelectorAll("#views a")) {
    if (entry.dataset.view === name) entry.setAttribute("aria-current", "page");
    else entry.removeAttribute("aria-current");
  }
  document.title = `${TITLES[name]} · Inkstone`;
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
  shown.view?.close();
  shown = { name: null, view: null };
  signOut();
  showAccount();
  document.title = "Sign in · Inkstone";
  new SignIn(main, reason, () => {
    signingIn = false;
    begin();
  });
}

async function begin() {
  try {
    await loadSession();
    showAccount();
    if (session.authentication === "on" && !token()) return askForSignIn("");
    await route();
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    if (!signingIn) fill(main, notice("bad", error.sentence, " ", button("Try again", {}, begin)));
  }
}

addEventListener("hashchange", route);
addEventListener("sign-in-needed", () =>
  askForSignIn(token() ? "Your sign-in is no longer valid: sign in once more." : ""),
);
addEventListener("connection", ({ detail: connected }) => {
  document.getElementById("connection").textContent = connected
    ? ""
    : "The server does not answer. What you see may be old; it is asked again and again.";
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
