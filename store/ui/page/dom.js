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

export function button(text, attributes, action) {
  return el("button", { type: "button", ...attributes, click: action }, text);
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
export function table(name, heads, rows, attributes = {}) {
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
      { role: "table", ...attributes },
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

export function notice(kind, ...content) {
  return el("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, ...content);
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

// Asks in a modal dialog; resolves to true when the user agrees. `content` is nodes.
export function confirm({ title, content, agree, danger = false, test }) {
  return new Promise((resolve) => {
    const dialog = el("dialog", { "aria-labelledby": "confirm-title", "data-test": test ?? "confirm" });
    const finish = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    dialog.append(
      el("h2", { id: "confirm-title" }, title),
      el("div", { class: "dialog-content" }, content),
      el(
        "div",
        { class: "actions end" },
        button("Cancel", { "data-test": "confirm-no" }, () => finish(false)),
        button(agree, { class: danger ? "danger" : "primary", "data-test": "confirm-yes" }, () =>
          finish(true),
        ),
      ),
    );
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      finish(false);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
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
