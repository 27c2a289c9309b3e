// Repeats a task while the page is looked at. A task rests for a hundred times as long as it took, up to a limit, so
// that an open page takes about a hundredth of the server's time also when the server is slow. The limit after a
// failure is short: the server may answer again.

import { CallError } from "./api.js";

const INTERVAL = 5000; // ms
const RESTS = 100;
const REST_MAX = 300_000; // ms
const REST_FAILED_MAX = 30_000; // ms
// Events of the window after which the task is run at once.
const REASONS = ["online", "store-changed"];

// Returns a function that ends the repetition. `task` is called with no request of its own under way; it fails if it
// rejects or resolves to false.
export function every(task, interval = INTERVAL) {
  let timer = null;
  let ended = false;
  let running = false;
  let again = false; // whether an event came while the task was running
  const schedule = (delay) => {
    clearTimeout(timer);
    if (!ended && !document.hidden) timer = setTimeout(run, delay);
  };
  const run = async () => {
    clearTimeout(timer);
    if (ended || document.hidden) return;
    again = running;
    if (running) return;
    running = true;
    const began = performance.now();
    const max = (await succeeds(task)) ? REST_MAX : REST_FAILED_MAX;
    running = false;
    const rest = Math.min(max, RESTS * (performance.now() - began));
    schedule(again ? 0 : Math.max(interval, rest));
  };
  // `run` does nothing but end the timer while the page is hidden.
  document.addEventListener("visibilitychange", run);
  for (const reason of REASONS) addEventListener(reason, run);
  schedule(interval);
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", run);
    for (const reason of REASONS) removeEventListener(reason, run);
  };
}

async function succeeds(task) {
  try {
    return (await task()) !== false;
  } catch (error) {
    if (!(error instanceof CallError)) console.error(error);
    return false;
  }
}
