// An old value becomes the value again: shown as a difference first, and put only if the key is still as
// the difference shows it.

import { range } from "./api.js";
import { fromBase64, shown, toBase64 } from "./bytes.js";
import { compareValues, differenceView } from "./difference.js";
import { confirm, question } from "./dialog.js";
import { el, notice, toast } from "./dom.js";
import { grouped } from "./figures.js";
import { putIfSeen } from "./txn.js";

// Resolves to whether the value was put.
export async function bringBack(key, value, revision) {
  const isNewest = question();
  try {
    const { kvs = [] } = await range({ key: toBase64(key) });
    const now = kvs[0] ?? null;
    const compared = await compareValues(now ? fromBase64(now.value) : new Uint8Array(0), value);
    return isNewest() && (await ask(key, value, revision, { now, compared }));
  } catch (error) {
    toast(error.ofChange ?? error.message, "bad");
    return false;
  }
}

async function ask(key, value, revision, { now, compared }) {
  const seen = now?.mod_revision ?? "0";
  const sure = await confirm({
    title: "Bring this value back?",
    agree: "Bring it back",
    test: "confirm-bring-back",
    content: [
      el("p", { class: "key-name" }, shown(key)),
      el(
        "p",
        {},
        now
          ? `The value of revision ${grouped(revision)} replaces that of revision ${grouped(seen)}, if the key is still so:`
          : `The key was deleted. It is created again with the value of revision ${grouped(revision)}:`,
      ),
      differenceView(compared),
      now?.lease ? notice("note", "The key keeps the lease that it has now.") : null,
    ],
  });
  if (!sure) return false;
  const { done, revision: made } = await putIfSeen({ key, seen, value, keepLease: Boolean(now?.lease) });
  if (done) toast(`Brought back, as revision ${grouped(made)}.`);
  else toast("The value is not brought back: the key changed since you saw it. Try again.", "bad");
  return done;
}
