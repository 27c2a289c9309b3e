// When a revision was made. The store has no times: what is known are moments at which this browser saw which
// revision was the newest. A change took place between two of them.

import { storedAs } from "./api.js";

const STORED = storedAs("moments");
const KEPT_MAX = 600;

let samples = read(); // [milliseconds, revision as a number], ascending in both

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(STORED) ?? "[]");
    return found.filter((one) => Array.isArray(one) && one.every(Number.isFinite));
  } catch {
    return [];
  }
}

// Notes that a revision is the newest one now. Between equal revisions the first and the last are kept.
export function noteRevision(revision, now = Date.now()) {
  const number = Number(revision);
  const last = samples[samples.length - 1];
  if (last && number < last[1]) samples = []; // another store, or one that was restored
  const before = samples[samples.length - 2];
  if (last && before && last[1] === number && before[1] === number) last[0] = now;
  else samples.push([now, number]);
  if (samples.length > KEPT_MAX) samples = thinned(samples);
  try {
    localStorage.setItem(STORED, JSON.stringify(samples));
  } catch {
    // Without storage the samples live as long as the page.
  }
}

// The older half with every second sample left out.
function thinned(all) {
  const half = all.length / 2;
  return all.filter((_, at) => at >= half || at % 2 === 0);
}

// The moments between which a revision was made, each null if none is known.
export function momentsOf(revision) {
  const number = Number(revision);
  let after = null;
  let before = null;
  for (const [time, newest] of samples) {
    if (newest < number) after = Math.max(after ?? 0, time);
    else before = Math.min(before ?? Infinity, time);
  }
  return { after, before };
}
