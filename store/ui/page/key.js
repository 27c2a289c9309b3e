// One key: its value, when it changed, and what can be done with it.

import { CallError, range } from "./api.js";
import { go, link } from "./address.js";
import { escaped, fromBase64, shown, toBase64 } from "./bytes.js";
import { confirm } from "./dialog.js";
import { button, el, empty, failure, fill, notice, refill, tabList, toast } from "./dom.js";
import { bytes, grouped, hexId, period } from "./figures.js";
import { draftOf, Editor } from "./edit.js";
import { HistoryView } from "./history.js";
import { backLink, fact } from "./keys.js";
import { momentsOf } from "./moments.js";
import { mayWrite } from "./session.js";
import { turns } from "./turns.js";
import { deleteIfSeen } from "./txn.js";
import { bringBack } from "./bringback.js";
import { ValueView } from "./value.js";

// As in page.css.
const NARROW = "(max-width: 46rem)";

export class KeyPane {
  constructor(place, { key, revision, show, edit }) {
    Object.assign(this, { place, key, revision, show, edit });
    this.kv = null;
    this.failed = false; // the last load, in a way that another may not
    this.lookedAt = null; // the store's revision at the last look
    this.closed = false;
    this.turn = turns(); // of loads
    this.history = null;
    this.stale = el("div");
  }

  close() {
    this.closed = true;
    this.turn();
    this.history?.close();
    this.place.removeAttribute("aria-busy");
  }

  async load() {
    if (this.closed) return;
    const isNewest = this.turn();
    this.place.setAttribute("aria-busy", "true");
    try {
      const kv = await this.#read();
      if (!isNewest()) return;
      this.kv = kv;
      this.failed = false;
      await this.#render();
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      if (isNewest()) this.#renderFailure(error);
    } finally {
      if (isNewest()) this.place.removeAttribute("aria-busy");
    }
  }

