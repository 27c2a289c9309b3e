// The prefixes with the most events, in bounded memory: the algorithm Space-Saving with counters that fade.
// The same as `inkstone top` counts.

const COUNTERS_MAX = 1000;
const KEPT = 0.8;
const SLASH = 0x2f;
const PREFIX_BYTES_MAX = 128;

export class HotPrefixes {
  constructor() {
    this.counts = new Map(); // prefix in Latin-1 -> events
    this.seconds = 0;
  }

  count(key) {
    const prefix = prefixOf(key);
    let before = this.counts.get(prefix);
    if (before === undefined) before = this.counts.size < COUNTERS_MAX ? 0 : this.#takeRarest();
    this.counts.set(prefix, before + 1);
  }

  #takeRarest() {
    let rarest = null;
    for (const entry of this.counts) if (rarest === null || entry[1] < rarest[1]) rarest = entry;
    this.counts.delete(rarest[0]);
    return rarest[1];
  }

  // Notes that seconds have passed: the past counts less.
  fade(seconds) {
    for (const [prefix, events] of this.counts) {
      if (events * KEPT < 0.05) this.counts.delete(prefix);
      else this.counts.set(prefix, events * KEPT);
    }
    this.seconds = (this.seconds + seconds) * KEPT;
  }

  // The prefixes with the most events, with their events per second.
  hottest(most) {
    const sorted = [...this.counts].sort((a, b) => b[1] - a[1]).slice(0, most);
    return sorted.map(([prefix, events]) => ({
      prefix: Uint8Array.from(prefix, (character) => character.charCodeAt(0)),
      events,
      rate: this.seconds > 0 ? events / this.seconds : 0,
    }));
  }
}

// The key up to its second slash, or its first, or the whole key; a slash at its beginning does not count.
function prefixOf(key) {
  let end = key.length;
  let slashes = 0;
  for (let at = 1; at < key.length && slashes < 2; at++) {
    if (key[at] !== SLASH) continue;
    slashes += 1;
    end = at + 1;
  }
  return String.fromCharCode(...key.subarray(0, Math.min(end, PREFIX_BYTES_MAX)));
}
