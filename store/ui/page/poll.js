// Repeats a task while the page is looked at. A task that took long rests for a hundred times as long, and
// for 30 seconds at most: an open page takes about a hundredth of the server's time.

import { CallError } from "./api.js";

const INTERVAL = 5000; // ms
const RESTS = 100;
const REST_MAX = 30_000; // ms
// Events of the window after which the task is run at once.
const REASONS = ["online", "store-changed"];

// Returns a function that ends the repetition. `task` is called with no request of its own under way.
export function every(task, interval = INTERVAL) {
  let timer = null;
  let ended = false;
  let running = false;
  const schedule = (delay) => {
    clearTimeout(timer);
    if (!ended && !document.hidden) timer = setTimeout(run, delay);
  };
  const run = async () => {
    clearTimeout(timer);
    if (running || ended || document.hidden) return;
    running = true;
    const began = performance.now();
    try {
      await task();
    } catch (error) {
      if (!(error instanceof CallError)) console.error(error);
    }
    running = false;
    const rest = Math.min(REST_MAX, RESTS * (performance.now() - began));
    schedule(Math.max(interval, rest));
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
