// Keys and values are bytes. What is shown of them is text with every control character, every mark
// that changes the direction of text and every byte that is not UTF-8 as a visible escape.
//
//   bytes ──► runs of text and escapes ──► text nodes and <span class="escape">; never HTML

import { el } from "./dom.js";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

// Controls, direction marks and isolates, zero-width and other invisible characters, tags.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/u;
const HIDDEN_IN_TEXT = new RegExp(
  HIDDEN.source.replace("\\u0000-\\u001f", "\\u0000-\\u0008\\u000b-\\u001f"),
  "u",
);

const NAMES = {
  0x00: "null",
  0x09: "tab",
  0x0a: "line feed",
  0x0d: "carriage return",
  0x1b: "escape",
  0x7f: "delete",
  0xa0: "no-break space",
  0xad: "soft hyphen",
  0x61c: "Arabic letter mark",
  0x200b: "zero-width space",
  0x200c: "zero-width non-joiner",
  0x200d: "zero-width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x2028: "line separator",
  0x2029: "paragraph separator",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "end of direction",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "end of isolate",
  0xfeff: "byte order mark",
};

// With more runs than this, escapes are not marked, so that the page stays quick.
const RUNS_MARKED_MAX = 8000;

// The smallest key; as the end of a range it means that there is none.
export const ZERO = new Uint8Array([0]);

// Two digits for a byte.
export const hexOf = (byte) => byte.toString(16).padStart(2, "0");

