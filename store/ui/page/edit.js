// Editing a value. A change is saved only if the key is still at the revision that was seen; otherwise the
// user sees both and decides. A text that was not saved is kept while the page is open.

import { userName } from "./api.js";
import {
  escaped,
  fromBase64,
  isPlainText,
  ofText,
  parseEscaped,
  parseHex,
  textOf,
  toAddress,
  toHex,
} from "./bytes.js";
import { ask } from "./dialog.js";
import { compareValues, differenceView } from "./difference.js";
import { button, el, fill, notice } from "./dom.js";
import { grouped } from "./figures.js";
import { parseJson } from "./json.js";
import { isKubernetes } from "./kubernetes.js";
import { mayWrite } from "./session.js";
import { putIfSeen } from "./txn.js";

const drafts = new Map();

addEventListener("beforeunload", (event) => {
  if (drafts.size > 0) event.preventDefault();
});

// A text is its author's: another user that signs in does not see it.
const draftName = (key) => JSON.stringify([userName(), toAddress(key)]);

export const draftOf = (key) => drafts.get(draftName(key)) ?? null;

// Ways to write bytes in a text field.
const FORMS = {
  text: { label: "Text", write: (bytes) => textOf(bytes), read: ofText },
  escapes: { label: "Text with escapes", write: (bytes) => escaped(bytes, true), read: parseEscaped },
  hex: { label: "Hex", write: toHex, read: parseHex },
};

function bestForm(bytes) {
  if (isPlainText(bytes)) return "text";
  return textOf(bytes) === null ? "hex" : "escapes";
}

export class Editor {
  // `kv` is the key as it was seen, null for a key to be created.
  constructor({ key, kv, closed, saved }) {
    Object.assign(this, { key, closed, saved });
    const draft = draftOf(key);
    this.seen = draft?.seen ?? kv?.mod_revision ?? "0";
    this.lease = kv?.lease ?? null;
    this.original = kv ? fromBase64(kv.value) : new Uint8Array(0);
    this.form = draft?.form ?? bestForm(this.original);
    this.area = el("textarea", {
      id: "editor",
      "aria-label": "Value",
      spellcheck: "false",
      autocapitalize: "off",
      dir: "ltr",
      rows: "14",
      input: () => this.#keep(),
      keydown: (event) => this.#pressed(event),
    });
    this.unchanged = FORMS[this.form].write(this.original);
    this.area.value = draft?.text ?? this.unchanged;
    this.choice = el(
      "select",
      { id: "editor-form", "aria-label": "Form of the value", change: () => this.#convert() },
      Object.entries(FORMS).map(([name, { label }]) => el("option", { value: name }, label)),
    );
    this.choice.value = this.form;
    this.problem = el("div", { class: "stack" });
    this.save = button("Save", { class: "primary", id: "save" }, () => this.#save());
    this.cancel = button("Cancel", { id: "cancel" }, () => this.#cancel());
    this.element = el(
      "div",
      { class: "editor" },
      this.#notes(),
      this.area,
      el(
        "div",
        { class: "actions" },
        this.save,
        this.cancel,
        el("label", { class: "spaced" }, "Written as ", this.choice),
      ),
      this.problem,
      el(
        "p",
        { class: "muted small" },
        this.seen === "0"
          ? "The key is created only if it is still not there. Ctrl+Enter saves."
          : `The text is saved only if the key is still at revision ${grouped(this.seen)}. Ctrl+Enter saves.`,
      ),
    );
  }

  focus() {
    this.area.focus();
  }

  #notes() {
    const notes = [];
    if (isKubernetes(this.original))
      notes.push(
        notice(
          "note",
          "This is an object of Kubernetes in its stored form. Change it through the Kubernetes API where you can: its server has caches and checks.",
        ),
      );
    if (this.lease) notes.push(notice("note", "The key keeps its lease."));
    return notes;
  }

  #pressed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.#save();
    }
  }

