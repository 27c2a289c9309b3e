// The user, and what the user's roles may read and write. The server decides; this only spares the user
// buttons that would be refused, and tells the tree where to begin.

import { call, forget, remember, token, userName } from "./api.js";
import { compare, equal, fromBase64, isOpenEnd, startsWith } from "./bytes.js";

const RANGE_PREFIXES_MAX = 16;
const EVERYTHING = pointOf(new Uint8Array(0));

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

// Where the tree begins: prefixes, and single keys, that the user may read, without those that others cover.
export function startingPoints() {
  if (mayReadEverything()) return [EVERYTHING];
  const all = session.permissions.filter((one) => one.reads).flatMap(pointsOf);
  const kept = [];
  for (const one of all.sort(widestFirst)) if (!kept.some((other) => isInside(one, other))) kept.push(one);
  return kept;
}

// A point is a prefix or a single key. `end` is where the user's right ends if that is inside the prefix, else null.
function pointOf(prefix, { single = false, end = null } = {}) {
  return { prefix, single, end };
}

// In the order of the prefixes; of equal ones the widest comes first.
function widestFirst(a, b) {
  const narrowness = ({ single, end }) => (single ? 2 : end ? 1 : 0);
  return (
    compare(a.prefix, b.prefix) ||
    narrowness(a) - narrowness(b) ||
    (a.end && b.end ? compare(b.end, a.end) : 0)
  );
}

// Whether a point is inside one that comes before it.
function isInside(one, other) {
  if (equal(one.prefix, other.prefix)) return true;
  return !other.single && other.end === null && startsWith(one.prefix, other.prefix);
}

// Prefixes that make up the range of a permission. A range that is not made of a few prefixes begins with
// that of its first key.
function pointsOf({ key, end }) {
  if (end === null) return [pointOf(key, { single: true })];
  if (isOpenEnd(end)) return [pointOf(key)];
  const last = key.length - 1;
  const areSiblings =
    key.length > 0 && key.length === end.length && equal(key.subarray(0, last), end.subarray(0, last));
  const number = end[last] - key[last];
  if (!areSiblings || number > RANGE_PREFIXES_MAX)
    return [pointOf(key, { end: startsWith(end, key) ? end : null })];
  return Array.from({ length: number }, (_, at) => {
    const prefix = key.slice();
    prefix[last] += at;
    return pointOf(prefix);
  });
}
