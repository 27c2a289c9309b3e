// The view of the keys: search, time and tree at the left, a key or a prefix at the right.

import { CallError, range } from "./api.js";
import { cli } from "./cli.js";
import { go, link } from "./address.js";
import { equal, shown, toBase64 } from "./bytes.js";
import { button, el, empty, failure, fill, meter, refill, toast } from "./dom.js";
import { bytes, count } from "./figures.js";
import { noteRevision } from "./moments.js";
import { every } from "./poll.js";
import { Search } from "./search.js";
import { firstKey, mayReadEverything, mayWrite, mayWriteSomething, session, startingPoints } from "./session.js";
import { TimeBar } from "./time.js";
import { Tree } from "./tree.js";
import { turns } from "./turns.js";

const LARGEST = 8;

function treeHead() {
  return el(
    "div",
    { id: "tree-head", "aria-hidden": "true" },
    el("span", {}, "Name"),
    el("span", {}, "Keys"),
    el("span", {}, "Bytes"),
  );
}

export class KeysView {
  constructor(main) {
    this.params = {};
    this.loading = null; // {rev, done} of the load that is under way
    this.shownRev = undefined; // the revision of the address that the tree shows; null is the present
    this.seen = null; // the store's revision when the tree was loaded or last followed it
    this.turn = turns(); // of updates
    this.tree = new Tree({ selected: (node) => this.#selected(node) });
    this.search = new Search({ changed: (active) => this.#searching(active) });
    this.time = new TimeBar({
      // An editor ends without a change of `params`; one that is open leaves a draft.
      changed: (rev) => go("keys", { ...this.params, edit: null, rev }, { replace: true }),
    });
    this.place = el("div", { class: "tree-box" });
    this.pane = el("section", { id: "pane", "aria-label": "Key" });
    this.side = el(
      "section",
      { class: "side", "aria-label": "Find a key" },
      el("h1", { class: "unseen" }, "Keys"),
      el(
        "div",
        { class: "side-head" },
        this.search.input,
        mayWriteSomething() ? button("New key", { id: "new-key" }, () => this.#newKey()) : "",
      ),
      this.time.element,
      this.search.results,
      this.place,
    );
    this.view = el("div", { class: "keys-view" }, this.side, this.pane);
    fill(main, this.view);
    this.end = every(() => this.#poll());
    this.onScroll = () => this.tree.refresh(this.tree.newest).catch(() => {});
    document.addEventListener("scrollend", this.onScroll, { capture: true });
  }

  close() {
    this.turn();
    this.end();
    document.removeEventListener("scrollend", this.onScroll, { capture: true });
    this.search.close();
    this.time.close();
    this.keyPane?.close();
  }

  async update(params) {
    const isNewest = this.turn();
    const rev = params.rev ?? null;
    this.params = params;
    this.search.revision = rev;
    this.view.classList.toggle("chosen", Boolean(params.key));
    if (this.loading || this.shownRev !== rev) await this.#load(rev);
    else this.#showAgain(rev);
    if (isNewest()) await this.#showPane(params, rev, isNewest);
  }

  // The tree may have been hidden behind a key, and not followed the store.
  #showAgain(rev) {
    this.time.show(rev);
    this.onScroll();
  }

  // Loads come one after the other: a click may change the address while one is under way.
  #load(rev) {
    if (this.loading?.rev === rev) return this.loading.done;
    const before = this.loading?.done;
    const loading = { rev };
    loading.done = (async () => {
      await before?.catch(() => {});
      try {
        if (this.loading === loading) await this.#loadTree(rev);
      } finally {
        if (this.loading === loading) this.loading = null;
      }
    })();
    this.loading = loading;
    return loading.done;
  }

  async #loadTree(rev) {
    const points = startingPoints();
    if (points.length === 0) {
      this.shownRev = rev;
      fill(this.place, nothingToRead());
      return;
    }
    try {
      await this.tree.load(points, rev);
      this.seen = this.tree.newest ?? (await this.#newest());
      this.shownRev = rev;
      noteRevision(this.seen);
      this.time.show(rev, this.seen);
      const tree = mayReadEverything() && this.tree.isEmpty() ? [] : [treeHead(), this.tree.element];
      fill(this.place, ...this.#treeNotes(points, rev), ...tree);
      await this.#reveal(this.params.key ?? this.params.prefix);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      this.#loadFailed(rev, error);
    }
  }

  // The next poll tries again, except a compacted revision, which does not come back.
  #loadFailed(rev, error) {
    this.shownRev = error.compacted ? rev : undefined;
    this.time.show(rev);
    if (error.compacted) this.#showSpan();
    if (!error.needsSignIn)
      fill(
        this.place,
        failure(error.sentence, () => this.#load(rev)),
      );
  }

  // The revisions that can be shown, when the address names one that cannot.
  async #showSpan() {
    this.time.findOldest();
    const now = await this.#newest().catch(() => null);
    this.time.show(this.params.rev ?? null, now);
  }

  // The tree says by itself which level it cannot open.
  async #reveal(name, options) {
    if (name) await this.tree.reveal(name, options).catch(() => {});
  }

  #treeNotes(points, rev) {
    if (!mayReadEverything()) {
      return [el("p", { class: "muted small tree-note" }, `The roles of ${session.user} let it read:`)];
    }
    if (!this.tree.isEmpty()) return [];
    if (rev) return [empty("No keys", "At this revision the store had no keys.")];
    return [
      empty(
        "No keys yet",
        "Make one with “New key”, or with ",
        el("code", {}, cli("put greeting hello")),
        ".",
      ),
    ];
  }

  // The newest revision, from the cheapest call that says it, below the first point that is still permitted.
  async #newest([first, ...others] = startingPoints()) {
    try {
      const { header } = await range({ key: toBase64(firstKey(first)), keys_only: true, limit: "1" });
      noteRevision(header.revision);
      return header.revision;
    } catch (error) {
      if (!error.forbidden || others.length === 0) throw error;
      return this.#newest(others);
    }
  }

  // Resolves to false if something failed that the view shows by itself.
  async #poll() {
    const rev = this.params.rev ?? null;
    if (this.loading || startingPoints().length === 0) return;
    if (this.shownRev !== rev) await this.#load(rev);
    if (this.shownRev !== rev) return false;
    const now = rev ?? (await this.#newest());
    if (rev === null && this.shownRev === null) await this.#follow(now);
    return this.keyPane?.look(now);
  }

  // Shows the newest revision, unless the user went to a past one or searches.
  async #follow(now) {
    if (this.params.rev || this.loading) return;
    this.time.show(null, now);
    if (this.search.input.value) return;
    const moved = now !== this.seen;
    // Notes and heads of an empty tree go with the first key, and come with the last one.
    const wasEmpty = this.tree.isEmpty();
    if (!wasEmpty) await this.tree.refresh(now);
    if (this.params.rev || this.loading) return;
    if (wasEmpty ? moved : this.tree.isEmpty()) await this.#load(null);
    this.seen = now;
    await this.#followMark(moved);
  }