  #renderFailure(error) {
    this.failed = !error.compacted && !error.forbidden;
    fill(
      this.place,
      backLink(this.revision),
      this.#title(),
      failure(error.sentence, () => this.load()),
    );
  }

  async #read(more = {}) {
    const request = { key: toBase64(this.key), ...more };
    if (this.revision) request.revision = this.revision;
    const { kvs = [] } = await range(request);
    return kvs[0] ?? null;
  }

  // Notes a change that took place after the value was shown. `now` is the store's newest revision. Resolves to
  // false if a load failed.
  async look(now) {
    if (this.failed) {
      await this.load();
      return !this.failed;
    }
    if (this.revision || this.closed || now === this.lookedAt) return;
    const shownNow = this.kv;
    const kv = await this.#read({ keys_only: true });
    if (this.closed || this.kv !== shownNow) return;
    this.lookedAt = now;
    const current = kv?.mod_revision ?? "0";
    if (current !== (shownNow?.mod_revision ?? "0")) this.#renderStale(kv, current);
  }

  #renderStale(kv, current) {
    if (this.stale.dataset.revision === current) return;
    this.stale.dataset.revision = current;
    const what = kv
      ? `This key changed: it is at revision ${grouped(current)} now.`
      : "This key was deleted.";
    const show = button("Show it as it is now", { "data-test": "show-now" }, () => this.load());
    fill(this.stale, notice("note", what, " ", show));
  }

  #title() {
    return el(
      "h2",
      { class: "key-name", tabindex: "-1", "data-test": "key-name", "data-name": escaped(this.key) },
      shown(this.key),
    );
  }

  async #render() {
    this.history?.close();
    this.history = null;
    fill(this.stale);
    delete this.stale.dataset.revision;
    const draft = draftOf(this.key);
    const editing = !this.revision && mayWrite(this.key) && (this.edit || (draft && !this.kv));
    if (!this.kv && !editing && this.show !== "history") return this.#renderAbsent();
    const content = el("div", { id: "key-content" });
    refill(
      this.place,
      backLink(this.revision),
      this.#title(),
      this.#past(),
      this.stale,
      this.#facts(),
      this.#bar(),
      content,
    );
    this.#takeFocus();
    if (this.show === "history") return this.#renderHistory(content);
    if (editing && this.kv && this.edit) toast("This key exists already: you edit its value.", "note");
    if (editing) return this.#renderEditor(content);
    if (draft)
      content.append(
        notice(
          "note",
          "You have a text for this key that is not saved. ",
          button("Continue editing", {}, () => this.#renderEditor(content)),
        ),
      );
    content.append(new ValueView(this.key, fromBase64(this.kv.value)).element);
  }

  // On a narrow screen the tree, and the focus with it, is hidden now.
  #takeFocus() {
    if (this.place.contains(document.activeElement)) return;
    if (matchMedia(NARROW).matches) this.place.querySelector("h2").focus({ preventScroll: true });
  }

  #renderAbsent() {
    const at = this.revision ? ` at revision ${grouped(this.revision)}` : "";
    const make =
      !this.revision && mayWrite(this.key)
        ? button("Create it", { class: "primary", "data-test": "make" }, () => {
            this.edit = true;
            this.#render();
          })
        : null;
    const past = el(
      "a",
      { class: "button", href: this.#link({ show: "history" }), "data-test": "absent-history" },
      "Its history",
    );
    fill(
      this.place,
      backLink(this.revision),
      this.#title(),
      this.stale,
      empty(`There is no such key${at}`, "It may have been deleted. Its history says so."),
      el("div", { class: "actions" }, make, past),
    );
  }

  #past() {
    if (!this.revision) return null;
    return notice(
      "past",
      `You see this key as it was at revision ${grouped(this.revision)}. `,
      el("a", { href: link("keys", { key: this.key }) }, "Show it now"),
    );
  }

  #facts() {
    if (!this.kv) return null;
    const { mod_revision, create_revision, version, lease, value = "" } = this.kv;
    const size = value
      ? Math.floor((value.length * 3) / 4) - (value.endsWith("==") ? 2 : value.endsWith("=") ? 1 : 0)
      : 0;
    const when = period(momentsOf(mod_revision));
    return el(
      "dl",
      { class: "facts", id: "facts" },
      fact(
        "Changed",
        el(
          "span",
          { class: "figure", title: "the revision of its last change" },
          `revision ${grouped(mod_revision)}`,
        ),
      ),
      when ? fact("When", when) : null,
      fact("Created", el("span", { class: "figure" }, `revision ${grouped(create_revision)}`)),
      fact(
        "Version",
        el("span", { class: "figure", title: "changes since it was created" }, grouped(version)),
      ),
      fact("Value", bytes(size)),
      lease ? fact("Lease", el("a", { href: link("leases", { lease }) }, hexId(lease))) : null,
    );
  }

  #link(more) {
    return link("keys", { key: this.key, rev: this.revision, ...more });
  }

  #bar() {
    const tab = (name, label) =>
      el(
        "a",
        {
          role: "tab",
          href: this.#link({ show: name === "value" ? null : name }),
          "aria-selected": String(this.show === name),
          tabindex: this.show === name ? "0" : "-1",
          "data-test": `tab-${name}`,
          "aria-controls": "key-content",
        },
        label,
      );
    return el(
      "div",
      { class: "key-bar" },
      tabList("Key", [tab("value", "Value"), tab("history", "History")]),
      el("div", { class: "actions" }, this.#actions()),
    );
  }

  #actions() {
    if (!this.kv) return null;
    if (!mayWrite(this.key))
      return el("span", { class: "muted small" }, "Your user may read this key and not change it.");
    if (this.revision)
      return button("Bring this value back", { class: "primary", "data-test": "bring-back" }, () =>
        this.#bringBack(),
      );
    return [
      button("Edit", { id: "edit" }, () => this.#renderEditor(document.getElementById("key-content"))),
      button("Delete", { id: "delete", class: "danger-text" }, () => this.#delete()),
    ];
  }

  async #bringBack() {
    const back = await bringBack(this.key, fromBase64(this.kv.value), this.kv.mod_revision);
    if (back && !this.closed) go("keys", { key: this.key });
  }

  #renderEditor(place) {
    const editor = new Editor({
      key: this.key,
      kv: this.kv,
      closed: () => this.#endEdit(),
      saved: async (revision) => {
        toast(`Saved as revision ${grouped(revision)}.`);
        await this.#endEdit();
        if (!this.closed) document.getElementById("edit")?.focus();
      },
    });
    fill(place, editor.element);
    editor.focus();
  }

  // After a reload the editor stays closed. The address may be that of another key now.
  #endEdit() {
    if (this.closed) return;
    this.edit = false;
    if (location.hash.includes("edit=1")) history.replaceState(null, "", link("keys", { key: this.key }));
    return this.load();
  }

  async #delete() {
    const seen = this.kv.mod_revision;
    const sure = await confirm({
      title: "Delete this key?",
      agree: "Delete",
      danger: true,
      test: "confirm-delete",
      content: [
        el("p", { class: "key-name" }, shown(this.key)),
        el(
          "p",
          {},
          `It is deleted only if it is still at revision ${grouped(seen)}, as you see it. Its history stays until compaction, so its value can be brought back.`,
        ),
      ],
    });
    if (!sure) return;
    try {
      const { done, revision } = await deleteIfSeen({ key: this.key, seen });
      if (done) toast(`Deleted with revision ${grouped(revision)}.`);
      else toast("The key is not deleted: it changed since you saw it.", "bad");
      await this.load();
    } catch (error) {
      toast(error.ofChange ?? error.message, "bad");
    }
  }

  async #renderHistory(content) {
    this.history = new HistoryView({
      key: this.key,
      kv: this.kv,
      revision: this.revision,
      restored: () => (this.closed ? null : go("keys", { key: this.key })),
    });
    content.append(this.history.element);
    await this.history.load();
  }
}
