// When a revision was made. The store has no times: what is known are moments at which this browser saw which
// revision was the newest. A change took place between two of them.

import { storedAs } from "./api.js";

const STORED = storedAs("moments");
const KEPT_MAX = 600;
// A member that lags answers with a lower revision for a moment. A store that was made again or restored does
// so for longer.
const LOWER_MAX = 60_000; // ms
const SAVE_AFTER = 3000; // ms

let samples = read(); // [milliseconds, revision as a number], ascending in both
let lowerSince = null; // when the first of the lower revisions was seen that came last, ms
let saving = null; // timer

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
  if (last && number < last[1]) {
    lowerSince ??= now;
    if (now - lowerSince < LOWER_MAX) return;
    samples = [];
  }
  lowerSince = null;
  add(number, now);
  saving ??= setTimeout(save, SAVE_AFTER);
}

function add(number, now) {
  const last = samples[samples.length - 1];
  const before = samples[samples.length - 2];
  if (last && before && last[1] === number && before[1] === number) last[0] = now;
  else samples.push([now, number]);
  if (samples.length > KEPT_MAX) samples = thinned(samples);
}

function save() {
  clearTimeout(saving);
  saving = null;
  try {
    localStorage.setItem(STORED, JSON.stringify(samples));
  } catch {
    // Without storage the samples live as long as the page.
  }
}

addEventListener("pagehide", save);

// The older half with every second sample left out.
function thinned(all) {
  const half = all.length / 2;
  return all.filter((_, at) => at >= half || at % 2 === 0);
}

// The moments between which a revision was made, each null if none is known. While it is open whether this is
// another store, none is.
export function momentsOf(revision) {
  if (lowerSince !== null) return { after: null, before: null };
  const number = Number(revision);
  let after = null;
  let before = null;
  for (const [time, newest] of samples) {
    if (newest < number) after = Math.max(after ?? 0, time);
    else before = Math.min(before ?? Infinity, time);
  }
  return { after, before };
}
