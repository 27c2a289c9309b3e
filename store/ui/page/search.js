// Finding a key: those that begin with a text are one indexed call. Those that contain it need a walk over the
// names: a page of it where nothing begins with the text, more only when the user asks.

import { range } from "./api.js";
import {
  ZERO,
  concat,
  escaped,
  fromBase64,
  isEmptySpan,
  overlapOf,
  parseEscaped,
  rangeOf,
  shown,
  spanOfPrefix,
  toBase64,
} from "./bytes.js";
import { button, el, empty, fill, notice } from "./dom.js";
import { counted } from "./figures.js";
import { link } from "./address.js";
import { spanOf, startingPoints } from "./session.js";

const BEGIN_MAX = 50;
const WALK_PAGE = 2000;
const WALK_KEYS_MAX = 20_000;
const FOUND_MAX = 200;
const DELAY = 150; // ms

export class Search {
  // `changed` is called with whether there is something to show in place of the tree.
  constructor({ changed }) {
    this.changed = changed;
    this.revision = null;
    this.timer = null;
    this.abort = null;
    this.input = el("input", {
      id: "search",
      type: "search",
      placeholder: "Find a key   ( / )",
      "aria-label": "Find a key",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      enterkeyhint: "search",
      input: () => this.#typed(),
      keydown: (event) => this.#pressed(event),
    });
    this.results = el("div", { id: "results", hidden: true, "data-test": "results" });
  }

  close() {
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  #clear() {
    this.input.value = "";
    this.#typed();
  }

  #typed() {
    clearTimeout(this.timer);
    this.abort?.abort();
    const active = this.input.value !== "";
    this.results.hidden = !active;
    this.changed(active);
    if (active) this.timer = setTimeout(() => this.#run((text, signal) => this.#begin(text, signal)), DELAY);
  }

  #pressed(event) {
    if (event.key === "Escape") {
      event.preventDefault();
      this.#clear();
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      this.results.querySelector("a, button")?.focus();
    }
    if (event.key === "Enter" && this.input.value !== "") {
      clearTimeout(this.timer);
      this.#run((text, signal) => this.#walk(text, signal));
    }
  }

  async #run(task) {
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    try {
      await task(parseEscaped(this.input.value), signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(this.results, notice("bad", error.sentence ?? error.message));
    }
  }

  async #begin(text, signal) {
    const points = startingPoints().filter((point) => mayHave(point, text));
    const answers = await Promise.all(
      points.map((point) => {
        const request = { ...rangeBelow(point, text), keys_only: true, limit: String(BEGIN_MAX) };
        return range({ ...request, ...this.#at() }, { signal });
      }),
    );
    const found = answers.flatMap(({ kvs = [] }) => kvs.map((kv) => fromBase64(kv.key)));
    const total = answers.reduce((sum, answer) => sum + Number(answer.count ?? 0), 0);
    const walk = button("Search inside names", { class: "wide", "data-test": "contains" }, () =>
      this.#run((query, s) => this.#walk(query, s)),
    );
    if (found.length === 0) {
      fill(this.results, el("p", { class: "muted" }, "No key begins with that."), walk, hint());
      if (text.length > 1) await this.#walk(text, signal, undefined, WALK_PAGE);
      return;
    }
    const cut = total > found.length ? `, the first ${found.length}:` : ":";
    const head = `${counted(total, "key begins", "keys begin")} with that${cut}`;
    fill(this.results, el("p", { class: "muted", role: "status" }, head), this.#list(found, text), walk);
  }

  // Walks over the names below the starting points. `place` says where an earlier walk stopped.
  async #walk(text, signal, place = { point: 0, from: null, seen: 0 }, most = WALK_KEYS_MAX) {
    const points = startingPoints();
    const wanted = latin(text).toLowerCase();
    const found = [];
    let walked = 0;
    const progress = el("p", { class: "muted", role: "status" }, "Searching…");
    fill(this.results, progress);
    while (place.point < points.length && walked < most && found.length < FOUND_MAX) {
      const whole = rangeBelow(points[place.point]);
      const key = place.from ? toBase64(place.from) : whole.key;
      const answer = await range(
        { ...whole, key, keys_only: true, limit: String(WALK_PAGE), ...this.#at() },
        { signal },
      );
      const keys = (answer.kvs ?? []).map((kv) => fromBase64(kv.key));
      found.push(...keys.filter((name) => latin(name).toLowerCase().includes(wanted)));
      walked += keys.length;
      place.seen += keys.length;
      place.from = answer.more ? concat(keys[keys.length - 1], ZERO) : null;
      if (!answer.more) place.point += 1;
      progress.textContent = `Searching… ${counted(place.seen, "name")} so far`;
    }
    this.#walked(found, text, place, place.point >= points.length);
  }

  #walked(found, text, place, complete) {
    const seen = `${counted(place.seen, "name")} searched`;
    const head = `${counted(found.length, "name contains", "names contain")} that`;
    const more = complete
      ? null
      : button("Search on", { class: "wide", "data-test": "search-on" }, () =>
          this.#run((query, s) => this.#walk(query, s, place)),
        );
    const list =
      found.length > 0
        ? this.#list(found, text)
        : complete
          ? empty("Nothing found", "No name contains that. Small and capital letters count as equal.")
          : null;
    fill(
      this.results,
      ...[
        el("p", { class: "muted", role: "status" }, `${head}; ${seen}${complete ? "" : ", more are left"}.`),
        list,
        more,
      ].filter(Boolean),
    );
  }

  #list(keys, text) {
    const revision = this.revision;
    return el(
      "ul",
      { class: "found", keydown: moveBetweenLinks },
      keys.map((key) =>
        el(
          "li",
          {},
          el(
            "a",
            { href: link("keys", { key, rev: revision }), "data-test": "found", "data-name": escaped(key) },
            shown(key),
          ),
        ),
      ),
    );
  }

  #at() {
    return this.revision ? { revision: this.revision } : {};
  }
}

// Whether keys that begin with a text may be below a starting point.
function mayHave(point, text) {
  return !isEmptySpan(overlapOf(spanOf(point), spanOfPrefix(text)));
}

// The range of the keys below a starting point that begin with a text.
function rangeBelow(point, text = point.prefix) {
  if (point.single) return { key: toBase64(point.prefix) };
  return rangeOf(overlapOf(spanOf(point), spanOfPrefix(text)));
}

function hint() {
  return el("p", { class: "muted small" }, "Keys often begin with “/”. Enter also searches inside names.");
}

// Bytes as a string with one character for each byte.
function latin(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

function moveBetweenLinks(event) {
  const links = [...event.currentTarget.querySelectorAll("a")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const at = links.indexOf(document.activeElement) + step;
  if (at < 0) document.getElementById("search")?.focus();
  else links[at]?.focus();
}
