// Users, roles, and what a role may read and write.

import { call, CallError } from "./api.js";
import { link } from "./address.js";
import { cli } from "./cli.js";
import { ZERO, endOfPrefix, equal, isOpenEnd, shown, toBase64 } from "./bytes.js";
import { command, el, empty, failure, fill, notice, row, table } from "./dom.js";
import { count } from "./figures.js";
import { isEverything, permissionOf, session } from "./session.js";
import { turns } from "./turns.js";

const SHOWN_MAX = 200;

export class AccessView {
  constructor(main) {
    this.turn = turns(); // of loads
    this.box = el("div", { class: "stack", id: "access" });
    fill(
      main,
      el("div", { class: "page" }, el("div", { class: "page-head" }, el("h1", {}, "Access")), this.box),
    );
  }

  close() {
    this.turn();
  }

  async update() {
    const isNewest = this.turn();
    let content;
    try {
      content = await contentOf();
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      if (error.needsSignIn) return;
      content = failure(error.sentence, () => this.update());
    }
    if (isNewest()) fill(this.box, content);
  }
}

async function contentOf() {
  const isOn = session.authentication === "on";
  if (!isOn && !(await anyUsers())) return noUsers();
  const everything = !isOn || session.root;
  const { users = [] } = everything ? await call("auth/user/list") : { users: [session.user] };
  const found = await Promise.all(users.slice(0, SHOWN_MAX).map(userRoles));
  const names = everything
    ? ((await call("auth/role/list")).roles ?? [])
    : [...new Set(found.flatMap(({ roles }) => roles))];
  const roles = await Promise.all(names.slice(0, SHOWN_MAX).map(rolePermissions));
  return [
    isOn ? null : noUsers(),
    everything
      ? null
      : notice("note", `You are ${session.user}: you see your own roles. The user root sees all users.`),
    el("h2", {}, "Users"),
    table("Users", ["User", "Roles"], found.map(userRow)),
    users.length > SHOWN_MAX ? onlyFirst("user") : null,
    el("h2", {}, "Roles"),
    names.length === 0
      ? empty("No roles", "This command makes one: ", el("code", {}, cli("role add NAME")), ".")
      : null,
    await Promise.all(roles.map(roleCard)),
    names.length > SHOWN_MAX ? onlyFirst("role") : null,
  ];
}

async function userRoles(name) {
  const { roles = [] } = await call("auth/user/get", { name });
  return { name, roles };
}

function userRow({ name, roles }) {
  const badge = (role) =>
    el("a", { class: "badge accent", href: "#/access", click: (event) => scrollToRole(event, role) }, role);
  const none = el("span", { class: "muted" }, "none: this user may do nothing");
  const cell = roles.length === 0 ? none : roles.map((role) => [badge(role), " "]);
  return row([el("bdi", {}, name), cell], { "data-test": "user", "data-name": name });
}

function onlyFirst(word) {
  const text = `The first ${SHOWN_MAX} ${word}s are shown. This command names all: `;
  return el("p", { class: "muted small" }, text, el("code", {}, cli(`${word} list`)), ".");
}

async function anyUsers() {
  try {
    return ((await call("auth/user/list")).users ?? []).length > 0;
  } catch {
    return false;
  }
}

function noUsers() {
  return el(
    "div",
    { class: "card stack" },
    notice("note", "Sign-in is off: each client that reaches this port may read and change everything."),
    el(
      "p",
      { class: "muted" },
      "This makes the user root and a user that reads one prefix, and switches sign-in on:",
    ),
    command(
      [
        "user add root",
        "role add reader",
        "role grant-permission reader read /app/ --prefix",
        "user add alice",
        "user grant-role alice reader",
        "auth enable",
      ]
        .map(cli)
        .join("\n"),
    ),
  );
}

async function rolePermissions(name) {
  const { perm = [] } = await call("auth/role/get", { role: name });
  return { name, permissions: perm.map(permissionOf) };
}

function scrollToRole(event, role) {
  event.preventDefault();
  const card = [...document.querySelectorAll("[data-role]")].find((one) => one.dataset.role === role);
  card?.scrollIntoView({ block: "center" });
  card?.focus();
}

async function roleCard({ name, permissions }) {
  const head = el("h3", {}, el("bdi", {}, name));
  const attributes = { class: "card stack", "data-role": name, tabindex: "-1" };
  if (name === "root")
    return el("section", attributes, head, el("p", {}, "May do everything, and manages the users."));
  if (permissions.length === 0)
    return el("section", attributes, head, el("p", { class: "muted" }, "Grants nothing yet."));
  const rows = await Promise.all(
    permissions.map(async (permission) =>
      row([
        [
          permission.reads ? el("span", { class: "badge good" }, "read") : null,
          " ",
          permission.writes ? el("span", { class: "badge note" }, "write") : null,
        ],
        extent(permission),
        { cell: await keysOf(permission), class: "figure" },
      ]),
    ),
  );
  return el(
    "section",
    attributes,
    head,
    table(`Permissions of ${name}`, ["May", "Which keys", "#Keys now"], rows),
  );
}

function isPrefix({ key, end }) {
  return equal(end, endOfPrefix(key));
}

function extent(permission) {
  const { key, end } = permission;
  if (end === null) return ["the key ", el("a", { href: link("keys", { key }) }, shown(key))];
  if (isEverything(permission)) return "every key";
  if (isPrefix(permission))
    return ["keys that begin with ", el("a", { href: link("keys", { prefix: key }) }, shown(key))];
  return isOpenEnd(end)
    ? ["keys from ", shown(key), " on"]
    : ["keys from ", shown(key), " up to, without, ", shown(end)];
}

async function keysOf({ key, end }) {
  const request = {
    key: toBase64(key.length > 0 ? key : ZERO),
    count_only: true,
  };
  if (end !== null) request.range_end = toBase64(end);
  try {
    const answer = await call("kv/range", request);
    return count(answer.count);
  } catch {
    return "";
  }
}
