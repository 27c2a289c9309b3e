// The values that Kubernetes stores: "k8s\0" and a protobuf message, runtime.Unknown, with the object inside.
//
//   k8s\0 │ 1 typeMeta {1 apiVersion, 2 kind} │ 2 raw: the object │ 3 contentEncoding │ 4 contentType
//
// kubernetes-fields.json has the fields of the built-in kinds as the files generated.proto of
// kubernetes/api and kubernetes/apimachinery number them: "Message|1 name s?,2 labels %s,3 spec 17". A type
// is s text, b bytes, i integer, u boolean, d double, or a message's place in the list; * is a list, % a
// map, ? is left out when it is empty (omitempty), ^ is a part with its fields in the parent.

import { hexOf, ofText, startsWith, textOf, toBase64 } from "./bytes.js";
import { list, object, parseJson, plain, text } from "./json.js";

const MAGIC = new Uint8Array([0x6b, 0x38, 0x73, 0x00]);
const ENCRYPTED = ofText("k8s:enc:");
const DEPTH_MAX = 100;
// A field that is there and says nothing.
const NOTHING = plain("null");

let table = null; // a promise of {kinds, messages}

function loadTable() {
  table ??= fetchTable().catch((error) => {
    table = null;
    throw error;
  });
  return table;
}

async function fetchTable() {
  const response = await fetch(new URL("kubernetes-fields.json", import.meta.url));
  if (!response.ok) throw new Error(`its table of fields could not be read: HTTP status ${response.status}`);
  const { kinds, messages } = await response.json();
  return { kinds, messages: messages.map(readMessage) };
}

function readMessage(line) {
  const [name, rest] = line.split("|");
  const fields = new Map();
  for (const part of rest === "" ? [] : rest.split(",")) {
    const [number, field, type] = part.split(" ");
    const [, repeated, of, mark] = /^([*%]?)(\w+)([?^]?)$/.exec(type);
    fields.set(Number(number), { name: field, repeated, of: /^\d/.test(of) ? Number(of) : of, mark });
  }
  return { name, fields };
}

export const isKubernetes = (bytes) => startsWith(bytes, MAGIC);
export const isEncrypted = (bytes) => startsWith(bytes, ENCRYPTED);

// The head of an encrypted value: "k8s:enc:aescbc:v1:key1:" and so on.
export function encryption(bytes) {
  const [, , provider, version, key] = (
    textOf(bytes.subarray(0, 200).filter((byte) => byte < 0x80)) ?? ""
  ).split(":");
  return `Encrypted by the Kubernetes API server: provider ${provider}, ${version ?? ""} key “${key ?? ""}”. The server of this store does not have that key.`;
}

// The object as a value (see json.js), with a note where something could not be told. Throws if the
// bytes are not such a message.
export async function decodeKubernetes(bytes) {
  const unknown = fieldsOf(bytes.subarray(MAGIC.length));
  const last = (number) =>
    unknown.filter((field) => field.number === number && field.bytes).pop()?.bytes ?? new Uint8Array(0);
  const type = fieldsOf(last(1));
  const words = [1, 2].map(
    (number) =>
      textOf(type.filter((field) => field.number === number).pop()?.bytes ?? new Uint8Array(0)) ?? "",
  );
  const [apiVersion, kind] = words;
  const raw = last(2);
  const head = [
    ["apiVersion", text(apiVersion)],
    ["kind", text(kind)],
  ];
  const contentType = textOf(last(4)) ?? "";
  const json = contentType.includes("json") || raw[0] === 0x7b ? parseJson(textOf(raw) ?? "") : null;
  if (json) return { apiVersion, kind, value: json, note: "" };
  const { kinds, messages } = await loadTable();
  const place = kinds[`${apiVersion} ${kind}`];
  if (place !== undefined) {
    try {
      const value = message(raw, messages[place], messages, 0);
      return { apiVersion, kind, value: object([...head, ...value.members]), note: "" };
    } catch (error) {
      return {
        apiVersion,
        kind,
        value: object([...head, ...generic(raw, 0).members]),
        note: `The object is not as ${kind} should be (${error.message}); fields are shown by their number.`,
      };
    }
  }
  const metadata = messages.find(({ name }) => name === "ObjectMeta");
  const value = unknownObject(raw, metadata, messages);
  return {
    apiVersion,
    kind,
    value: object([...head, ...value]),
    note: `${kind || "This kind"} is not one of the built-in kinds that this page knows; fields are shown by their number.`,
  };
}

