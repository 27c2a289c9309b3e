// Users, roles, and what a role may read and write.

import { call, CallError } from "./api.js";
import { link } from "./address.js";
import { cli } from "./cli.js";
import { concat, endOfPrefix, equal, shown, toBase64 } from "./bytes.js";
import { command, el, empty, fill, notice, row, table } from "./dom.js";
import { count } from "./figures.js";
import { permissionOf, session } from "./session.js";

const SHOWN_MAX = 200;

export class AccessView {
  constructor(main) {
    this.box = el("div", { class: "stack", id: "access" });
    fill(
      main,
      el("div", { class: "page" }, el("div", { class: "page-head" }, el("h1", {}, "Access")), this.box),
    );
  }

  close() {}

  async update() {
    if (session.authentication !== "on") {
      fill(this.box, noUsers());
      if (!(await anyUsers())) return;
    }
    try {
      const everything = session.authentication !== "on" || session.root;
      const { users } = everything ? await call("auth/user/list") : { users: [session.user] };
      const withRoles = await Promise.all(
        (users ?? [])
          .slice(0, SHOWN_MAX)
          .map(async (name) => ({ name, ...(await call("auth/user/get", { name })) })),
      );
      const names = everything
        ? ((await call("auth/role/list")).roles ?? [])
        : [...new Set(withRoles.flatMap(({ roles = [] }) => roles))];
      const roles = await Promise.all(names.slice(0, SHOWN_MAX).map(rolePermissions));
      await this.#render(withRoles, roles, everything);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      if (!error.needsSignIn) fill(this.box, notice("bad", error.sentence));
    }
  }

  async #render(users, roles, everything) {
    const content = session.authentication === "on" ? [] : [noUsers()];
    if (!everything)
      content.push(
        notice("note", `You are ${session.user}: you see your own roles. The user root sees all users.`),
      );
    content.push(
      el("h2", {}, "Users"),
      table(
        "Users",
        ["User", "Roles"],
        users.map(({ name, roles: own = [] }) =>
          row(
            [
              el("bdi", {}, name),
              own.length === 0
                ? el("span", { class: "muted" }, "none: this user may do nothing")
                : own.map((role) => [
                    el(
                      "a",
                      {
                        class: "badge accent",
                        href: "#/access",
                        click: (event) => scrollToRole(event, role),
                      },
                      role,
                    ),
                    " ",
                  ]),
            ],
            { "data-test": "user", "data-name": name },
          ),
        ),
      ),
    );
    if (users.length === SHOWN_MAX) content.push(onlyFirst("users"));
    content.push(el("h2", {}, "Roles"));
    if (roles.length === 0)
      content.push(empty("No roles", "A role is made with ", el("code", {}, "inkstone role add NAME"), "."));
    for (const role of roles) content.push(await roleCard(role));
    if (roles.length === SHOWN_MAX) content.push(onlyFirst("roles"));
    fill(this.box, ...content);
  }
}

function onlyFirst(what) {
  return el(
    "p",
    { class: "muted small" },
    `The first ${SHOWN_MAX} ${what} are shown; inkstone ${what.slice(0, -1)} list names all.`,
  );
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
    notice("note", "Sign-in is off: whatever reaches this port may read and change everything."),
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
  const open = end.length === 1 && end[0] === 0;
  if (open && key.length <= 1 && (key[0] ?? 0) === 0) return "every key";
  if (isPrefix(permission))
    return ["keys that begin with ", el("a", { href: link("keys", { prefix: key }) }, shown(key))];
  return open
    ? ["keys from ", shown(key), " on"]
    : ["keys from ", shown(key), " up to, without, ", shown(end)];
}

async function keysOf({ key, end }) {
  const request = {
    key: toBase64(key.length > 0 ? key : concat(key, new Uint8Array([0]))),
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
