// A value in each of its readings: text, JSON, YAML, hex, and the objects that Kubernetes stores.

import { escaped, hexLines, isMostlyHidden, nodes, ofText, textOf, toHex } from "./bytes.js";
import { button, el, fill, notice, tabList, toast } from "./dom.js";
import { saveFile } from "./file.js";
import { counted, humanBytes } from "./figures.js";
import { parseJson, writeJson } from "./json.js";
import { decodeKubernetes, encryption, isEncrypted, isKubernetes } from "./kubernetes.js";
import { turns } from "./turns.js";
import { writeYaml } from "./yaml.js";

const SHOWN_MAX = 64 * 1024;
const STEP = 256 * 1024;
const HEX_LINES = 512;
const COLOURED_LINES_MAX = 3000;

// The readings of a value, the best one first: {name, label, text} or {name: "hex"}; text is a function.
function readings(bytes) {
  const all = [];
  const content = textOf(bytes);
  const json = content !== null && /^\s*[[{"]/.test(content) ? parseJson(content) : null;
  if (isKubernetes(bytes)) all.push({ name: "kubernetes", label: "Kubernetes" });
  if (json) {
    all.push({ name: "json", label: "JSON", text: () => writeJson(json) });
    all.push({ name: "yaml", label: "YAML", text: () => writeYaml(json) });
  }
  const raw = { name: "text", label: "Text", bytes };
  const hex = { name: "hex", label: "Hex" };
  const legible = content !== null && !isMostlyHidden(content);
  return legible || isKubernetes(bytes) ? [...all, raw, hex] : [...all, hex, raw];
}

// Lines of a value for a comparison, in its best reading.
export async function linesOf(bytes) {
  const [best] = readings(bytes);
  if (best.name === "kubernetes") {
    try {
      const { value } = await decodeKubernetes(bytes);
      return { reading: "Kubernetes object", lines: split(writeYaml(value)) };
    } catch {
      return { reading: "Hex", lines: hexLines(bytes) };
    }
  }
  if (best.name === "json") return { reading: "JSON", lines: split(best.text()) };
  if (best.name === "hex") return { reading: "Hex", lines: hexLines(bytes) };
  return { reading: "Text", lines: split(textOf(bytes)) };
}

function split(text) {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

// The reading that the user chose last, for the next value that has it.
let preferred = null;

// Shows a value with tabs for its readings.
export class ValueView {
  constructor(key, bytes) {
    this.key = key;
    this.bytes = bytes;
    this.readings = readings(bytes);
    this.turn = turns(); // of readings that are shown
    this.chosen = null; // the name of a reading
    this.body = el("div", {
      id: "value",
      role: "tabpanel",
      tabindex: "0",
      "aria-label": "Value",
      class: "value",
    });
    this.tabs = tabList(
      "Reading of the value",
      this.readings.map(({ name, label }) =>
        el(
          "button",
          {
            type: "button",
            role: "tab",
            "aria-controls": "value",
            "data-reading": name,
            click: () => {
              preferred = name;
              this.show(name);
            },
          },
          label,
        ),
      ),
      "tabs small",
    );
    this.element = el(
      "div",
      {},
      el(
        "div",
        { class: "value-head" },
        this.tabs,
        el(
          "div",
          { class: "actions" },
          button("Copy", { class: "small", id: "copy-value" }, () => this.#copy()),
          button("Download", { class: "small", id: "download-value" }, () => download(this.key, this.bytes)),
        ),
      ),
      this.body,
    );
    const known = this.readings.some(({ name }) => name === preferred);
    this.show(known ? preferred : this.readings[0].name);
  }

  async show(name) {
    const isNewest = this.turn();
    this.chosen = name;
    for (const tab of this.tabs.children) {
      const chosen = tab.dataset.reading === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    const reading = this.readings.find((one) => one.name === name);
    const content = await this.#contentOf(reading);
    if (!isNewest()) return;
    this.body.dataset.reading = name;
    fill(this.body, ...content);
  }

  // Copies the reading that is chosen, all of it.
  async #copy() {
    const { name, text } = this.readings.find((one) => one.name === this.chosen);
    try {
      const content = text
        ? text()
        : name === "kubernetes"
          ? writeYaml((await decodeKubernetes(this.bytes)).value)
          : name === "hex"
            ? toHex(this.bytes)
            : (textOf(this.bytes) ?? escaped(this.bytes, true));
      await navigator.clipboard.writeText(content);
      toast("Copied.");
    } catch {
      toast("The browser does not let this page copy: select the text and copy it with the keyboard.", "bad");
    }
  }

  async #contentOf({ name, text }) {
    if (this.bytes.length === 0) return [el("p", { class: "muted" }, "The value is empty.")];
    const notes = isEncrypted(this.bytes) ? [notice("note", encryption(this.bytes))] : [];
    if (name === "hex") return [...notes, hexView(this.bytes)];
    if (name === "kubernetes") return this.#kubernetes();
    if (name === "text") return [...notes, textView(this.bytes)];
    return [textView(ofText(text()), name)];
  }

  async #kubernetes() {
    try {
      const { value, note } = await decodeKubernetes(this.bytes);
      return [note ? notice("note", note) : "", textView(ofText(writeYaml(value)), "yaml")];
    } catch (error) {
      return [
        notice(
          "note",
          `The value begins as an object of Kubernetes but cannot be read as one: ${error.message}.`,
        ),
        hexView(this.bytes),
      ];
    }
  }
}

// The bytes as they are, as a file.
function download(key, bytes) {
  const name =
    (textOf(key) ?? "value")
      .split("/")
      .pop()
      .replace(/[^A-Za-z0-9._-]/g, "_")
      .slice(-100) || "value";
  saveFile(name, new Blob([bytes], { type: "application/octet-stream" }));
}

// Text in full up to some size; the rest on demand, in steps.
function textView(bytes, language = "") {
  const box = el("pre", { class: "code", dir: "ltr", "data-test": "value-text" });
  box.append(...coloured(bytes.subarray(0, boundary(bytes, SHOWN_MAX)), language));
  if (bytes.length <= SHOWN_MAX) return box;
  let at = boundary(bytes, SHOWN_MAX);
  const said = el("span");
  const more = button(`Show ${humanBytes(STEP)} more`, { "data-test": "show-more" }, () => {
    for (const end = boundary(bytes, at + STEP); at < end;) {
      const next = Math.min(end, boundary(bytes, at + SHOWN_MAX));
      box.append(...nodes(bytes.subarray(at, next), true));
      at = next;
    }
    say();
  });
  const note = el("div", { class: "cut" }, said, more);
  const say = () => {
    said.textContent = `The first ${humanBytes(at)} of ${humanBytes(bytes.length)}. `;
    note.hidden = at >= bytes.length;
  };
  say();
  return el("div", {}, box, note);
}

// The last place up to `at` that does not cut a character of UTF-8.
function boundary(bytes, at) {
  if (at >= bytes.length) return bytes.length;
  let end = at;
  while (end > at - 4 && (bytes[end] & 0xc0) === 0x80) end--;
  return end;
}

const NAME = {
  json: /^(\s*)("(?:[^"\\]|\\.)*")(:)/,
  yaml: /^(\s*(?:- )*)([^\s"#:-][^:"]*|"(?:[^"\\]|\\.)*")(:)(?=\s|$)/,
};

function coloured(bytes, language) {
  const pattern = NAME[language];
  const content = pattern && textOf(bytes);
  const lines = content?.split("\n");
  if (!lines || lines.length > COLOURED_LINES_MAX) return nodes(bytes, true);
  return lines.flatMap((line, at) => {
    const end = at < lines.length - 1 ? "\n" : "";
    const found = pattern.exec(line);
    if (!found) return nodes(ofText(line + end), true);
    const [all, space, name] = found;
    return [
      space,
      el("span", { class: "member" }, nodes(ofText(name))),
      ...nodes(ofText(all.slice(space.length + name.length) + line.slice(all.length) + end), true),
    ];
  });
}

function hexView(bytes) {
  const box = el(
    "pre",
    { class: "code hex", "data-test": "value-hex" },
    hexLines(bytes, 0, HEX_LINES).join("\n"),
  );
  let at = HEX_LINES * 16;
  if (at >= bytes.length) return box;
  const more = button(`Show ${HEX_LINES} more lines`, {}, () => {
    box.append("\n" + hexLines(bytes, at, HEX_LINES).join("\n"));
    at += HEX_LINES * 16;
    if (at >= bytes.length) note.remove();
  });
  const note = el("div", { class: "cut" }, `${counted(bytes.length, "byte")}. `, more);
  return el("div", {}, box, note);
}
