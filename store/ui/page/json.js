// JSON without loss: numbers stay as they are written, members keep their order and their doubles. The
// browser's own parser rounds large numbers and sorts names that look like numbers.
//
// A value is {type: "object", members: [[name, value], ...]}, {type: "list", items}, {type: "text", text},
// or {type: "plain", text} for numbers, true, false and null.

const DEPTH_MAX = 500;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*"/y;
const SPACE = /[ \t\r\n]*/y;
const WORD = /true|false|null/y;

// The value of a text, or null if the text is not JSON.
export function parseJson(text) {
  const reader = { text, at: 0 };
  try {
    const value = readValue(reader, 0);
    match(reader, SPACE);
    return reader.at === text.length ? value : null;
  } catch {
    return null;
  }
}

function match(reader, pattern) {
  pattern.lastIndex = reader.at;
  const found = pattern.exec(reader.text);
  if (found) reader.at = pattern.lastIndex;
  return found?.[0];
}

function take(reader, character) {
  match(reader, SPACE);
  if (reader.text[reader.at] !== character) return false;
  reader.at += 1;
  return true;
}

function readValue(reader, depth) {
  if (depth > DEPTH_MAX) throw new Error("too deep");
  if (take(reader, "{")) return { type: "object", members: readMembers(reader, depth) };
  if (take(reader, "[")) return { type: "list", items: readItems(reader, depth) };
  if (reader.text[reader.at] === '"') return { type: "text", text: readString(reader) };
  const text = match(reader, WORD) ?? match(reader, NUMBER);
  if (text === undefined) throw new Error("no value");
  return { type: "plain", text };
}

function readString(reader) {
  match(reader, SPACE);
  const token = match(reader, STRING);
  if (token === undefined) throw new Error("no string");
  return JSON.parse(token);
}

function readMembers(reader, depth) {
  const members = [];
  if (take(reader, "}")) return members;
  do {
    const name = readString(reader);
    if (!take(reader, ":")) throw new Error("no colon");
    members.push([name, readValue(reader, depth + 1)]);
  } while (take(reader, ","));
  if (!take(reader, "}")) throw new Error("no end of an object");
  return members;
}

function readItems(reader, depth) {
  const items = [];
  if (take(reader, "]")) return items;
  do items.push(readValue(reader, depth + 1));
  while (take(reader, ","));
  if (!take(reader, "]")) throw new Error("no end of a list");
  return items;
}

// A value as JSON with a line for each member.
export function writeJson(value, indent = "") {
  const inner = indent + "  ";
  if (value.type === "object" && value.members.length > 0) {
    const lines = value.members.map(
      ([name, member]) => `${inner}${JSON.stringify(name)}: ${writeJson(member, inner)}`,
    );
    return `{\n${lines.join(",\n")}\n${indent}}`;
  }
  if (value.type === "list" && value.items.length > 0) {
    return `[\n${value.items.map((item) => inner + writeJson(item, inner)).join(",\n")}\n${indent}]`;
  }
  if (value.type === "object") return "{}";
  if (value.type === "list") return "[]";
  return value.type === "text" ? JSON.stringify(value.text) : value.text;
}

export const text = (content) => ({ type: "text", text: content });
export const plain = (content) => ({ type: "plain", text: String(content) });
export const list = (items) => ({ type: "list", items });
export const object = (members) => ({ type: "object", members });