  // A text that is that of the value is no draft.
  #keep() {
    const text = this.area.value;
    if (text === this.unchanged) drafts.delete(draftName(this.key));
    else drafts.set(draftName(this.key), { text, form: this.form, seen: this.seen });
  }

  #bytes() {
    return FORMS[this.form].read(this.area.value);
  }

  #convert() {
    const wanted = this.choice.value;
    try {
      const bytes = this.#bytes();
      if (wanted === "text" && !isPlainText(bytes))
        throw new Error("The value has bytes that a text field would change or hide.");
      this.form = wanted;
      this.unchanged = FORMS[wanted].write(this.original);
      this.area.value = FORMS[wanted].write(bytes);
      this.#keep();
      fill(this.problem);
    } catch (error) {
      this.choice.value = this.form;
      fill(this.problem, notice("bad", error.message));
    }
  }

  #cancel() {
    drafts.delete(draftName(this.key));
    this.closed();
  }

  // While a text is on its way it stays as it is.
  #setSaving(isSaving) {
    this.area.readOnly = isSaving;
    for (const control of [this.save, this.cancel, this.choice]) control.disabled = isSaving;
  }

  async #save() {
    if (this.save.disabled) return;
    this.#setSaving(true);
    try {
      const value = this.#bytes();
      if (this.#breaksJson(value)) return;
      const { done, revision, now } = await putIfSeen({
        key: this.key,
        seen: this.seen,
        value,
        keepLease: Boolean(this.lease),
      });
      if (done) {
        drafts.delete(draftName(this.key));
        this.saved(revision);
      } else await this.#conflict(now, value);
    } catch (error) {
      fill(this.problem, notice("bad", error.ofChange ?? error.message));
    } finally {
      this.#setSaving(false);
    }
  }

  // A value that was JSON and is no longer is saved on the second try only.
  #breaksJson(value) {
    const json = (bytes) => parseJson(textOf(bytes) ?? "") !== null;
    const warned = this.save.dataset.warned === "yes";
    if (warned || !/^\s*[[{]/.test(textOf(this.original) ?? "") || !json(this.original) || json(value))
      return false;
    this.save.dataset.warned = "yes";
    this.save.textContent = "Save all the same";
    fill(
      this.problem,
      notice("bad", "The value was JSON, and your text is not. Correct it, or save it all the same."),
    );
    return true;
  }

  async #conflict(now, value) {
    const current = now ? fromBase64(now.value) : new Uint8Array(0);
    const compared = await compareValues(current, value);
    const text = now
      ? `The text is not saved: the key was changed since you saw it, from revision ${grouped(this.seen)} to ${grouped(now.mod_revision)}. From its value now to yours:`
      : "The text is not saved: the key was deleted since you saw it. From nothing to your value:";
    fill(
      this.problem,
      el("div", { class: "notice bad", role: "alert", "data-test": "conflict" }, text),
      differenceView(compared),
      el(
        "div",
        { class: "actions" },
        button("Take the value as it is now", { "data-test": "take-current" }, () => this.#cancel()),
        button(
          now ? `Save mine over revision ${grouped(now.mod_revision)}` : "Create it again with mine",
          { class: "danger", "data-test": "save-over" },
          () => {
            this.seen = now?.mod_revision ?? "0";
            this.lease = now?.lease ?? null;
            this.#save();
          },
        ),
      ),
    );
  }
}

// Asks for the name of a new key; resolves to it, or null.
export function askForNewKey(prefix) {
  const problem = el("div");
  const name = el("input", {
    id: "new-key-name",
    type: "text",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    autofocus: true,
    "aria-label": "Name of the new key",
  });
  name.value = escaped(prefix);
  const submit = (event, finish) => {
    event.preventDefault();
    try {
      finish(nameOfNewKey(name.value));
    } catch (error) {
      fill(problem, notice("bad", error.message));
    }
  };
  const key = ask("New key", "new-key-dialog", (finish) =>
    el(
      "form",
      { submit: (event) => submit(event, finish) },
      name,
      el(
        "p",
        { class: "muted small" },
        "Bytes that cannot be typed are written as \\x00, a backslash as \\\\.",
      ),
      problem,
      el(
        "div",
        { class: "actions end" },
        button("Cancel", {}, () => finish(null)),
        el("button", { class: "primary", id: "new-key-go" }, "Write its value"),
      ),
    ),
  );
  name.setSelectionRange(name.value.length, name.value.length);
  return key;
}

function nameOfNewKey(text) {
  const key = parseEscaped(text);
  if (key.length === 0) throw new Error("A key needs a name.");
  if (!mayWrite(key)) throw new Error("Your user may not write this key.");
  return key;
}
