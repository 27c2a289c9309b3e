// Past events of a range, read with a watch that is ended at the newest revision: the answer to a request
// for progress comes after all events up to then.

import { CallError, stream } from "./api.js";
import { toBase64 } from "./bytes.js";
import { firstKey } from "./session.js";

const TIME_MAX = 20_000; // ms
const EVENT_BYTES_MAX = 32 * 1024 * 1024;

// Sends a watch from a revision; `take` returns true when it has enough. Returns how it ended: "end" if `take`
// got every event, "enough" if it said so, "late" if the time was over, "refused" if the server ended the watch.
async function readPast(key, revision, { signal, take }) {
  const abort = new AbortController();
  const requests = [
    { create_request: { key: toBase64(key), start_revision: revision } },
    { progress_request: {} },
  ];
  let ended = "late";
  const end = (how) => {
    ended = how;
    abort.abort();
  };
  const each = (message) => {
    if (take(message)) end("enough");
    else if (message.canceled) end("refused");
    else if (message.watch_id === "-1") end("end");
  };
  const both = AbortSignal.any([abort.signal, signal, AbortSignal.timeout(TIME_MAX)]);
  try {
    await stream("watch", requests, { signal: both, take: each });
  } catch (error) {
    signal.throwIfAborted();
    if (!both.aborted) throw error;
  }
  return ended;
}

// The oldest revision that can be read: a watch from the first one names it, when there was a compaction.
export async function oldestRevision(signal, key = firstKey()) {
  let oldest = null;
  const take = ({ compact_revision, events, watch_id }) => {
    oldest = compact_revision ?? (events || watch_id === "-1" ? "1" : null);
    return oldest !== null;
  };
  await readPast(key, "1", { signal, take });
  if (oldest === null) throw new CallError(14, "no answer");
  return oldest;
}

// The events of a key that are kept, the oldest first; at most `most`, and whether these are all.
export async function eventsOf(key, most, signal) {
  const found = [];
  let bytes = 0;
  const take = ({ events = [] }) => {
    found.push(...events);
    for (const { kv } of events) bytes += kv.value?.length ?? 0;
    return found.length > most || bytes > EVENT_BYTES_MAX;
  };
  const ended = await readPast(key, await oldestRevision(signal, key), { signal, take });
  if (ended === "refused") throw new CallError(14, "the server ended the search");
  return { events: found.slice(0, most), complete: ended === "end" };
}
