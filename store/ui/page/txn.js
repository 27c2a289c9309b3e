// Changes of a key that take place only if the key is still as it was seen.

import { call } from "./api.js";
import { toBase64 } from "./bytes.js";

// `seen` is the key's modification revision, "0" for a key that was not there. Answers {done: true,
// revision}, or {done: false, now} with the key as it is now, null if it is gone.
async function ifSeen(key, seen, request) {
  const {
    header,
    succeeded,
    responses = [],
  } = await call("kv/txn", {
    compare: [{ target: "MOD", result: "EQUAL", key: toBase64(key), mod_revision: seen }],
    success: [request],
    failure: [{ request_range: { key: toBase64(key) } }],
  });
  if (succeeded) {
    // The view that is open looks at once.
    dispatchEvent(new Event("store-changed"));
    return { done: true, revision: header.revision };
  }
  return { done: false, now: responses[0]?.response_range?.kvs?.[0] ?? null };
}

export function putIfSeen({ key, seen, value, keepLease }) {
  const put = { key: toBase64(key), value: toBase64(value) };
  if (keepLease) put.ignore_lease = true;
  return ifSeen(key, seen, { request_put: put });
}

export function deleteIfSeen({ key, seen }) {
  return ifSeen(key, seen, { request_delete_range: { key: toBase64(key) } });
}
