// The user, and what the user's roles may read and write. The server decides; this only spares the user
// buttons that would be refused, and tells the tree where to begin.

import { call, forget, remember, token, userName } from "./api.js";
import {
  ZERO,
  compare,
  concat,
  endOfPrefix,
  equal,
  fromBase64,
  isEmptySpan,
  isOpenEnd,
  overlapOf,
  spanOfPrefix,
} from "./bytes.js";

const RANGE_PREFIXES_MAX = 16;
const SLASH = 0x2f;
const NO_BYTES = new Uint8Array(0);
const EVERYTHING = pointOf(NO_BYTES);

// authentication: "off", "on", or "unknown" until the server has said it.
export const session = { authentication: "unknown", user: null, root: false, permissions: [] };

// Assigns nothing before all answers are there, so that a failed call leaves no rights behind.
export async function loadSession() {
  session.authentication = "unknown";
  const user = userName();
  const isOn = await checksUsers();
  const rights = isOn && token() ? await rightsOf(user) : { root: false, permissions: [] };
  Object.assign(session, { authentication: isOn ? "on" : "off", user, ...rights });
}

async function rightsOf(name) {
  const { roles = [] } = await call("auth/user/get", { name });
  if (roles.includes("root")) return { root: true, permissions: [] };
  const all = await Promise.all(roles.map((role) => call("auth/role/get", { role })));
  return { root: false, permissions: all.flatMap(({ perm = [] }) => perm).map(permissionOf) };
}

async function checksUsers() {
  try {
    return Boolean((await call("auth/status")).enabled);
  } catch (error) {
    if (error.needsSignIn || error.forbidden) return true;
    throw error;
  }
}

// A permission as {reads, writes, key, end}; end is null for a single key.
export function permissionOf({ permType = "READ", key, range_end }) {
  return {
    reads: permType !== "WRITE",
    writes: permType !== "READ",
    key: fromBase64(key),
    end: range_end ? fromBase64(range_end) : null,
  };
}

export async function signIn(name, password) {
  const { token: value } = await call("auth/authenticate", { name, password });
  remember(name, value);
}

export const signOut = forget;

const unlimited = () => session.authentication === "off" || session.root;

function covers({ key: from, end }, key) {
  if (end === null) return equal(from, key);
  return compare(from, key) <= 0 && (isOpenEnd(end) || compare(key, end) < 0);
}

// Whether a range without an end begins at the first key of all.
export function isEverything({ key, end }) {
  const isFirst = key.length === 0 || (key.length === 1 && key[0] === 0);
  return end !== null && isOpenEnd(end) && isFirst;
}

export function mayWrite(key) {
  return unlimited() || session.permissions.some((one) => one.writes && covers(one, key));
}

export const mayWriteSomething = () => unlimited() || session.permissions.some((one) => one.writes);

export function mayReadEverything() {
  return unlimited() || session.permissions.some((one) => one.reads && isEverything(one));
}

// Where the tree begins: prefixes, single keys and parts of prefixes that the user may read. None overlaps another.
export function startingPoints() {
  if (mayReadEverything()) return [EVERYTHING];
  const spans = session.permissions.filter((one) => one.reads).map(spanOfPermission);
  return joined(spans.sort((one, other) => compare(one.key, other.key))).flatMap(pointsOf);
}

function spanOfPermission({ key, end }) {
  if (end === null) return spanOfKey(key);
  return { key, end: isOpenEnd(end) ? null : end };
}

const spanOfKey = (key) => ({ key, end: concat(key, ZERO) });

// Spans that are in the order of their keys, with those that overlap as one.
function joined(spans) {
  const all = [];
  for (const { key, end } of spans) {
    const last = all.at(-1);
    const overlaps = last && (last.end === null || compare(key, last.end) < 0);
    if (!overlaps) all.push({ key, end });
    else if (last.end !== null && (end === null || compare(end, last.end) > 0)) last.end = end;
  }
  return all;
}

// A point is a prefix or a single key. `part` is the span of its keys that the user may read, null if that is all.
function pointOf(prefix, { single = false, part = null } = {}) {
  return { prefix, single, part };
}

// The keys of a point, as a span.
export function spanOf({ prefix, single, part }) {
  if (single) return spanOfKey(prefix);
  return part ?? spanOfPrefix(prefix);
}

// The first key that the user may read, for calls that need any; it need not exist.
export function firstKey(point = startingPoints()[0] ?? EVERYTHING) {
  const { key } = spanOf(point);
  return key.length > 0 ? key : ZERO;
}

// The keys with a prefix that the user may read, as a span: all of them, or the first part. All if there are none:
// then it is the server that says why.
export function readableSpan(prefix) {
  const whole = spanOfPrefix(prefix);
  const parts = startingPoints().map((point) => overlapOf(spanOf(point), whole));
  return parts.find((part) => !isEmptySpan(part)) ?? whole;
}

// Prefixes that make up a span, or else a part of the level that has all its keys.
function pointsOf({ key, end }) {
  const part = { key, end };
  if (equal(end ?? ZERO, endOfPrefix(key))) return [pointOf(key)];
  if (end === null) return [pointOf(NO_BYTES, { part })];
  if (equal(end, concat(key, ZERO))) return [pointOf(key, { single: true })];
  const last = key.length - 1;
  const areSiblings =
    key.length > 0 && key.length === end.length && equal(key.subarray(0, last), end.subarray(0, last));
  const number = end[last] - key[last];
  if (!areSiblings || number > RANGE_PREFIXES_MAX) return [pointOf(levelOf(key, end), { part })];
  return Array.from({ length: number }, (_, at) => {
    const prefix = key.slice();
    prefix[last] += at;
    return pointOf(prefix);
  });
}

// The longest prefix of both names that ends with a slash, or is empty.
function levelOf(a, b) {
  let length = 0;
  for (let at = 0; at < a.length && a[at] === b[at]; at++) if (a[at] === SLASH) length = at + 1;
  return a.slice(0, length);
}
