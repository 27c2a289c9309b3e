// A difference of two values as a table of lines. A line says by its sign, not only by its colour, whether
// it went or came.

import { nodes, ofText } from "./bytes.js";
import { button, el, fill } from "./dom.js";
import { difference, withContext } from "./diff.js";
import { counted } from "./figures.js";
import { linesOf } from "./value.js";

const LINES_SHOWN_MAX = 2000;
const SIGNS = { same: " ", old: "−", new: "+" };
const NAMES = { same: null, old: "removed: ", new: "added: " };

// The difference of two values, and its size in lines.
export async function compareValues(before, after) {
  const [a, b] = await Promise.all([linesOf(before), linesOf(after)]);
  const found = difference(a.lines, b.lines);
  return {
    ...found,
    reading: a.reading === b.reading ? a.reading : `${a.reading} to ${b.reading}`,
    removed: found.lines.filter(({ kind }) => kind === "old").length,
    added: found.lines.filter(({ kind }) => kind === "new").length,
  };
}

export function sizeOfChange({ added, removed }) {
  return el(
    "span",
    { class: "change-size" },
    el("span", { class: "plus", title: `${counted(added, "line")} added` }, `+${added}`),
    " ",
    el("span", { class: "minus", title: `${counted(removed, "line")} removed` }, `−${removed}`),
  );
}

export function differenceView(compared) {
  if (compared.added + compared.removed === 0) {
    return el("p", { class: "muted", "data-test": "difference" }, "Both values read the same.");
  }
  const body = el("tbody");
  const showWith = (context) => {
    const parts = withContext(compared.lines, context);
    fill(body, ...parts.slice(0, LINES_SHOWN_MAX).map((part) => lineOf(part, () => showWith(Infinity))));
    if (parts.length > LINES_SHOWN_MAX) body.append(lineOf({ skipped: parts.length - LINES_SHOWN_MAX }));
  };
  showWith(3);
  const note = compared.exact
    ? null
    : el(
        "p",
        { class: "muted small" },
        "The values differ too much for a comparison by lines: the old part stands before the new one.",
      );
  return el(
    "div",
    {},
    note,
    el(
      "div",
      {
        class: "table-box difference",
        tabindex: "0",
        role: "region",
        "aria-label": "Difference",
        "data-test": "difference",
      },
      el("table", { class: "lines" }, body),
    ),
  );
}

function lineOf({ skipped, kind, line, a, b }, showAll) {
  if (skipped) {
    const text = showAll ? counted(skipped, "equal line") : counted(skipped, "more line");
    return el(
      "tr",
      { class: "skipped" },
      el("td", { colspan: "4" }, showAll ? button(text, { class: "plain" }, showAll) : text),
    );
  }
  return el(
    "tr",
    { class: kind },
    el("td", { class: "at", "aria-hidden": "true" }, a ?? ""),
    el("td", { class: "at", "aria-hidden": "true" }, b ?? ""),
    el("td", { class: "sign", "aria-hidden": "true" }, SIGNS[kind]),
    el(
      "td",
      { class: "line", dir: "ltr" },
      NAMES[kind] ? el("span", { class: "unseen" }, NAMES[kind]) : null,
      nodes(ofText(line), true),
    ),
  );
}
