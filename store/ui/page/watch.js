// A live watch of a prefix: its events as they come, and the prefixes with most of them. The watch ends
// while the page is hidden, and goes on where it was.

import { CallError, streamSocket } from "./api.js";
import { go, link } from "./address.js";
import {
  concat,
  equal,
  escaped,
  fromBase64,
  ofText,
  parseEscaped,
  rangeOf,
  shown,
  spanHolds,
  spanOfPrefix,
} from "./bytes.js";
import { button, el, empty, fill, meter, notice, refill, row, table } from "./dom.js";
import { counted, grouped, humanBytes, moment } from "./figures.js";
import { HotPrefixes } from "./hot.js";
import { noteRevision } from "./moments.js";
import { readableSpan, startingPoints } from "./session.js";

const ROWS_MAX = 300;
const RENDER_EVERY = 250; // ms
const FADE_EVERY = 5000; // ms
const RETRY_AFTER = 3000; // ms
const PREVIEW_BYTES = 80;
const HOTTEST = 12;

export class WatchView {
  constructor(main) {
    this.abort = null;
    this.prefix = null; // of the watch that runs or is tried again, null if there is none
    this.span = null; // its keys that the user may read
    this.shownPrefix = null; // of the rows
    this.next = null; // the revision to go on from
    this.retry = null; // timer
    this.waiting = [];
    this.total = 0;
    this.hot = new HotPrefixes();
    this.input = el("input", {
      id: "watch-prefix",
      type: "text",
      placeholder: "every key",
      "aria-label": "Prefix",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
    });
    this.toggle = el("button", { class: "primary", id: "watch-toggle" }, "Start");
    this.state = el("p", { class: "muted small", role: "status", id: "watch-state" });
    this.problem = el("div", { class: "stack" });
    this.rows = el("tbody", { id: "watch-rows", role: "rowgroup" });
    this.events = table("Events", ["#Time", "#Revision", "Change", "Key", "Value"], []);
    this.events.querySelector("tbody").replaceWith(this.rows);
    this.start = empty(
      "No event yet",
      "Start the watch, and every change below the prefix appears here as it is made. Without a prefix it is the whole store, or the first range of it that you may read.",
    );
    this.hotList = el("ol", { class: "bars", id: "hot" });
    this.hotNote = el(
      "p",
      { class: "muted small" },
      "Counted from the events of the watch, over the last half minute or so.",
    );
    fill(
      main,
      el(
        "div",
        { class: "page" },
        el("div", { class: "page-head" }, el("h1", {}, "Watch")),
        el(
          "form",
          { class: "card stack", submit: (event) => this.#submitted(event) },
          el(
            "div",
            { class: "field" },
            el("label", { for: "watch-prefix" }, "Keys that begin with"),
            this.input,
            this.toggle,
            button("Clear", { id: "watch-clear" }, () => this.#clear()),
          ),
          this.state,
          this.problem,
        ),
        el(
          "section",
          { class: "card", "aria-labelledby": "hot-title" },
          el("h2", { id: "hot-title" }, "Hottest prefixes"),
          this.hotNote,
          this.hotList,
        ),
        this.start,
        this.events,
      ),
    );
    this.events.hidden = true;
    this.timers = [
      setInterval(() => this.#render(), RENDER_EVERY),
      setInterval(() => this.#fade(), FADE_EVERY),
    ];
    this.onVisibility = () => (document.hidden ? this.#halt() : this.#resume());
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  async update(params) {
    const prefix = params.prefix ?? this.prefix ?? startingPoints()[0]?.prefix ?? new Uint8Array(0);
    this.input.value = escaped(prefix);
    if (params.prefix && !this.#isOf(prefix)) this.#begin(prefix);
  }

  close() {
    this.#halt();
    this.prefix = null;
    this.timers.forEach(clearInterval);
    document.removeEventListener("visibilitychange", this.onVisibility);
  }

  #isOf(prefix) {
    return this.prefix !== null && equal(this.prefix, prefix);
  }

  #submitted(event) {
    event.preventDefault();
    fill(this.problem);
    if (this.prefix !== null) {
      this.#stop();
      return;
    }
    try {
      const prefix = parseEscaped(this.input.value);
      this.#begin(prefix);
      go("watch", { prefix }, { replace: true });
    } catch (error) {
      fill(this.problem, notice("bad", error.message));
    }
  }

  #clear() {
    this.waiting = [];
    this.total = 0;
    this.hot = new HotPrefixes();
    fill(this.problem);
    fill(this.rows);
    fill(this.hotList);
    this.events.hidden = true;
    this.start.hidden = false;
  }

  #begin(prefix) {
    this.#halt();
    if (this.shownPrefix === null || !equal(this.shownPrefix, prefix)) this.#clear();
    this.prefix = prefix;
    this.shownPrefix = prefix;
    this.next = null;
    this.toggle.textContent = "Stop";
    this.#run();
  }

  #stop() {
    this.#halt();
    this.prefix = null;
    this.toggle.textContent = "Start";
    this.#say("Stopped");
  }

  #say(what) {
    this.#render();
    this.state.textContent = `${what} after ${counted(this.total, "event")}.`;
  }

  #halt() {
    clearTimeout(this.retry);
    this.abort?.abort();
    this.abort = null;
  }

