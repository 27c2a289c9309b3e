// The user, and what the user's roles may read and write. The server decides; this only spares the user
// buttons that would be refused, and tells the tree where to begin.

import { call, CallError, forget, remember, token, userName } from "./api.js";
import { compare, endOfPrefix, equal, fromBase64, startsWith } from "./bytes.js";

const RANGE_PREFIXES_MAX = 16;
const EVERYTHING = { prefix: new Uint8Array(0), single: false };

// authentication: "off", "on" or "unknown" (not yet asked, or the server does not say).
export const session = { authentication: "unknown", user: null, root: false, permissions: [] };

export async function loadSession() {
  Object.assign(session, { user: userName(), root: false, permissions: [] });
  try {
    const { enabled } = await call("auth/status");
    session.authentication = enabled ? "on" : "off";
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    session.authentication = error.needsSignIn || error.forbidden ? "on" : "unknown";
    if (error.needsSignIn) return;
  }
  if (session.authentication !== "on" || !token()) return;
  const { roles = [] } = await call("auth/user/get", { name: session.user });
  session.root = roles.includes("root");
  if (session.root) return;
  const all = await Promise.all(roles.map((role) => call("auth/role/get", { role })));
  session.permissions = all.flatMap(({ perm = [] }) => perm).map(permissionOf);
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

const unlimited = () => session.authentication !== "on" || session.root;
const isEnd = (end) => end.length === 1 && end[0] === 0;

function covers({ key: from, end }, key) {
  if (end === null) return equal(from, key);
  return compare(from, key) <= 0 && (isEnd(end) || compare(key, end) < 0);
}

export function mayWrite(key) {
  return unlimited() || session.permissions.some((one) => one.writes && covers(one, key));
}

export const mayWriteSomething = () => unlimited() || session.permissions.some((one) => one.writes);

export function mayReadEverything() {
  return (
    unlimited() ||
    session.permissions.some((one) => one.reads && one.end && one.key.length <= 1 && isEnd(one.end))
  );
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
export function pointsOf({ key, end }) {
  if (end === null) return [{ prefix: key, single: true }];
  if (isEnd(end) || key.length !== end.length || key.length === 0) return [{ prefix: key, single: false }];
  const last = key.length - 1;
  const parents = equal(key.subarray(0, last), end.subarray(0, last));
  const number = end[last] - key[last];
  if (!parents || number > RANGE_PREFIXES_MAX) {
    return [{ prefix: key, single: false, partial: !equal(endOfPrefix(key), end) }];
  }
  return Array.from({ length: number }, (_, at) => {
    const prefix = key.slice();
    prefix[last] += at;
    return { prefix, single: false };
  });
}
