// Lines that differ, by Myers' algorithm: the shortest edit from one list to another.

const EDITS_MAX = 1500;
const LINES_MAX = 50_000;

// The lines of both texts in order, as {kind: "same" | "old" | "new", line, a, b}: a and b are the numbers
// of the line in the old and the new text. `exact` is false where the texts differ too much to compare.
export function difference(oldLines, newLines) {
  let begin = 0;
  const shorter = Math.min(oldLines.length, newLines.length);
  while (begin < shorter && oldLines[begin] === newLines[begin]) begin++;
  let end = 0;
  while (end < shorter - begin && oldLines[oldLines.length - 1 - end] === newLines[newLines.length - 1 - end])
    end++;
  const a = oldLines.slice(begin, oldLines.length - end);
  const b = newLines.slice(begin, newLines.length - end);
  const small = a.length + b.length <= LINES_MAX;
  const oneSided = a.length === 0 || b.length === 0;
  const middle = oneSided ? replaced(a, b) : small ? shortestEdit(a, b) : null;
  const all = [
    ...oldLines.slice(0, begin).map((line) => ({ kind: "same", line })),
    ...(middle ?? replaced(a, b)),
    ...oldLines.slice(oldLines.length - end).map((line) => ({ kind: "same", line })),
  ];
  number(all);
  return { lines: all, exact: middle !== null };
}

function replaced(a, b) {
  return [...a.map((line) => ({ kind: "old", line })), ...b.map((line) => ({ kind: "new", line }))];
}

function number(all) {
  let a = 0;
  let b = 0;
  for (const one of all) {
    if (one.kind !== "new") one.a = ++a;
    if (one.kind !== "old") one.b = ++b;
  }
}

function shortestEdit(a, b) {
  const offset = Math.min(EDITS_MAX, a.length + b.length) + 1;
  const furthest = new Int32Array(2 * offset + 1);
  const traces = [];
  for (let edits = 0; edits < offset; edits++) {
    traces.push(furthest.slice(offset - edits - 1, offset + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && furthest[offset + k - 1] < furthest[offset + k + 1]);
      let x = down ? furthest[offset + k + 1] : furthest[offset + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest[offset + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(traces, a, b);
    }
  }
  return null;
}

function walkBack(traces, a, b) {
  const all = [];
  let x = a.length;
  let y = b.length;
  for (let edits = traces.length - 1; edits >= 0; edits--) {
    const at = (k) => traces[edits][k + edits + 1];
    const k = x - y;
    const down = k === -edits || (k !== edits && at(k - 1) < at(k + 1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = edits === 0 ? 0 : at(fromK);
    const fromY = edits === 0 ? 0 : fromX - fromK;
    while (x > fromX && y > fromY) {
      all.push({ kind: "same", line: a[--x] });
      y--;
    }
    if (edits === 0) break;
    if (down) all.push({ kind: "new", line: b[--y] });
    else all.push({ kind: "old", line: a[--x] });
  }
  return all.reverse();
}

// Parts of a difference with some lines of context; a part between them is {skipped: number}.
export function withContext(all, context) {
  const near = new Uint8Array(all.length);
  for (const [at, one] of all.entries()) {
    if (one.kind === "same") continue;
    near.fill(1, Math.max(0, at - context), Math.min(all.length, at + context + 1));
  }
  const parts = [];
  let skipped = 0;
  for (const [at, one] of all.entries()) {
    if (near[at]) {
      if (skipped > 0) parts.push({ skipped });
      skipped = 0;
      parts.push(one);
    } else skipped++;
  }
  if (skipped > 0) parts.push({ skipped });
  return parts;
}
