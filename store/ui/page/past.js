// Past events of a range, read with a watch that is ended at the newest revision: the answer to a request
// for progress comes after all events up to then.

import { stream } from "./api.js";
import { toBase64 } from "./bytes.js";
import { startingPoints } from "./session.js";

const TIME_MAX = 20_000; // ms
const EVENT_BYTES_MAX = 32 * 1024 * 1024;

// Sends a watch from a revision; `take` returns true when it has enough.
async function readPast(key, revision, take) {
  const abort = new AbortController();
  const requests = [
    { create_request: { key: toBase64(key), start_revision: revision } },
    { progress_request: {} },
  ];
  const each = (message) => {
    if (take(message) || message.watch_id === "-1" || message.canceled) abort.abort();
  };
  const timer = setTimeout(() => abort.abort(), TIME_MAX);
  try {
    await stream("watch", requests, { signal: abort.signal, take: each });
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  } finally {
    clearTimeout(timer);
  }
}

// The oldest revision that can be read: a watch from the first one names it, when there was a compaction.
export async function oldestRevision(key = startingPoints()[0]?.prefix ?? new Uint8Array(0)) {
  let oldest = "1";
  await readPast(key.length > 0 ? key : new Uint8Array([0]), "1", ({ compact_revision, events }) => {
    oldest = compact_revision ?? "1";
    return Boolean(events);
  });
  return oldest;
}

// The events of a key that are kept, the oldest first; at most `most`, and whether these are all.
export async function eventsOf(key, most) {
  const found = [];
  let bytes = 0;
  await readPast(key, await oldestRevision(key), ({ events = [] }) => {
    found.push(...events);
    for (const { kv } of events) bytes += kv.value?.length ?? 0;
    return found.length >= most || bytes > EVENT_BYTES_MAX;
  });
  return { events: found.slice(0, most), complete: found.length < most && bytes <= EVENT_BYTES_MAX };
}
