// Leases with the time that is left and the keys that go with them.

import { call } from "./api.js";
import { cli } from "./cli.js";
import { link } from "./address.js";
import { fromBase64, shown } from "./bytes.js";
import { button, confirm, el, empty, fill, notice, row, table, toast } from "./dom.js";
import { grouped, hexId, humanSeconds } from "./figures.js";
import { every } from "./poll.js";

const PAGE = 25;
const KEYS_SHOWN = 5;
const REFRESH = 15_000; // ms

export class LeasesView {
  constructor(main) {
    this.ids = [];
    this.known = new Map(); // ID -> {ttl, granted, keys, at, elements}
    this.limit = PAGE;
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
          "A lease ends when its client no longer renews it; its keys are deleted with it.",
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
  }

  async update(params) {
    this.wanted = params.lease ?? null;
    await this.#load();
  }

  async #load() {
    try {
      const { leases = [] } = await call("lease/leases");
      const first = (id) => (id === this.wanted ? 0 : 1);
      this.ids = leases
        .map(({ ID }) => ID)
        .sort((a, b) => first(a) - first(b) || (BigInt(a) < BigInt(b) ? -1 : 1));
      await Promise.all(this.ids.slice(0, this.limit).map((id) => this.#ask(id)));
      this.#render();
    } catch (error) {
      if (!error.needsSignIn) fill(this.box, notice("bad", error.sentence ?? error.message));
    }
  }

  // Keys are asked for once: a lease may have very many.
  async #ask(id) {
    const before = this.known.get(id);
    try {
      const {
        TTL = "0",
        grantedTTL = "0",
        keys = [],
      } = await call("lease/timetolive", { ID: id, keys: !before });
      this.known.set(id, {
        ttl: Number(TTL),
        granted: Number(grantedTTL),
        keys: before?.keys ?? keys.map(fromBase64),
        at: Date.now(),
      });
    } catch (error) {
      this.known.set(id, { problem: error.sentence ?? error.message, at: Date.now() });
    }
  }

  #render() {
    this.count.textContent =
      this.ids.length === 0 ? "" : this.ids.length === 1 ? "1 lease" : `${grouped(this.ids.length)} leases`;
    if (this.ids.length === 0) {
      fill(
        this.box,
        empty(
          "No leases",
          "A client makes one with ",
          el("code", {}, cli("lease grant 60")),
          " and puts keys with it.",
        ),
      );
      return;
    }
    this.left = [];
    const rows = this.ids.slice(0, this.limit).map((id) => this.#row(id));
    const more =
      this.ids.length > this.limit
        ? button(`Show ${PAGE} more`, {}, () => {
            this.limit += PAGE;
            this.#load();
          })
        : null;
    fill(
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
    const bar = el("span");
    const meter = el("div", { class: "meter", "aria-hidden": "true" }, bar);
    const time = el("span");
    this.left.push({ lease, time, bar, meter });
    return row(
      [
        name,
        { cell: [time, meter], class: "figure" },
        { cell: humanSeconds(lease.granted), class: "figure", title: `${grouped(lease.granted)} seconds` },
        { cell: grouped(lease.keys.length), class: "figure" },
        keyList(lease.keys),
        button("Revoke", { class: "danger-text", "data-test": "revoke", "data-lease": id }, () =>
          this.#revoke(id),
        ),
      ],
      chosen,
    );
  }

  #tick() {
    if (document.hidden) return;
    for (const { lease, time, bar, meter } of this.left ?? []) {
      const left = Math.max(0, lease.ttl - (Date.now() - lease.at) / 1000);
      const text = left > 0 ? humanSeconds(left) : "ended";
      if (time.textContent !== text) time.textContent = text;
      const share = lease.granted > 0 ? left / lease.granted : 0;
      bar.style.width = `${Math.min(100, 100 * share)}%`;
      meter.classList.toggle("low", share < 0.2);
    }
  }

  async #revoke(id) {
    let keys;
    try {
      // As they are now: clients attach keys at any time.
      keys = ((await call("lease/timetolive", { ID: id, keys: true })).keys ?? []).map(fromBase64);
    } catch (error) {
      return toast(error.sentence ?? error.message, "bad");
    }
    const sure = await confirm({
      title: `Revoke lease ${hexId(id)}?`,
      agree: "Revoke",
      danger: true,
      content: [
        el(
          "p",
          {},
          keys.length === 0
            ? "No key goes with it."
            : `${keys.length === 1 ? "One key is" : `${grouped(keys.length)} keys are`} deleted with it:`,
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
