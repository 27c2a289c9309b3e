// Leases with the time that is left and the keys that go with them.

import { call } from "./api.js";
import { cli } from "./cli.js";
import { link } from "./address.js";
import { fromBase64, shown } from "./bytes.js";
import { confirm, question } from "./dialog.js";
import { button, el, empty, failure, fill, fillMeter, meter, refill, row, table, toast } from "./dom.js";
import { counted, grouped, hexId, humanSeconds } from "./figures.js";
import { every } from "./poll.js";
import { turns } from "./turns.js";

const PAGE = 25;
const KEYS_SHOWN = 5;
const REFRESH = 15_000; // ms
// The keys of a lease with more of them than this are asked for once a minute.
const FEW_KEYS = 1000;
const MANY_KEYS_REFRESH = 60_000; // ms

export class LeasesView {
  constructor(main) {
    this.ids = [];
    this.known = new Map(); // ID -> {ttl, granted, at, keys, keysAt, problem}
    this.limit = PAGE;
    this.turn = turns(); // of loads
    this.count = el("span", { class: "muted" });
    this.box = el("div", { id: "leases" });
    fill(
      main,
      el(
        "div",
        { class: "page" },
        el("div", { class: "page-head" }, el("h1", {}, "Leases"), this.count),
        el(
          "p",
          { class: "muted" },
          "A lease ends when its client no longer renews it. The store then deletes its keys.",
        ),
        this.box,
      ),
    );
    this.tick = setInterval(() => this.#tick(), 1000);
    this.end = every(() => this.#load(), REFRESH);
  }

  close() {
    clearInterval(this.tick);
    this.end();
    this.turn();
  }

  async update(params) {
    this.wanted = params.lease ?? null;
    await this.#load();
  }

  // Resolves to false if it failed.
  async #load() {
    const isNewest = this.turn();
    try {
      const { leases = [] } = await call("lease/leases");
      const first = (id) => (id === this.wanted ? 0 : 1);
      const ids = leases
        .map(({ ID }) => ID)
        .sort((a, b) => first(a) - first(b) || (BigInt(a) < BigInt(b) ? -1 : 1));
      const known = await Promise.all(ids.slice(0, this.limit).map(async (id) => [id, await this.#ask(id)]));
      if (!isNewest()) return;
      this.ids = ids;
      this.known = new Map(known);
      this.#render();
    } catch (error) {
      if (!isNewest() || error.needsSignIn) return false;
      // Without a connection, old figures stay.
      if (error.code === 14 && this.box.hasChildNodes()) return false;
      fill(
        this.box,
        failure(error.sentence ?? error.message, () => this.#load()),
      );
      return false;
    }
  }

  async #ask(id) {
    const before = this.known.get(id);
    const keysAge = Date.now() - (before?.keysAt ?? 0);
    const asksKeys = !before?.keys || before.keys.length <= FEW_KEYS || keysAge > MANY_KEYS_REFRESH;
    try {
      const answer = await call("lease/timetolive", { ID: id, keys: asksKeys });
      const keys = asksKeys
        ? { keys: (answer.keys ?? []).map(fromBase64), keysAt: Date.now() }
        : { keys: before.keys, keysAt: before.keysAt };
      return {
        ttl: Number(answer.TTL ?? 0),
        granted: Number(answer.grantedTTL ?? 0),
        at: Date.now(),
        ...keys,
      };
    } catch (error) {
      return { ...before, problem: error.sentence ?? error.message };
    }
  }

  #render() {
    this.count.textContent = this.ids.length === 0 ? "" : counted(this.ids.length, "lease");
    if (this.ids.length === 0) return fill(this.box, noLeases());
    this.left = [];
    const rows = this.ids.slice(0, this.limit).map((id) => this.#row(id));
    const more =
      this.ids.length > this.limit
        ? button(`Show ${PAGE} more`, {}, () => {
            this.limit += PAGE;
            this.#load();
          })
        : null;
    refill(
      this.box,
      el(
        "div",
        { class: "stack" },
        table("Leases", ["Lease", "#Time left", "#Of", "#Keys", "Names", ""], rows),
        more,
      ),
    );
    this.#tick();
  }

  #row(id) {
    const lease = this.known.get(id);
    const name = el("code", { title: `decimal ${id}` }, hexId(id));
    const chosen = id === this.wanted ? { "aria-current": "true", class: "changed" } : {};
    if (!lease || lease.problem)
      return row([name, "", "", "", el("span", { class: "muted" }, lease?.problem ?? ""), ""], chosen);
    const bar = meter(0);
    const time = el("span");
    this.left.push({ lease, time, bar });
    return row(
      [
        name,
        { cell: [time, bar], class: "figure" },
        { cell: humanSeconds(lease.granted), class: "figure", title: counted(lease.granted, "second") },
        { cell: grouped(lease.keys.length), class: "figure" },
        keyList(lease.keys),
        button(
          "Revoke",
          { class: "danger-text", "data-test": "revoke", "data-lease": id, "data-focus": id },
          () => this.#revoke(id),
        ),
      ],
      chosen,
    );
  }

  #tick() {
    if (document.hidden) return;
    for (const { lease, time, bar } of this.left ?? []) {
      const left = Math.max(0, lease.ttl - (Date.now() - lease.at) / 1000);
      const text = left > 0 ? humanSeconds(left) : "ended";
      if (time.textContent !== text) time.textContent = text;
      const share = lease.granted > 0 ? left / lease.granted : 0;
      fillMeter(bar, share, share < 0.2);
    }
  }

  async #revoke(id) {
    const isNewest = question();
    let keys;
    try {
      // As they are now: clients attach keys at any time.
      keys = ((await call("lease/timetolive", { ID: id, keys: true })).keys ?? []).map(fromBase64);
    } catch (error) {
      return toast(error.sentence ?? error.message, "bad");
    }
    if (!isNewest()) return;
    const sure = await confirm({
      title: `Revoke lease ${hexId(id)}?`,
      agree: "Revoke",
      danger: true,
      content: [
        el(
          "p",
          {},
          keys.length === 0
            ? "No key is attached to it."
            : `${counted(keys.length, "key is", "keys are")} deleted with it:`,
        ),
        keyList(keys),
      ],
    });
    if (!sure) return;
    try {
      await call("lease/revoke", { ID: id });
      toast("The lease is revoked.");
      await this.#load();
    } catch (error) {
      toast(error.ofChange ?? error.message, "bad");
    }
  }
}

const noLeases = () =>
  empty(
    "No leases",
    "A client makes one with ",
    el("code", {}, cli("lease grant 60")),
    " and puts keys with it.",
  );

function keyList(keys) {
  if (keys.length === 0) return "";
  const items = keys
    .slice(0, KEYS_SHOWN)
    .map((key) => el("div", {}, el("a", { href: link("keys", { key }) }, shown(key))));
  const rest = keys.length - items.length;
  return el(
    "div",
    {},
    items,
    rest > 0 ? el("div", { class: "muted small" }, `and ${grouped(rest)} more`) : null,
  );
}