  // The key or prefix of the address may be gone, and may come back.
  async #followMark(moved) {
    const { params } = this;
    const { key, prefix } = params;
    const wasGone = !this.tree.current;
    if (wasGone) await this.#reveal(key ?? prefix, { sparesClosed: true });
    if (key || !prefix || this.params !== params) return;
    if (moved || (wasGone && this.tree.current)) this.#showPrefix(prefix, null);
  }

  #searching(active) {
    this.place.hidden = active;
  }

  #selected(node) {
    const rev = this.params.rev;
    if (node.isPrefix) go("keys", { prefix: node.name, rev });
    else go("keys", { key: node.name, rev });
  }

  async #showPane(params, rev, isNewest) {
    this.keyPane?.close();
    this.keyPane = null;
    if (params.key) return this.#showKey(params, rev, isNewest);
    this.pane.classList.toggle("prefix", Boolean(params.prefix));
    if (params.prefix) {
      await this.#reveal(params.prefix);
      if (isNewest()) this.#showPrefix(params.prefix, rev);
      return;
    }
    this.tree.mark(null);
    fill(
      this.pane,
      empty(
        "Choose a key",
        "The tree shows keys by their slashes, with the number of keys and the bytes below each prefix. ",
        el("kbd", {}, "/"),
        " finds one by name, arrow keys move through the tree.",
      ),
    );
  }

  async #showKey(params, rev, isNewest) {
    this.pane.classList.remove("prefix");
    const { KeyPane } = await import("./key.js");
    if (!isNewest()) return;
    this.keyPane = new KeyPane(this.pane, {
      key: params.key,
      revision: rev,
      show: params.show ?? "value",
      edit: params.edit === "1",
    });
    if (!equal(this.tree.current?.name ?? new Uint8Array(0), params.key)) this.#reveal(params.key);
    await this.keyPane.load();
  }

  #showPrefix(prefix, rev) {
    const node = this.tree.current && equal(this.tree.current.name, prefix) ? this.tree.current : null;
    const known = node && node.count !== null;
    refill(
      this.pane,
      backLink(rev),
      el("h2", { class: "key-name" }, shown(prefix)),
      known
        ? el(
            "dl",
            { class: "facts" },
            fact("Keys", count(node.count, node.atLeast)),
            node.bytes === null ? null : fact("Bytes in the log", bytes(node.bytes, node.estimated)),
          )
        : null,
      el(
        "div",
        { class: "actions" },
        el("a", { class: "button", href: link("watch", { prefix }) }, "Watch this prefix"),
        mayWrite(prefix)
          ? button("New key here", { "data-test": "new-here" }, () => this.#newKey(prefix))
          : null,
      ),
      this.#largestBelow(node, rev),
      el(
        "p",
        { class: "muted small" },
        rev
          ? "Figures are those of the revision that is shown."
          : "The figures follow the store every few seconds while the page is looked at.",
      ),
    );
  }

  // The largest children below a prefix, of those that the tree has.
  #largestBelow(node, rev) {
    if (!node?.children || node.children.length < 2) return null;
    const largest = [...node.children].sort((a, b) => Number(b.bytes) - Number(a.bytes)).slice(0, LARGEST);
    const most = Number(largest[0].bytes) || 1;
    return el(
      "section",
      { class: "below" },
      el("h3", {}, "Largest below"),
      el(
        "ol",
        { class: "bars" },
        largest.map((child) => {
          const target = child.isPrefix ? { prefix: child.name, rev } : { key: child.name, rev };
          return el(
            "li",
            {},
            el("a", { href: link("keys", target) }, shown(child.shownName)),
            bytes(child.bytes, child.estimated),
            meter(Number(child.bytes) / most, { least: 0.005 }),
          );
        }),
      ),
    );
  }

  async #newKey(prefix = this.params.prefix) {
    try {
      const { askForNewKey } = await import("./edit.js");
      const key = await askForNewKey(prefix ?? (mayReadEverything() ? new Uint8Array(0) : firstKey()));
      if (key) go("keys", { key, edit: "1" });
    } catch (error) {
      toast(error.message, "bad");
    }
  }
}

const nothingToRead = () =>
  empty(
    "Nothing to read",
    `The roles of ${session.user} let it read no key. The user root can grant a role a range of keys.`,
  );

export function fact(name, ...value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, ...value));
}

// On a narrow screen the tree and the key are two pages; this leads from the second to the first.
export function backLink(rev) {
  return el("a", { class: "back", href: link("keys", { rev }) }, "‹ All keys");
}
