// A key's history: the newest version, then the one at the revision before it, and so on back to where the
// key was created or compaction has removed it. What was before a deletion is found by a watch of this key
// from the oldest revision that is kept.

import { CallError, range } from "./api.js";
import { link } from "./address.js";
import { bringBack } from "./bringback.js";
import { fromBase64, toBase64 } from "./bytes.js";
import { compareValues, differenceView, sizeOfChange } from "./difference.js";
import { button, el, empty, fill, notice } from "./dom.js";
import { grouped, humanBytes, period } from "./figures.js";
import { momentsOf } from "./moments.js";
import { mayWrite } from "./session.js";
import { eventsOf } from "./past.js";

const STEPS = 20;
// Bytes of values after which the user is asked before older ones are read.
const WALK_BYTES_MAX = 4 * 1024 * 1024;
const EVENTS_MAX = 1000;
const NOTHING = new Uint8Array(0);

export class HistoryView {
  // `kv` is the version to begin with, null if the key is not there.
  constructor({ key, kv, revision, restored }) {
    Object.assign(this, { key, restored, revision });
    // Versions, the newest first: {revision, value: bytes or null if deleted, isFirst}.
    this.versions = kv ? [versionOf(kv)] : [];
    this.end = null; // why there is nothing older
    this.chosen = 0;
    this.list = el("ol", { class: "versions", "aria-label": "Versions", "data-test": "versions" });
    this.foot = el("div", { class: "versions-foot" });
    this.detail = el("div", { class: "version", id: "version", "aria-live": "polite" });
    this.element = el("div", { class: "history" }, el("div", {}, this.list, this.foot), this.detail);
  }

  async load() {
    if (this.versions.length === 0) return this.#findAll();
    await this.#walk(STEPS);
    await this.#render();
  }