export function fromBase64(text) {
  if (!text) return new Uint8Array(0);
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

export function toBase64(bytes) {
  if (bytes.toBase64) return bytes.toBase64();
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(binary);
}

export const ofText = (text) => encoder.encode(text);

// The text of bytes, or null if they are not UTF-8.
export function textOf(bytes) {
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}

export function equal(a, b) {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

export function startsWith(bytes, prefix) {
  return bytes.length >= prefix.length && prefix.every((byte, at) => byte === bytes[at]);
}

export function compare(a, b) {
  const shorter = Math.min(a.length, b.length);
  for (let at = 0; at < shorter; at++) if (a[at] !== b[at]) return a[at] - b[at];
  return a.length - b.length;
}

export function concat(a, b) {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

// A span is {key, end}: the keys from `key` on that come before `end`; all from `key` on if `end` is null.
export function spanOfPrefix(prefix) {
  const end = endOfPrefix(prefix);
  return { key: prefix, end: isOpenEnd(end) ? null : end };
}

// The keys of both spans.
export function overlapOf(a, b) {
  const key = compare(a.key, b.key) < 0 ? b.key : a.key;
  if (a.end === null || b.end === null) return { key, end: a.end ?? b.end };
  return { key, end: compare(a.end, b.end) < 0 ? a.end : b.end };
}

export const isEmptySpan = ({ key, end }) => end !== null && compare(end, key) <= 0;

// Whether all keys of the second span are in the first one.
export function spanHolds(a, b) {
  const endsLater = a.end === null || (b.end !== null && compare(b.end, a.end) <= 0);
  return endsLater && compare(a.key, b.key) <= 0;
}

// A span in the words of the Range call: neither bound may be empty there.
export function rangeOf({ key, end }) {
  return { key: toBase64(key.length > 0 ? key : ZERO), range_end: toBase64(end ?? ZERO) };
}

export const rangeOfPrefix = (prefix) => rangeOf(spanOfPrefix(prefix));

// The first key behind all keys with a prefix; one null byte, "no end", if there is none.
export function endOfPrefix(prefix) {
  for (let at = prefix.length - 1; at >= 0; at--) {
    if (prefix[at] < 0xff) {
      const end = prefix.slice(0, at + 1);
      end[at] += 1;
      return end;
    }
  }
  return ZERO;
}

// Whether the end of a range means that it has none.
export const isOpenEnd = (end) => end.length === 1 && end[0] === 0;

// Bytes as a part of the page's address, and back.
export function toAddress(bytes) {
  let text = "";
  for (const byte of bytes) {
    const plain = /[A-Za-z0-9_.~\/:@-]/.test(String.fromCharCode(byte));
    text += plain ? String.fromCharCode(byte) : "%" + hexOf(byte);
  }
  return text;
}

export function fromAddress(text) {
  const bytes = [];
  for (let at = 0; at < text.length; at++) {
    const hex = text[at] === "%" && text.slice(at + 1, at + 3);
    if (hex && /^[0-9a-f]{2}$/i.test(hex)) {
      bytes.push(parseInt(hex, 16));
      at += 2;
    } else {
      const point = text.codePointAt(at);
      bytes.push(...encoder.encode(String.fromCodePoint(point)));
      if (point > 0xffff) at++;
    }
  }
  return new Uint8Array(bytes);
}

// Splits bytes into runs: {text} as it is, or {escape, title}. With `lines`, line feed and tab are text.
function runs(bytes, lines = false) {
  const hidden = lines ? HIDDEN_IN_TEXT : HIDDEN;
  const text = textOf(bytes);
  if (text !== null) return runsOfText(text, hidden);
  const all = [];
  for (const part of validParts(bytes)) {
    if (part.text === undefined) all.push(escapeOfByte(part.byte));
    else for (const run of runsOfText(part.text, hidden)) all.push(run);
  }
  return all;
}

function runsOfText(text, hidden) {
  const all = [];
  const each = new RegExp(hidden.source, "gu");
  let from = 0;
  for (const found of text.matchAll(each)) {
    if (found.index > from) all.push({ text: text.slice(from, found.index) });
    all.push(escapeOfCharacter(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) all.push({ text: text.slice(from) });
  return all;
}

function escapeOfCharacter(character) {
  const point = character.codePointAt(0);
  const hex = point.toString(16);
  const escape = point < 0x80 ? "\\x" + hexOf(point) : `\\u{${hex}}`;
  const name = NAMES[point] ?? (point < 0xa0 ? "control character" : "invisible character");
  return { escape, title: `${name}, U+${hex.toUpperCase().padStart(4, "0")}` };
}

function escapeOfByte(byte) {
  return { escape: "\\x" + hexOf(byte), title: "a byte that is not UTF-8" };
}

// The parts of bytes that are UTF-8 as {text}, each other byte as {byte}.
function* validParts(bytes) {
  let from = 0;
  let at = 0;
  while (at < bytes.length) {
    const length = sequenceLength(bytes, at);
    if (length > 0) {
      at += length;
      continue;
    }
    if (at > from) yield { text: utf8.decode(bytes.subarray(from, at)) };
    yield { byte: bytes[at] };
    at += 1;
    from = at;
  }
  if (at > from) yield { text: utf8.decode(bytes.subarray(from, at)) };
}

// Bytes of the UTF-8 sequence that begins at a byte; 0 if none does.
function sequenceLength(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return 1;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > bytes.length) return 0;
  return textOf(bytes.subarray(at, at + length)) === null ? 0 : length;
}

// Bytes as nodes: text and marked escapes, kept apart from the direction of the text around them.
export function shown(bytes, className = "bytes") {
  return el("bdi", { class: className, dir: "ltr" }, nodes(bytes));
}

export function nodes(bytes, lines = false) {
  const all = together(runs(bytes, lines));
  if (all.length > RUNS_MARKED_MAX)
    return [document.createTextNode(all.map((run) => run.escape ?? run.text).join(""))];
  return all.map((run) =>
    run.text !== undefined
      ? document.createTextNode(run.text)
      : el("span", { class: "escape", title: run.title }, run.escape),
  );
}

// Runs with neighbouring escapes as one.
function together(all) {
  const joined = [];
  for (const run of all) {
    const last = joined[joined.length - 1];
    if (run.escape && last?.escape) {
      last.escape += run.escape;
      last.number += 1;
      last.title = `${last.number} characters or bytes that are not seen`;
    } else joined.push(run.escape ? { ...run, number: 1 } : run);
  }
  return joined;
}

// Bytes as a line of plain text, for titles, names and fields of forms: a backslash is doubled, so that
// `parseEscaped` gives the same bytes.
export function escaped(bytes, lines = false) {
  return runs(bytes, lines)
    .map((run) => run.escape ?? run.text.replaceAll("\\", "\\\\"))
    .join("");
}

// The bytes of text with \xNN, \u{N}, \n, \t, \r, \0 and \\; throws on any other escape.
export function parseEscaped(text) {
  const parts = [];
  const each = /\\(x[0-9a-fA-F]{2}|u\{[0-9a-fA-F]{1,6}\}|[ntr0\\]|.?)/gsu;
  let from = 0;
  for (const found of text.matchAll(each)) {
    parts.push(encoder.encode(text.slice(from, found.index)), bytesOfEscape(found[1]));
    from = found.index + found[0].length;
  }
  parts.push(encoder.encode(text.slice(from)));
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

const SHORT = { n: 10, t: 9, r: 13, 0: 0, "\\": 92 };

function bytesOfEscape(escape) {
  if (escape in SHORT) return [SHORT[escape]];
  if (escape.length === 3 && escape[0] === "x") return [parseInt(escape.slice(1), 16)];
  const point = escape.startsWith("u{") ? parseInt(escape.slice(2, -1), 16) : NaN;
  if (point <= 0x10ffff) return encoder.encode(String.fromCodePoint(point));
  throw new Error(`“\\${escape}” is no escape; write \\xNN for a byte and \\\\ for a backslash`);
}

// Whether a text is mostly what is not seen, as far as its beginning says.
export function isMostlyHidden(text) {
  const sample = text.slice(0, 1000);
  const hidden = sample.match(new RegExp(HIDDEN_IN_TEXT.source, "gu")) ?? [];
  return hidden.length > sample.length / 10;
}

// Whether a text field can hold bytes without changing them: UTF-8, nothing hidden.
export function isPlainText(bytes) {
  const text = textOf(bytes);
  return text !== null && !HIDDEN_IN_TEXT.test(text);
}

const HEX_LINE = 16;

// Lines of hexadecimal digits: offset, bytes, and the printable ASCII characters among them.
export function hexLines(bytes, from = 0, lines = Infinity) {
  const all = [];
  const end = Math.min(bytes.length, from + lines * HEX_LINE);
  for (let at = from; at < end; at += HEX_LINE) {
    const line = bytes.subarray(at, Math.min(at + HEX_LINE, bytes.length));
    const hex = Array.from(line, hexOf);
    const left = hex.slice(0, 8).join(" ");
    const right = hex.slice(8).join(" ");
    const ascii = Array.from(line, (byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·"));
    all.push(
      `${at.toString(16).padStart(8, "0")}  ${left.padEnd(23)}  ${right.padEnd(23)}  ${ascii.join("")}`,
    );
  }
  return all;
}

export function parseHex(text) {
  const digits = text.replace(/\s+/g, "");
  if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new Error("Hex needs two digits 0-9 a-f for each byte.");
  return new Uint8Array((digits.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));
}

export function toHex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += HEX_LINE) {
    const line = bytes.subarray(at, at + HEX_LINE);
    lines.push(Array.from(line, hexOf).join(" "));
  }
  return lines.join("\n");
}