  #resume() {
    if (this.prefix !== null && this.abort === null && !document.hidden) this.#run();
  }

  async #run() {
    const abort = new AbortController();
    this.abort = abort;
    this.span = readableSpan(this.prefix);
    const request = rangeOf(this.span);
    if (this.next) request.start_revision = String(this.next);
    try {
      await streamSocket(
        "watch",
        { create_request: request },
        { signal: abort.signal, take: (message) => this.#take(message) },
      );
    } catch (error) {
      if (this.abort === abort) this.#failed(error);
    }
  }

  #failed(error) {
    this.abort = null;
    this.#say("Interrupted");
    if (error instanceof Compacted) {
      this.next = error.revision;
      const text = `Compaction removed revisions before ${grouped(error.revision)}: events of them may be missing here.`;
      fill(this.problem, notice("note", text));
      this.retry = setTimeout(() => this.#resume(), RETRY_AFTER);
      return;
    }
    const again = error.code === 14;
    const text = error.sentence ?? error.message;
    fill(this.problem, notice("bad", again ? `${text} The page tries again.` : text));
    if (again) this.retry = setTimeout(() => this.#resume(), RETRY_AFTER);
    else this.#stop();
  }

  // The watch goes on behind the last event that it took: the header's revision may be ahead of events that are still
  // to come. A watch without events goes on behind the revision at which it was created.
  #take({ header, created, canceled, compact_revision, cancel_reason, events = [] }) {
    if (compact_revision && compact_revision !== "0") throw new Compacted(BigInt(compact_revision));
    if (canceled) throw refusal(cancel_reason ?? "");
    if (created) this.#created(BigInt(header.revision));
    if (events.length === 0) return;
    this.next = BigInt(events[events.length - 1].kv.mod_revision) + 1n;
    noteRevision(header.revision);
    for (const event of events) this.#note(event);
  }

  #created(revision) {
    if (this.problem.querySelector(".bad")) fill(this.problem);
    this.next ??= revision + 1n;
    const { key, end } = this.span;
    const isAll = spanHolds(this.span, spanOfPrefix(this.prefix));
    const part = isAll ? "" : ` from ${escaped(key)} ${end ? `up to, without, ${escaped(end)}` : "on"}`;
    this.state.textContent = `Watching${part} since revision ${grouped(this.next)}.`;
  }

  #note({ type, kv }) {
    const key = fromBase64(kv.key);
    this.total += 1;
    this.hot.count(key);
    this.waiting.push({ type, kv, key, at: Date.now() });
    if (this.waiting.length > ROWS_MAX) this.waiting.shift();
  }

  #render() {
    if (this.waiting.length === 0) return;
    const fresh = this.waiting.splice(0).reverse().map(rowOf);
    this.rows.prepend(...fresh);
    while (this.rows.children.length > ROWS_MAX) this.rows.lastChild.remove();
    this.events.hidden = false;
    this.start.hidden = true;
    const cut = this.total > ROWS_MAX ? `, the last ${ROWS_MAX} are shown` : "";
    this.state.textContent = `${counted(this.total, "event")}${cut}.`;
    if (this.hotList.children.length === 0) this.#showHot();
  }

  #fade() {
    if (document.hidden) return;
    this.hot.fade(FADE_EVERY / 1000);
    this.#showHot();
  }

  #showHot() {
    const hottest = this.hot.hottest(HOTTEST);
    const most = hottest[0]?.events || 1;
    refill(
      this.hotList,
      ...hottest.map(({ prefix, events, rate }) =>
        el(
          "li",
          {},
          el("a", { href: link("keys", { prefix }), class: "bytes" }, shown(prefix)),
          el("span", { class: "figure muted" }, rate > 0 ? `${rate.toFixed(rate < 10 ? 1 : 0)} /s` : ""),
          meter(events / most, { least: 0.01 }),
        ),
      ),
    );
  }
}

// The watch asked for revisions before the oldest one that is kept, which it has.
class Compacted extends Error {
  constructor(revision) {
    super("compacted");
    this.revision = revision;
  }
}

// The error for a watch that the server ended.
function refusal(reason) {
  const text = reason.replace(/^rpc error: code = \w+ desc = /, "") || "the server ended the watch";
  return new CallError(/permission/.test(text) ? 7 : 1, text);
}

function rowOf({ type, kv, key, at }) {
  const deleted = type === "DELETE";
  const made = kv.create_revision === kv.mod_revision;
  const kind = deleted ? "deleted" : made ? "created" : "put";
  const value = fromBase64(kv.value);
  const cut = value.length > PREVIEW_BYTES;
  const preview = cut ? concat(value.subarray(0, PREVIEW_BYTES), ofText("…")) : value;
  return row(
    [
      { cell: moment(at), class: "figure" },
      { cell: grouped(kv.mod_revision), class: "figure" },
      el("span", { class: `kind ${kind}` }, kind === "put" ? "changed" : kind),
      el(
        "a",
        { href: link("keys", deleted ? { key, show: "history" } : { key }), "data-name": escaped(key) },
        shown(key),
      ),
      deleted
        ? ""
        : el(
            "span",
            { title: counted(value.length, "byte") },
            shown(preview),
            cut ? el("span", { class: "muted small" }, ` ${humanBytes(value.length)}`) : null,
          ),
    ],
    { class: "changed" },
  );
}