// Nearly every kind has its metadata first; the rest is shown by number.
function unknownObject(raw, metadata, messages) {
  const fields = generic(raw, 0).members;
  const first = fieldsOf(raw).find(({ number, bytes }) => number === 1 && bytes);
  if (!first) return fields;
  try {
    const value = message(first.bytes, metadata, messages, 0);
    const foreign = value.members.some(([name]) => name.startsWith("field "));
    return foreign ? fields : [["metadata", value], ...fields.filter(([name]) => name !== "field 1")];
  } catch {
    return fields;
  }
}

function message(bytes, { name, fields }, messages, depth) {
  if (depth > DEPTH_MAX) throw new Error("it nests too deeply");
  if (SPECIAL[name]) return SPECIAL[name](bytes);
  const found = new Map();
  for (const field of fieldsOf(bytes)) {
    const known = fields.get(field.number);
    if (known) takeField(found, field, known, messages, depth);
    else append(found, `field ${field.number}`, genericField(field, depth));
  }
  const members = [...found].map(([inner, held]) => [
    inner,
    held.value ?? (held.entries ? object(held.entries) : listOf(held)),
  ]);
  if (isWrapper(fields)) return members[0]?.[1] ?? list([]);
  return object(members.filter(([, value]) => value !== NOTHING));
}

function takeField(found, field, { name, repeated, of, mark }, messages, depth) {
  if (repeated === "*") {
    each(field, of, (item) => append(found, name, read(item, of, messages, depth), true));
  } else if (repeated === "%") {
    enter(found, name, of, field, messages, depth);
  } else if (mark === "^") {
    const inner = message(need(field), messages[of], messages, depth + 1);
    for (const [member, value] of inner.members) found.set(member, { value });
  } else {
    const value = read(field, of, messages, depth);
    if (mark === "?" && isZero(value)) found.delete(name);
    else found.set(name, { value });
  }
}

// A message that stands for a list of texts, such as ExtraValue.
function isWrapper(fields) {
  const only = fields.size === 1 && fields.get(1);
  return only && only.name === "items" && only.repeated === "*" && only.of === "s";
}

function append(found, name, value, isList = false) {
  if (!found.has(name)) found.set(name, { items: [], isList });
  found.get(name).items.push(value);
}

// A field that is unknown is a list only when it was there several times.
function listOf({ items, isList }) {
  return isList || items.length > 1 ? list(items) : items[0];
}

function enter(found, name, of, field, messages, depth) {
  const parts = fieldsOf(need(field));
  const key = textOf(bytesAt(parts, 1)) ?? "";
  const part = parts.find(({ number }) => number === 2) ?? { number: 2, bytes: new Uint8Array(0) };
  if (!found.has(name)) found.set(name, { entries: [] });
  found.get(name).entries.push([key, read(part, of, messages, depth)]);
}

// Repeated numbers may be packed into one field.
function each(field, of, take) {
  if (!field.bytes || !["i", "u"].includes(of)) {
    take(field);
    return;
  }
  const reader = { bytes: field.bytes, at: 0 };
  while (reader.at < reader.bytes.length) take({ integer: varint(reader) });
}

function need({ bytes }) {
  if (!bytes) throw new Error("a field has another type");
  return bytes;
}

function read(field, of, messages, depth) {
  if (typeof of === "number") return message(need(field), messages[of], messages, depth + 1);
  if (of === "b") return text(toBase64(need(field)));
  if (of === "s") {
    const content = textOf(need(field));
    if (content === null) throw new Error("a text is not UTF-8");
    return text(content);
  }
  if (of === "d")
    return plain(
      field.fixed
        ? new DataView(field.fixed.buffer, field.fixed.byteOffset, field.fixed.length).getFloat64(0, true)
        : 0,
    );
  if (field.integer === undefined) throw new Error("a field has another type");
  return plain(of === "u" ? field.integer !== 0n : BigInt.asIntN(64, field.integer));
}

