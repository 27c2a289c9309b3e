// A key's history: the newest version, then the one at the revision before it, and so on back to where the
// key was created or compaction has removed it. What was before a deletion is found by a watch of this key
// from the oldest revision that is kept.

import { CallError, range } from "./api.js";
import { link } from "./address.js";
import { bringBack } from "./bringback.js";
import { fromBase64, toBase64 } from "./bytes.js";
import { compareValues, differenceView, sizeOfChange } from "./difference.js";
import { button, el, empty, failure, fill, notice } from "./dom.js";
import { grouped, humanBytes, period } from "./figures.js";
import { momentsOf } from "./moments.js";
import { mayWrite } from "./session.js";
import { eventsOf } from "./past.js";
import { turns } from "./turns.js";

const STEPS = 20;
// Bytes of values after which the user is asked before older ones are read.
const WALK_BYTES_MAX = 4 * 1024 * 1024;
const EVENTS_MAX = 1000;
const NOTHING = new Uint8Array(0);

export class HistoryView {
  // `kv` is the version to begin with, null if the key is not there.
  constructor({ key, kv, revision, restored }) {
    Object.assign(this, { key, restored, revision });
    // Versions, the newest first: {revision, value: bytes or null if deleted, isFirst, isCut}. Those before a
    // version that is cut are not known.
    this.versions = kv ? [versionOf(kv)] : [];
    this.current = kv && !revision ? kv.mod_revision : null; // the version that the key has now
    this.end = null; // why there is nothing older
    this.chosen = 0;
    this.turn = turns(); // of versions that are shown
    this.measuring = turns();
    this.abort = new AbortController();
    this.list = el("ol", { class: "versions", "aria-label": "Versions", "data-test": "versions" });
    this.foot = el("div", { class: "versions-foot" });
    this.detail = el("div", { class: "version", id: "version", "aria-live": "polite" });
    this.element = el("div", { class: "history" }, el("div", {}, this.list, this.foot), this.detail);
  }

  close() {
    this.turn();
    this.measuring();
    this.abort.abort();
  }

  async load() {
    if (this.versions.length === 0) await this.#findAll();
    else await this.#older();
  }

  // Reads more versions. A failure leaves those that are shown, and the same is offered again.
  async #read(text, task) {
    this.measuring();
    fill(this.foot, el("p", { class: "muted small", role: "status" }, text));
    try {
      await task();
      if (!this.abort.signal.aborted) await this.#render();
    } catch (error) {
      if (this.abort.signal.aborted) return;
      if (!(error instanceof CallError)) throw error;
      if (this.versions.length > 0) await this.#render();
      fill(
        this.foot,
        failure(error.sentence, () => this.#read(text, task)),
      );
    }
  }

  #older() {
    return this.#read("Reading…", () => this.#walk(STEPS));
  }

  #findAll() {
    return this.#read("Searching the revisions that are kept…", () => this.#search());
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
        const { signal } = this.abort;
        const revision = String(BigInt(oldest.revision) - 1n);
        const { kvs = [] } = await range({ key: toBase64(this.key), revision }, { signal });
        if (kvs.length === 0) this.end = "created";
        else this.versions.push(versionOf(kvs[0]));
        bytes += this.versions[this.versions.length - 1].value?.length ?? 0;
      } catch (error) {
        if (!(error instanceof CallError) || !error.compacted) throw error;
        this.end = "compacted";
      }
    }
  }

  async #render() {
    if (this.versions.length === 0) {
      const isAll = this.end === "all";
      const text = isAll
        ? "The revisions that are kept do not have this key."
        : "No version was found in time.";
      fill(this.element, empty("No history", text));
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
    this.#measure().catch((error) => console.error(error));
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
    const said = (text) => el("p", { class: "muted small" }, text);
    const before = button("Look before that", { "data-test": "before" }, () => this.#findAll());
    const earlier = button("Show earlier ones", { "data-test": "older" }, () => this.#older());
    const texts = {
      compacted: "Compaction removed the versions before this one.",
      all: "These are all versions that are kept.",
      part: "The key has more versions than the page could read; some newer ones are left out.",
      created: "The key was created here. It may have been there before, and deleted.",
    };
    if (this.end === null) return [earlier];
    return [said(texts[this.end]), this.end === "created" ? before : null];
  }

  // The size of each change, one after the other, so that long values do not hold up the page.
  async #measure() {
    const isNewest = this.measuring();
    for (const [at, version] of this.versions.entries()) {
      const before = this.#before(at);
      if (version.value === null || before === undefined) continue;
      version.size ??= sizeOfChange(await compareValues(before?.value ?? NOTHING, version.value));
      if (!isNewest()) return;
      fill(version.changed, version.size);
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  // The version before one: null where it was created, undefined where it is not known.
  #before(at) {
    const { isFirst, isCut } = this.versions[at];
    if (isFirst) return null;
    return isCut ? undefined : this.versions[at + 1];
  }

  async #choose(at) {
    const isNewest = this.turn();
    this.chosen = at;
    const version = this.versions[at];
    const before = this.#before(at);
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
        el("div", { class: "actions" }, this.#actions(version)),
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
    else if (before === undefined)
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
    if (isNewest()) fill(this.detail, ...content);
  }

  // On a narrow screen the difference is below the list.
  async #chosenByUser(at) {
    await this.#choose(at);
    if (this.detail.getBoundingClientRect().top > innerHeight * 0.7)
      this.detail.scrollIntoView({ behavior: "smooth" });
  }

  #actions(version) {
    const view = el(
      "a",
      { class: "button", href: link("keys", { key: this.key, rev: version.revision }) },
      "The store at that moment",
    );
    if (version.value === null || version.revision === this.current || !mayWrite(this.key)) return [view];
    return [
      view,
      button("Bring this value back", { class: "primary", "data-test": "bring-back" }, async () => {
        if (await bringBack(this.key, version.value, version.revision)) this.restored();
      }),
    ];
  }

  // Takes the events that are kept, the oldest ones first. Newer versions that were read before stay.
  async #search() {
    const { events, complete } = await eventsOf(this.key, EVENTS_MAX, this.abort.signal);
    const found = events
      .map(({ type, kv }) =>
        type === "DELETE" ? { revision: kv.mod_revision, value: null, isFirst: false } : versionOf(kv),
      )
      .filter(({ revision }) => !this.revision || BigInt(revision) <= BigInt(this.revision))
      .reverse();
    const newest = BigInt(found[0]?.revision ?? 0);
    const kept = this.versions.filter(({ revision }) => BigInt(revision) > newest);
    if (kept.length > 0) kept[kept.length - 1].isCut = !complete;
    const chosen = this.versions[this.chosen]?.revision;
    this.versions = [...kept, ...found];
    this.end = complete ? "all" : "part";
    this.chosen = Math.max(
      0,
      this.versions.findIndex(({ revision }) => revision === chosen),
    );
    if (this.versions[this.chosen]?.value === null)
      this.chosen = Math.max(
        0,
        this.versions.findIndex(({ value }) => value !== null),
      );
  }
}

function versionOf(kv) {
  return { revision: kv.mod_revision, value: fromBase64(kv.value), isFirst: (kv.version ?? "0") === "1" };
}
