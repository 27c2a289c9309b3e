// Repeats a task while the page is looked at. A task that took long rests for a hundred times as long, so
// that an open page takes at most a hundredth of the server's time.

import { CallError } from "./api.js";

const INTERVAL = 5000; // ms
const RESTS = 100;

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
    if (running || ended || document.hidden) return;
    running = true;
    const began = performance.now();
    try {
      await task();
    } catch (error) {
      if (!(error instanceof CallError)) console.error(error);
    }
    running = false;
    schedule(Math.max(interval, RESTS * (performance.now() - began)));
  };
  const changed = () => (document.hidden ? clearTimeout(timer) : schedule(500));
  document.addEventListener("visibilitychange", changed);
  schedule(interval);
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", changed);
  };
}
