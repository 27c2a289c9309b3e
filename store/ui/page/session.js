// The user, and what the user's roles may read and write. The server decides; this only spares the user
// buttons that would be refused, and tells the tree where to begin.

import { call, forget, remember, token, userName } from "./api.js";
import { compare, equal, fromBase64, isOpenEnd, startsWith } from "./bytes.js";

const RANGE_PREFIXES_MAX = 16;
const EVERYTHING = { prefix: new Uint8Array(0), single: false };

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

// Where the tree begins: prefixes, and single keys, that the user may read.
export function startingPoints() {
  if (mayReadEverything()) return [EVERYTHING];
  const all = session.permissions.filter((one) => one.reads).flatMap(pointsOf);
  const isWithin = (one) => all.some((other) => other !== one && !other.single && isInside(one, other));
  return all.filter((one) => !isWithin(one)).sort((a, b) => compare(a.prefix, b.prefix));
}

function isInside(one, other) {
  const longer = one.prefix.length > other.prefix.length || one.single;
  return longer && startsWith(one.prefix, other.prefix);
}

// Prefixes that make up the range of a permission. A range that is not made of a few prefixes begins with
// that of its first key.
function pointsOf({ key, end }) {
  if (end === null) return [{ prefix: key, single: true }];
  if (isOpenEnd(end) || key.length !== end.length || key.length === 0)
    return [{ prefix: key, single: false }];
  const last = key.length - 1;
  const parents = equal(key.subarray(0, last), end.subarray(0, last));
  const number = end[last] - key[last];
  if (!parents || number > RANGE_PREFIXES_MAX) return [{ prefix: key, single: false }];
  return Array.from({ length: number }, (_, at) => {
    const prefix = key.slice();
    prefix[last] += at;
    return { prefix, single: false };
  });
}