  async #walk(steps) {
    let bytes = 0;
    for (let step = 0; step < steps && bytes < WALK_BYTES_MAX && this.end === null; step++) {
      const oldest = this.versions[this.versions.length - 1];
      if (oldest.isFirst) {
        this.end = "created";
        break;
      }
      try {
        const { kvs = [] } = await range({
          key: toBase64(this.key),
          revision: String(BigInt(oldest.revision) - 1n),
        });
        if (kvs.length === 0) this.end = "created";
        else this.versions.push(versionOf(kvs[0]));
        bytes += this.versions[this.versions.length - 1].value.length;
      } catch (error) {
        if (!(error instanceof CallError) || !error.compacted) throw error;
        this.end = "compacted";
      }
    }
  }

  async #render() {
    if (this.versions.length === 0) {
      fill(this.element, empty("No history", "In the revisions that are kept there is no such key."));
      return;
    }
    fill(this.list, ...this.versions.map((version, at) => this.#item(version, at)));
    const timeless = this.versions.every(({ revision }) => period(momentsOf(revision)) === null);
    fill(
      this.foot,
      ...this.#more(),
      timeless
        ? el(
            "p",
            { class: "muted small" },
            "The store counts changes and keeps no times. Where this page saw a change itself, it says when.",
          )
        : null,
    );
    await this.#choose(this.chosen);
    this.#measure();
  }

  #item(version, at) {
    const what = version.value === null ? "deleted" : version.isFirst ? "created" : "changed";
    const size = version.value === null ? "" : humanBytes(version.value.length);
    const changed = el("span", { class: "change" });
    version.changed = changed;
    return el(
      "li",
      {},
      el(
        "button",
        {
          type: "button",
          class: "version-choice",
          "aria-controls": "version",
          "data-test": "version",
          "data-revision": version.revision,
          click: () => this.#chosenByUser(at),
        },
        el("span", { class: "figure" }, grouped(version.revision)),
        el("span", { class: `what ${what}` }, what),
        changed,
        el("span", { class: "figure muted" }, size),
      ),
    );
  }

  #more() {
    const before = button("Look before that", { "data-test": "before" }, () => this.#findAll());
    if (this.end === null)
      return [button("Show earlier ones", { "data-test": "older" }, () => this.#older())];
    if (this.end === "compacted")
      return [el("p", { class: "muted small" }, "What was before is compacted: no longer kept.")];
    if (this.end === "all") return [el("p", { class: "muted small" }, "This is all that is kept.")];
    if (this.end === "many")
      return [
        el(
          "p",
          { class: "muted small" },
          "These are the oldest that are kept; there are too many to show all.",
        ),
      ];
    return [
      el(
        "p",
        { class: "muted small" },
        "The key was created here. It may have been there before, and deleted.",
      ),
      before,
    ];
  }

  async #older() {
    fill(this.foot, el("p", { class: "muted small" }, "Reading…"));
    await this.#walk(STEPS);
    await this.#render();
  }

  // The size of each change, one after the other, so that long values do not hold up the page.
  async #measure() {
    for (const [at, version] of this.versions.entries()) {
      const before = this.versions[at + 1];
      if (version.value === null || version.measured || (!before && !version.isFirst)) continue;
      version.measured = sizeOfChange(
        await compareValues(version.isFirst ? NOTHING : (before?.value ?? NOTHING), version.value),
      );
      version.changed?.replaceChildren(version.measured);
      await new Promise((resolve) => setTimeout(resolve));
    }
    for (const version of this.versions) if (version.measured) fill(version.changed, version.measured);
  }

  async #choose(at) {
    this.chosen = at;
    const version = this.versions[at];
    const before = version.isFirst ? null : this.versions[at + 1];
    for (const [place, item] of [...this.list.children].entries()) {
      item.firstChild.setAttribute("aria-current", place === at ? "true" : "false");
    }
    const when = period(momentsOf(version.revision));
    const content = [
      el(
        "div",
        { class: "version-head" },
        el(
          "h3",
          {},
          `Revision ${grouped(version.revision)}`,
          when ? el("span", { class: "muted when" }, when) : "",
        ),
        el("div", { class: "actions" }, this.#actions(version, at)),
      ),
    ];
    if (version.value === null)
      content.push(
        el(
          "p",
          { class: "muted" },
          "The key was deleted here. To bring a value back, choose the version before.",
        ),
      );
    else if (!before && !version.isFirst)
      content.push(
        notice("note", "The version before this one is not known, so there is no difference to show."),
      );
    else {
      const compared = await compareValues(before?.value ?? NOTHING, version.value);
      const what = before?.value
        ? `Changed since revision ${grouped(before.revision)}, as ${compared.reading}: `
        : `Created with this value, as ${compared.reading}: `;
      content.push(el("p", { class: "muted" }, what, sizeOfChange(compared)), differenceView(compared));
    }
    if (this.chosen === at) fill(this.detail, ...content);
  }

  // On a narrow screen the difference is below the list.
  async #chosenByUser(at) {
    await this.#choose(at);
    if (this.detail.getBoundingClientRect().top > innerHeight * 0.7)
      this.detail.scrollIntoView({ behavior: "smooth" });
  }

  #actions(version, at) {
    const view = el(
      "a",
      { class: "button", href: link("keys", { key: this.key, rev: version.revision }) },
      "The store at that moment",
    );
    const newest = at === 0 && !this.revision;
    if (version.value === null || newest || !mayWrite(this.key)) return [view];
    return [
      view,
      button("Bring this value back", { class: "primary", "data-test": "bring-back" }, async () => {
        if (await bringBack(this.key, version.value, version.revision)) this.restored();
      }),
    ];
  }

  async #findAll() {
    fill(
      this.foot,
      el("p", { class: "muted small", role: "status" }, "Searching the revisions that are kept…"),
    );
    try {
      const { events, complete } = await eventsOf(this.key, EVENTS_MAX);
      const found = events.map(({ type, kv }) =>
        type === "DELETE" ? { revision: kv.mod_revision, value: null, isFirst: false } : versionOf(kv),
      );
      if (found.length > 0) this.versions = found.reverse();
      this.end = complete ? "all" : "many";
      const lastValue = this.versions.findIndex(({ value }) => value !== null);
      if (this.versions[this.chosen]?.value === null && lastValue >= 0) this.chosen = lastValue;
      this.chosen = Math.min(this.chosen, this.versions.length - 1);
      await this.#render();
    } catch (error) {
      fill(this.foot, notice("bad", error.sentence ?? error.message));
    }
  }
}

function versionOf(kv) {
  return { revision: kv.mod_revision, value: fromBase64(kv.value), isFirst: (kv.version ?? "0") === "1" };
}
