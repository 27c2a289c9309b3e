// Figures of each member at a look, and what is new since the look before.
//
//   answer ──► read ──► look {store, load, process, age} ──┬─► next look
//                              before, seconds ◄───────────┘
//
// Counters begin at 0 when a member starts, so a look has a `before` only of the same run. The time between two
// looks is that of the member's own clock: an answer that a server kept comes later than it was given.

import { hexId } from "./figures.js";

// Figures of another member that are older than this are marked as old, and the member is not judged by them.
// An answer that comes after the server has given up waiting for it is shown at the next look.
const OLD = 15; // s
// Two looks that are closer than this count as one.
const SOONEST = 0.5; // s

// Longest text of another member that is shown.
const TEXT_MAX = 40;

const STORE = [
  "revision",
  "compacted_revision",
  "keys",
  "key_versions",
  "db_size_bytes",
  "db_in_use_bytes",
  "quota_bytes",
  "index_memory_bytes",
  "raft_term",
  "raft_index",
  "raft_applied_index",
];
const DISK = ["disk_free_bytes", "disk_total_bytes"];
const COUNTERS = ["ranges", "puts", "deletes", "txns", "events", "flushes"];
const LOAD = [...COUNTERS, "watches", "connections"];

export const nameOf = (member) => member.name || hexId(member.id);

export class Looks {
  #known = new Map(); // ID -> look
  #self = null; // ID of the server that was asked

  // Looks by the ID of the member, of an answer that came at a moment (ms).
  take({ members, store, load, process }, at) {
    const self = members.find(({ is_self }) => is_self)?.id;
    // Another server may have kept older answers.
    if (self !== this.#self) this.#known.clear();
    this.#self = self;
    const found = new Map();
    for (const { id, figures } of members) {
      const given = id === self ? { store, load, process } : figures;
      if (isObject(given)) found.set(id, follow(this.#known.get(id), read(given), at / 1000));
    }
    this.#known = found;
    return found;
  }
}

export const isOld = (look) => look.age > OLD;

function follow(earlier, figures, now) {
  const look = { ...figures, moment: now - figures.age, before: null, seconds: null };
  if (!earlier || hasRestarted(earlier, look)) return look;
  const seconds = secondsBetween(earlier, look);
  if (seconds < SOONEST) return { ...earlier, age: look.age };
  return { ...look, before: { load: earlier.load, process: earlier.process }, seconds };
}

function hasRestarted(earlier, look) {
  const isLower = (a, b) => a !== null && b !== null && Number(b) < Number(a);
  return (
    isLower(earlier.process.uptime_seconds, look.process.uptime_seconds) ||
    isLower(earlier.process.cpu_seconds, look.process.cpu_seconds) ||
    [...COUNTERS, "flush_seconds"].some((name) => isLower(earlier.load[name], look.load[name]))
  );
}

function secondsBetween(earlier, look) {
  const [a, b] = [earlier.process.uptime_seconds, look.process.uptime_seconds];
  return a === null || b === null ? look.moment - earlier.moment : b - a;
}

const isObject = (value) => typeof value === "object" && value !== null;

// The figures of an answer: a decimal number as text, a time as a number of seconds, null for what is not known.
function read({ store, load, process, age_seconds }) {
  return {
    age: time({ age_seconds }, "age_seconds", 0) ?? 0,
    store: { ...wholes(store, STORE, "0"), ...wholes(store, DISK, null) },
    load: {
      ...wholes(load, LOAD, "0"),
      flush_seconds: time(load, "flush_seconds", 0),
      flush_buckets: buckets(load),
    },
    process: {
      version: text(process, "version"),
      etcd_version: text(process, "etcd_version"),
      ...wholes(process, ["resident_memory_bytes"], null),
      cpu_seconds: time(process, "cpu_seconds", null),
      uptime_seconds: time(process, "uptime_seconds", null),
    },
  };
}

// An answer leaves out a figure with its default, and `absent` is that one.
const wholes = (source, names, absent) =>
  Object.fromEntries(names.map((name) => [name, whole(source, name, absent)]));

function whole(source, name, absent) {
  if (!isObject(source)) return null;
  const value = source[name] ?? absent;
  return /^\d{1,20}$/.test(value) ? String(value) : null;
}

function time(source, name, absent) {
  if (!isObject(source)) return null;
  const value = source[name] ?? absent;
  return Number.isFinite(value) && value >= 0 ? value : null;
}

function text(source, name) {
  const value = source?.[name];
  return typeof value === "string" && value !== "" ? value.slice(0, TEXT_MAX) : null;
}

function buckets(load) {
  const all = Array.isArray(load?.flush_buckets) ? load.flush_buckets : [];
  return all
    .map((bucket) => ({ limit: time(bucket, "seconds_max", 0), count: whole(bucket, "count", "0") }))
    .filter(({ limit, count }) => limit !== null && count !== null);
}

// A share between 0 and 1; null if it is not known, or if there is no limit.
export function share(used, most) {
  if (used === null || most === null || Number(most) === 0) return null;
  return Math.min(1, Number(used) / Number(most));
}

// Bytes of the disk that are taken; null if they are not known.
export function takenBytes({ disk_free_bytes: free, disk_total_bytes: total }) {
  if (free === null || total === null || BigInt(free) > BigInt(total)) return null;
  return String(BigInt(total) - BigInt(free));
}

export const diskShare = ({ store }) => share(takenBytes(store), store.disk_total_bytes);
export const quotaShare = ({ store }) => share(store.db_in_use_bytes, store.quota_bytes);

// Entries that a member has and has not applied yet; null if they are not known.
export function unapplied({ store: { raft_index: newest, raft_applied_index: applied } }) {
  if (newest === null || applied === null) return null;
  const number = BigInt(newest) - BigInt(applied);
  return number > 0n ? number : 0n;
}

// Growth of a counter per second since the look before; null without one.
export function rateOf(name, { load, before, seconds }) {
  const [a, b] = [before?.load[name] ?? null, load[name]];
  return a === null || b === null ? null : (Number(b) - Number(a)) / seconds;
}

// Percent of one core since the look before; null without one.
export function processorShare({ process, before, seconds }) {
  const [a, b] = [before?.process.cpu_seconds ?? null, process.cpu_seconds];
  return a === null || b === null ? null : (100 * (b - a)) / seconds;
}

// Times of flushes in seconds: of those since the look before, or of all if there were none. `mean` and `most`, the
// limit that 99 of 100 keep, are null if they are not known; `most` is Infinity if the last limit is too short.
export function flushTimes({ load, before }) {
  const isRecent = Number(load.flushes) > Number(before?.load.flushes ?? Infinity);
  const base = isRecent ? before.load : null;
  const number = Number(load.flushes) - Number(base?.flushes ?? 0);
  if (number === 0) return { number, isRecent, mean: null, most: null };
  const sum = load.flush_seconds === null ? null : load.flush_seconds - (base?.flush_seconds ?? 0);
  const earlier = new Map(base?.flush_buckets.map(({ limit, count }) => [limit, Number(count)]));
  const within = load.flush_buckets.find(
    ({ limit, count }) => Number(count) - (earlier.get(limit) ?? 0) >= 0.99 * number,
  );
  const last = load.flush_buckets.at(-1)?.limit ?? null;
  return {
    number,
    isRecent,
    mean: sum === null ? null : sum / number,
    most: within?.limit ?? (last === null ? null : Infinity),
    last,
  };
}
