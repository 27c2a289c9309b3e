// Elements are made here and nowhere else: data reaches the page as text nodes and attributes only.

// Makes an element. Attributes of value false, null or undefined are left out; a function is a listener.
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

// Replaces what is in a box; null, undefined and false are left out.
export function fill(box, ...content) {
  box.replaceChildren(
    ...content.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false),
  );
}

// Replaces what is in a box, and leaves the focus on the element that takes the place of the focused one.
export function refill(box, ...content) {
  const focused = box.contains(document.activeElement) ? focusName(document.activeElement) : null;
  fill(box, ...content);
  if (focused === null) return;
  const same = [...box.querySelectorAll("a, button, [tabindex]")].find((one) => focusName(one) === focused);
  same?.focus({ preventScroll: true });
}

// Buttons with the same text differ by `data-focus`.
function focusName(element) {
  const { dataset } = element;
  const name = dataset.focus ?? element.getAttribute("href") ?? element.getAttribute("aria-label");
  return `${element.tagName} ${name ?? element.textContent}`;
}

export function button(text, attributes, action) {
  return el("button", { type: "button", ...attributes, click: action }, text);
}

// A row of tabs: elements of the role tab.
export function tabList(label, tabs, className = "tabs") {
  return el("div", { class: className, role: "tablist", "aria-label": label, keydown: moveBetweenTabs }, tabs);
}

// Arrow keys between tabs, as the pattern of tabs asks for.
function moveBetweenTabs(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const tabs = [...event.currentTarget.querySelectorAll("[role=tab]")];
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  event.preventDefault();
  next.focus();
  next.click();
}

// A row of a table; cells are nodes or text, or {cell, class, title} for one with attributes.
export function row(cells, attributes = {}) {
  const made = cells.map((cell) => {
    const plain = cell instanceof Node || typeof cell !== "object" || cell === null;
    const { cell: content, ...own } = plain || Array.isArray(cell) ? { cell } : cell;
    return el("td", { role: "cell", ...own }, Array.isArray(content) ? el("div", {}, content) : content);
  });
  return el("tr", { role: "row", ...attributes }, made);
}

// A table in a box that scrolls by itself, so that the page never does sideways. The roles are written out
// because a narrow screen shows rows as lists, and browsers then forget that it is a table.
export function table(name, heads, rows) {
  const head = heads.map((text) => {
    const figure = text.startsWith("#");
    return el(
      "th",
      { scope: "col", role: "columnheader", class: figure ? "figure" : null },
      text === "" ? el("span", { class: "unseen" }, "Action") : figure ? text.slice(1) : text,
    );
  });
  for (const one of rows) label(one, heads);
  return el(
    "div",
    { class: "table-box", tabindex: "0", role: "region", "aria-label": name },
    el(
      "table",
      { role: "table" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
      el("tbody", { role: "rowgroup" }, rows),
    ),
  );
}

// On a narrow screen a row stands as a list, each cell with the name of its column.
function label(one, heads) {
  for (const [at, cell] of [...one.children].entries())
    cell.dataset.label = heads[at]?.replace("#", "") ?? "";
}

// A box that says what is not there and what can be done.
export function empty(title, ...text) {
  return el("div", { class: "empty" }, el("p", { class: "empty-title" }, title), el("p", {}, ...text));
}

// A bar that is filled to a share between 0 and 1.
export function meter(share, { isLow = false, least = 0 } = {}) {
  const bar = el("div", { class: "meter", "aria-hidden": "true" }, el("span"));
  fillMeter(bar, Math.max(least, share), isLow);
  return bar;
}

export function fillMeter(bar, share, isLow) {
  bar.firstChild.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  bar.classList.toggle("low", isLow);
}

export function notice(kind, ...content) {
  return el("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, ...content);
}

// Something that failed, and a button that does it again.
export function failure(text, again) {
  return notice("bad", text, " ", button("Try again", { "data-test": "try-again" }, again));
}

// Says something for some seconds, also to screen readers.
export function toast(text, kind = "good") {
  const box = document.getElementById("toasts");
  const item = el("div", { class: `toast ${kind}` }, text);
  item.append(button("×", { class: "plain", "aria-label": "Dismiss" }, () => item.remove()));
  box.append(item);
  while (box.children.length > 4) box.firstChild.remove();
  setTimeout(() => item.remove(), kind === "bad" ? 12000 : 6000);
}

let copies = 0;

// A line of code that a button copies.
export function command(text, test) {
  const id = `command-${++copies}`;
  const copy = button("Copy", { "aria-describedby": id }, async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast("Copied.");
    } catch {
      getSelection().selectAllChildren(document.getElementById(id));
      toast("Selected; copy it with the keyboard.", "note");
    }
  });
  return el("div", { class: "command", "data-test": test }, el("pre", { id, tabindex: "0" }, text), copy);
}
