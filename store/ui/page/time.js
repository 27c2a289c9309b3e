// The store as it was at a revision: a slider over the revisions that are kept.

import { button, el, fill } from "./dom.js";
import { grouped } from "./figures.js";
import { oldestRevision } from "./past.js";

const DELAY = 120; // ms

export class TimeBar {
  // `changed` is called with a revision, or null for the present.
  constructor({ changed }) {
    this.changed = changed;
    this.now = null; // the newest revision, null until it is known
    this.oldest = null; // the oldest one that is kept, null until it is known
    this.revision = null;
    this.timer = null;
    this.abort = null;
    this.label = el("span", { class: "time-label" });
    this.toggle = button(
      "Look back",
      { id: "look-back", "aria-expanded": "false", "aria-controls": "time-panel" },
      () => this.#toggle(),
    );
    this.slider = el("input", {
      id: "revision-slider",
      type: "range",
      min: "1",
      step: "1",
      "aria-label": "Revision",
      input: () => this.#moved(this.slider.value),
    });
    this.number = el("input", {
      id: "revision",
      type: "text",
      inputmode: "numeric",
      "aria-label": "Revision number",
      size: "9",
      change: () => this.#moved(this.number.value.replace(/[^0-9]/g, "")),
    });
    this.bounds = el("span", { class: "muted small" });
    this.panel = el(
      "div",
      { id: "time-panel", hidden: true },
      this.slider,
      el(
        "div",
        { class: "time-steps" },
        button("‹", { "aria-label": "One revision earlier", "data-test": "earlier" }, () => this.#step(-1n)),
        this.number,
        button("›", { "aria-label": "One revision later", "data-test": "later" }, () => this.#step(1n)),
        button("Now", { "data-test": "now" }, () => this.changed(null)),
        this.bounds,
      ),
    );
    this.element = el(
      "div",
      { id: "time" },
      el("div", { class: "time-head" }, this.label, this.toggle),
      this.panel,
    );
  }

  // Shows the revision in the address, and the store's newest one.
  show(revision, now) {
    this.revision = revision;
    if (now) this.now = BigInt(now);
    this.element.classList.toggle("past", revision !== null);
    fill(
      this.label,
      revision === null
        ? `Now${this.now === null ? "" : `, revision ${grouped(this.now)}`}`
        : el("strong", {}, `As it was at revision ${grouped(revision)}`),
    );
    this.toggle.textContent = revision === null ? (this.panel.hidden ? "Look back" : "Close") : "Back to now";
    if (revision !== null && this.panel.hidden) this.#open();
    this.#place();
  }

  close() {
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  #toggle() {
    if (this.revision !== null) {
      this.changed(null);
      return;
    }
    if (this.panel.hidden) this.#open();
    else this.panel.hidden = true;
    this.toggle.setAttribute("aria-expanded", String(!this.panel.hidden));
    this.show(null);
  }

  #open() {
    this.panel.hidden = false;
    this.toggle.setAttribute("aria-expanded", "true");
    this.findOldest();
  }

  // Compaction moves it, so it is asked for each time.
  async findOldest() {
    this.abort?.abort();
    this.abort = new AbortController();
    try {
      this.oldest = BigInt(await oldestRevision(this.abort.signal));
      if (this.now !== null && this.now < this.oldest) this.now = this.oldest;
    } catch {
      // The slider begins where it did; a compacted revision is refused with its reason.
    }
    this.#place();
  }

  #place() {
    const oldest = this.oldest ?? 1n;
    const shown = BigInt(this.revision ?? this.now ?? oldest);
    this.slider.min = String(oldest);
    this.slider.max = String(this.now ?? shown);
    this.slider.value = String(shown);
    this.slider.setAttribute("aria-valuetext", this.revision === null ? "now" : `revision ${shown}`);
    if (document.activeElement !== this.number) this.number.value = String(shown);
    const isKnown = this.oldest !== null && this.now !== null;
    this.bounds.textContent = isKnown ? `${grouped(oldest)} to ${grouped(this.now)} are kept` : "";
  }

  #step(by) {
    if (this.now !== null) this.#moved(String(BigInt(this.revision ?? this.now) + by));
  }

  #moved(text) {
    if (text === "" || this.now === null) return;
    let revision = BigInt(text);
    if (revision < (this.oldest ?? 1n)) revision = this.oldest ?? 1n;
    clearTimeout(this.timer);
    const target = revision >= this.now ? null : String(revision);
    this.number.value = String(revision > this.now ? this.now : revision);
    this.timer = setTimeout(() => this.changed(target), DELAY);
  }
}