function isZero(value) {
  return value.type === "text"
    ? value.text === ""
    : value.type === "plain" && ["0", "false"].includes(value.text);
}

const number = (fields, wanted) =>
  BigInt.asIntN(64, fields.findLast((field) => field.number === wanted)?.integer ?? 0n);
const bytesAt = (fields, wanted) =>
  fields.findLast((field) => field.number === wanted)?.bytes ?? new Uint8Array(0);
const textAt = (fields, wanted) => text(textOf(bytesAt(fields, wanted)) ?? "");

const SPECIAL = {
  Quantity: (bytes) => textAt(fieldsOf(bytes), 1),
  IntOrString(bytes) {
    const fields = fieldsOf(bytes);
    return number(fields, 1) === 0n ? plain(BigInt.asIntN(32, number(fields, 2))) : textAt(fields, 3);
  },
  Time: (bytes) => time(fieldsOf(bytes), 0),
  MicroTime: (bytes) => time(fieldsOf(bytes), 6),
  FieldsV1: embedded,
  RawExtension: embedded,
};

// RFC 3339. A time that is not set is left out.
function time(fields, digits) {
  const seconds = number(fields, 1);
  const nanos = number(fields, 2);
  if (fields.length === 0 || (seconds === 0n && nanos === 0n)) return NOTHING;
  const date = new Date(Number(seconds) * 1000);
  if (Number.isNaN(date.getTime())) throw new Error("a time is out of range");
  const fraction = digits > 0 ? "." + String(nanos).padStart(9, "0").slice(0, digits) : "";
  return text(date.toISOString().slice(0, -5) + fraction + "Z");
}

function embedded(bytes) {
  const raw = bytesAt(fieldsOf(bytes), 1);
  return parseJson(textOf(raw) ?? "") ?? text(toBase64(raw));
}

// A message of an unknown type: numbers for names, and a guess at what each field holds.
function generic(bytes, depth) {
  const found = new Map();
  for (const field of fieldsOf(bytes)) append(found, `field ${field.number}`, genericField(field, depth));
  return object([...found].map(([name, held]) => [name, listOf(held)]));
}

function genericField(field, depth) {
  if (field.integer !== undefined) return plain(BigInt.asIntN(64, field.integer));
  if (field.fixed) return text(`0x${Array.from(field.fixed, hexOf).reverse().join("")}`);
  const content = textOf(field.bytes);
  if (content !== null && !/[\u0000-\u0008\u000b-\u001f\u007f]/.test(content)) return text(content);
  if (depth < DEPTH_MAX) {
    try {
      return generic(field.bytes, depth + 1);
    } catch {
      // It is no message: bytes.
    }
  }
  return text(toBase64(field.bytes));
}

// The fields of a message: {number, integer}, {number, bytes} or {number, fixed}.
function fieldsOf(bytes) {
  const reader = { bytes, at: 0 };
  const fields = [];
  while (reader.at < bytes.length) {
    const tag = varint(reader);
    const field = { number: Number(tag >> 3n) };
    const wire = Number(tag & 7n);
    if (field.number === 0 || field.number > 0x1fffffff) throw new Error("a field has no number");
    if (wire === 0) field.integer = varint(reader);
    else if (wire === 2) field.bytes = span(reader, Number(varint(reader)));
    else if (wire === 1) field.fixed = span(reader, 8);
    else if (wire === 5) field.fixed = span(reader, 4);
    else throw new Error(`wire type ${wire}`);
    fields.push(field);
  }
  return fields;
}

function span(reader, length) {
  if (length > reader.bytes.length - reader.at) throw new Error("it is cut off");
  reader.at += length;
  return reader.bytes.subarray(reader.at - length, reader.at);
}

function varint(reader) {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = reader.bytes[reader.at++];
    if (byte === undefined) throw new Error("it is cut off");
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return BigInt.asUintN(64, value);
  }
  throw new Error("an integer is too long");
}
