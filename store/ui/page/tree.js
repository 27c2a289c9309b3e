// The tree of keys. A level is one call, with counts and bytes of each prefix; a level is asked for when
// it is opened, a page at a time, so the size of the store does not matter.

import { children } from "./api.js";
import {
  ZERO,
  concat,
  equal,
  escaped,
  fromBase64,
  rangeOf,
  shown,
  spanHolds,
  startsWith,
  toAddress,
  toBase64,
} from "./bytes.js";
import { el } from "./dom.js";
import { bytes, count, counted, humanBytes } from "./figures.js";
import { turns } from "./turns.js";

const PAGE = 200;
const PAGE_MAX = 1000;
// Calls for one page, when the server stops early.
const CALLS_MAX = 5;
// A level with only one prefix in it is opened with its parent, so many levels deep, if there are few keys beside it.
const CHAIN_MAX = 4;
const CHAIN_KEYS_MAX = 20;

export class Tree {
  // `selected` is called with a node when the user chooses it.
  constructor({ selected }) {
    this.selected = selected;
    this.newest = null; // the store's revision, as the last answer said
    this.roots = [];
    this.current = null; // the marked node
    this.chosen = null; // the node that was clicked last
    this.turn = turns(); // of marks: the newest one stays
    this.element = el("div", {
      id: "tree",
      role: "tree",
      "aria-label": "Keys by prefix",
      keydown: (event) => this.#pressed(event),
      click: (event) => this.#clicked(event),
    });
  }

  // Shows the trees below starting points; resolves when the first level is there. Until then the tree stays as
  // it is, also if the call fails.
  async load(points, revision) {
    const open = new Set(this.#openNodes().map(idOf));
    const roots = points.map((point) => rootOf(point, revision));
    const whole = points.length === 1 && points[0].prefix.length === 0 && !points[0].part;
    if (whole) await this.open(roots[0]);
    else {
      for (const node of roots) this.#render(node, 1);
      await Promise.all(roots.map((node) => this.#openIfAllowed(node)));
    }
    this.turn();
    this.roots = roots;
    this.current = null;
    this.chosen = null;
    this.element.replaceChildren(...roots.map((node) => node.item ?? node.group));
    if (open.size > 1) await this.#openAgain(roots, open);
    else await this.#openChain(whole ? roots[0] : null);
    this.#makeOneTabStop();
  }

  // Opens the levels that were open before, as far as they are still there.
  async #openAgain(level, open) {
    const again = level.filter((node) => node.isPrefix && open.has(idOf(node)));
    await Promise.all(
      again.map(async (node) => {
        await this.#openIfAllowed(node);
        await this.#openAgain(node.children ?? [], open);
      }),
    );
  }

  // A level that the user's roles do not permit says so by itself; the others stay.
  #openIfAllowed(node) {
    return this.open(node).catch(unlessForbidden);
  }

  isEmpty() {
    return this.roots.every((node) => node.isPrefix && node.children?.length === 0);
  }

  // Opens the levels above a key and marks it, unless another node was marked since. `sparesClosed` leaves
  // levels closed that were open before.
  async reveal(key, { sparesClosed = false } = {}) {
    const mayOpen = (node) => !sparesClosed || node.isOpen || node.children === null;
    if (this.current && !equal(this.current.name, key)) this.mark(null);
    const isNewest = this.turn();
    let level = this.roots.flatMap((node) => (node.item ? [node] : (node.children ?? [])));
    for (;;) {
      const exact = level.find((node) => equal(node.name, key));
      if (exact) {
        this.mark(exact);
        if (mayOpen(exact)) await this.open(exact);
        return;
      }
      const above = level.find((node) => mayHold(node, key));
      if (!above || !mayOpen(above)) return;
      await this.open(above);
      if (!isNewest()) return;
      level = above.children ?? [];
    }
  }

  mark(node) {
    this.turn();
    this.current?.item?.setAttribute("aria-selected", "false");
    this.current = node;
    if (!node?.item) return;
    node.item.setAttribute("aria-selected", "true");
    // The user may have closed a level above it.
    if (!this.element.contains(node.item)) return;
    this.#focusable(node.item);
    node.row.scrollIntoView({ block: "nearest" });
  }

  // Opens a level: with the children that it has, which are then asked for again if the store moved on.
  async open(node) {
    if (!node.isPrefix) return;
    const wasOpen = node.isOpen;
    if (!wasOpen) this.#setOpen(node, true);
    if (node.children !== null) {
      if (!wasOpen) this.#follow(node).catch((error) => this.#showProblem(node, error));
      return;
    }
    node.item?.setAttribute("aria-busy", "true");
    try {
      await this.#once(node, () => this.#fetch(node));
    } catch (error) {
      this.#setOpen(node, false);
      this.#showProblem(node, error);
      throw error;
    } finally {
      node.item?.removeAttribute("aria-busy");
    }
    // It may have been closed, and opened again, while it was loaded.
    if (node.isOpen) node.item?.append(node.group);
  }

  close(node) {
    this.#setOpen(node, false);
  }

  #setOpen(node, isOpen) {
    node.isOpen = isOpen;
    node.problem?.remove();
    node.item?.setAttribute("aria-expanded", String(isOpen));
    if (isOpen && node.group) node.item?.append(node.group);
    if (!isOpen) node.group?.remove();
  }

  // Runs one task of a level at a time. A caller that comes while one is under way gets its result.
  #once(node, task) {
    node.loading ??= task().finally(() => (node.loading = null));
    return node.loading;
  }

  // Asks again for the open levels that are on the screen and older than the store's newest revision, and changes
  // what has changed. The others are asked for when they are on the screen.
  async refresh(newest) {
    this.newest = newest;
    const { roots } = this;
    for (const node of this.#openNodes()) {
      const box = node.group.getBoundingClientRect();
      // A narrow screen hides the tree behind a key.
      if (box.height === 0 || box.bottom < 0 || box.top > innerHeight) continue;
      await this.#follow(node).catch((error) => {
        unlessForbidden(error);
        this.#showProblem(node, error);
      });
      if (this.roots !== roots) return;
    }
  }

  async #follow(node) {
    if (node.revision || node.seen === this.newest || node.loading) return;
    await this.#once(node, async () => {
      const limit = Math.max(PAGE, node.children.length);
      this.#reconcile(node, await this.#ask(node, limit, null));
    });
  }

  #openNodes() {
    const all = [];
    const visit = (node) => {
      if (!node.isOpen || !node.group || !node.children) return;
      all.push(node);
      node.children.forEach(visit);
    };
    this.roots.forEach(visit);
    return all;
  }

  // Children of a level. The server may answer with few of them, or none, and a place to go on from.
  async #ask(node, limit, from) {
    const request = { prefix: toBase64(node.name) };
    if (node.revision) request.revision = node.revision;
    if (node.part) Object.assign(request, rangeOf(node.part));
    const found = [];
    const callsMax = CALLS_MAX + limit / PAGE_MAX;
    let answer = { next: from };
    for (let calls = 0; calls < callsMax && (calls === 0 || (answer.next && found.length < limit)); calls++) {
      if (answer.next) request.from = answer.next;
      answer = await children({ ...request, limit: String(Math.min(PAGE_MAX, limit - found.length)) });
      found.push(...(answer.children ?? []));
    }
    this.newest = answer.header.revision;
    return { ...answer, children: found };
  }

  async #fetch(node) {
    const answer = await this.#ask(node, PAGE, null);
    node.children = [];
    node.group = el("div", { role: node.item ? "group" : "none" });
    this.#reconcile(node, answer, { isNew: true });
  }

  async #fetchMore(node, from) {
    const answer = await this.#ask(node, PAGE, from);
    const before = node.children.length;
    const found = answer.children.map((child) => this.#make(node, child));
    const hadFocus = node.foot?.contains(document.activeElement);
    node.children.push(...found);
    node.group.append(...found.map(({ item }) => item));
    this.#setFoot(node, answer.next);
    if (hadFocus) this.#focus(node.children[Math.min(before, node.children.length - 1)]?.item);
    this.#makeOneTabStop();
  }

  // A refresh that is under way comes first: it may change where the level goes on.
  async #loadMore(node) {
    while (node.loading) await node.loading.catch(() => {});
    const next = node.foot?.next;
    if (next) await this.#once(node, () => this.#fetchMore(node, next));
  }

  #make(parent, child) {
    const node = nodeOf(parent, child);
    this.#render(node, node.level);
    return node;
  }

  // Sets the last row of a level: one that loads more children, or a note that there are none.
  #setFoot(node, next) {
    if (next && node.foot?.next === next) return;
    node.foot?.remove();
    node.foot = null;
    if (next) node.foot = this.#moreRow(node, next);
    else if (node.children.length === 0)
      node.foot = el("div", { class: "tree-note" }, "There are no keys below it.");
    if (node.foot) node.group.append(node.foot);
  }

  #moreRow(node, next) {
    const text = `Show ${PAGE} more`;
    const row = el("span", { class: "row more" }, text);
    const item = el(
      "div",
      {
        role: "treeitem",
        "aria-level": node.level + 1,
        tabindex: "-1",
        "aria-label": "Show more",
        "data-test": "more",
      },
      row,
    );
    item.next = next;
    item.act = async () => {
      if (item.ariaBusy === "true") return;
      item.ariaBusy = "true";
      row.textContent = "Loading…";
      try {
        await this.#loadMore(node);
      } catch (error) {
        row.textContent = `${error.sentence ?? error.message} ${text}`;
      }
      item.ariaBusy = "false";
    };
    return item;
  }

  // Makes a level show an answer. Elements that stay are kept, and the focus with them.
  #reconcile(node, answer, { isNew = false } = {}) {
    node.problem?.remove();
    const hadFocus = node.group.contains(document.activeElement);
    const before = new Map(node.children.map((child) => [toAddress(child.name), child]));
    const after = answer.children.map((child) => {
      const old = before.get(toAddress(fromBase64(child.name)));
      if (old?.isPrefix === (child.is_prefix ?? false)) {
        takeFigures(old, child);
        return old;
      }
      const fresh = this.#make(node, child);
      if (!isNew) fresh.item.classList.add("changed");
      return fresh;
    });
    const kept = new Set(after);
    for (const old of node.children) if (!kept.has(old)) this.#drop(old);
    node.children = after;
    node.seen = answer.header.revision;
    let place = node.group.firstChild;
    for (const { item } of after) {
      if (item === place) place = place.nextSibling;
      else node.group.insertBefore(item, place);
    }
    this.#setFoot(node, answer.next);
    if (node.item && node.isRoot) takeTotal(node, answer);
    if (hadFocus && !node.group.contains(document.activeElement)) this.#focus(after[0]?.item ?? node.item);
    this.#makeOneTabStop();
  }

  // Removes a node, and the marks of what was below it.
  #drop(node) {
    node.item.remove();
    const isGone = (one) => one === node || (one && node.isPrefix && startsWith(one.name, node.name));
    if (isGone(this.current)) this.mark(null);
    if (isGone(this.chosen)) this.chosen = null;
  }

  async #openChain(root) {
    let level = root ? root.children : this.roots;
    for (let depth = 0; depth < CHAIN_MAX && level.length <= CHAIN_KEYS_MAX; depth++) {
      const prefixes = level.filter((node) => node.isPrefix);
      if (prefixes.length !== 1) return;
      await this.#openIfAllowed(prefixes[0]);
      level = prefixes[0].children ?? [];
    }
  }

  #render(node, level) {
    node.level = level;
    node.row = el("span", { class: "row" });
    node.item = el(
      "div",
      {
        role: "treeitem",
        "aria-level": level,
        "aria-selected": "false",
        tabindex: "-1",
        "aria-expanded": node.isPrefix ? "false" : null,
        "data-test": "node",
        "data-name": escaped(node.name),
      },
      node.row,
    );
    node.item.style.setProperty("--level", level);
    node.item.node = node;
    describe(node);
  }

  #clicked(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    this.#focus(item);
    this.#act(item);
  }

  #act(item) {
    if (item.act) item.act();
    else this.#choose(item.node);
  }

  #choose(node) {
    // It has no name, so there is nothing to show beside it.
    if (node.isRoot && node.part) {
      if (node.isOpen) this.close(node);
      else this.#openByUser(node);
      return;
    }
    this.mark(node);
    if (node.isPrefix && node.isOpen && node === this.chosen) {
      this.close(node);
      return;
    }
    this.chosen = node;
    this.selected(node);
    this.#openByUser(node);
  }

  #openByUser(node) {
    this.open(node).catch(() => {});
  }

  #showProblem(node, error) {
    const text = error.sentence ?? error.message;
    // A screen reader would say it with each look again.
    if (node.problem?.isConnected && node.problem.textContent === text) return;
    node.problem?.remove();
    node.problem = el("div", { class: "tree-note bad", role: "alert" }, text);
    node.item?.append(node.problem);
  }

  #pressed(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.altKey || event.metaKey) return;
    const items = [...this.element.querySelectorAll("[role=treeitem]")];
    const at = items.indexOf(item);
    const node = item.node;
    const moves = {
      ArrowDown: () => this.#focus(items[at + 1]),
      ArrowUp: () => this.#focus(items[at - 1]),
      Home: () => this.#focus(items[0]),
      End: () => this.#focus(items[items.length - 1]),
      ArrowRight: () => {
        if (!node?.isPrefix) return;
        if (node.isOpen) this.#focus(node.group?.querySelector("[role=treeitem]"));
        else this.#openByUser(node);
      },
      ArrowLeft: () => {
        if (node?.isOpen && node.item) this.close(node);
        else this.#focus(item.parentElement.closest("[role=treeitem]"));
      },
      Enter: () => this.#act(item),
      " ": () => this.#act(item),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  }

  #focus(item) {
    if (!item) return;
    this.#focusable(item);
    item.focus();
  }

  // One element of the tree takes part in the order of Tab, as its pattern asks for.
  #focusable(item) {
    for (const other of this.element.querySelectorAll("[role=treeitem][tabindex='0']")) other.tabIndex = -1;
    item.tabIndex = 0;
  }

  #makeOneTabStop() {
    if (this.element.querySelector("[role=treeitem][tabindex='0']")) return;
    const first = this.element.querySelector("[role=treeitem]");
    if (first) first.tabIndex = 0;
  }
}

function unlessForbidden(error) {
  if (!error.forbidden) throw error;
}

// A node is one key or prefix: `part` the span of its keys that the user may read, null if that is all;
// `children` is null until they were asked for, `seen` the store's revision when they were; `revision` is a past
// one or null; `loading` is a promise while a call for the children is under way. `item` is missing
// where the node is the whole store, `group` where there are no children yet.
function rootOf({ prefix, single, part }, revision) {
  return {
    ...newNode(prefix, { isPrefix: !single, level: 0, revision, part }),
    isRoot: true,
    shownName: prefix,
    count: null,
    bytes: null,
  };
}

// Tells nodes of one level apart, also parts of the same prefix.
const idOf = ({ name, part, isRoot }) => toAddress(name) + (isRoot && part ? `…${toAddress(part.key)}` : "");

// Whether a name may be below a node: a key, or a prefix of which the user may read some.
function mayHold({ isPrefix, name, part }, key) {
  if (!isPrefix || !startsWith(key, name)) return false;
  return !part || startsWith(part.key, key) || spanHolds(part, { key, end: concat(key, ZERO) });
}

function nodeOf(parent, child) {
  const name = fromBase64(child.name);
  const node = newNode(name, {
    isPrefix: child.is_prefix ?? false,
    level: parent.level + 1,
    revision: parent.revision,
    part: parent.part,
  });
  return { ...node, shownName: name.subarray(parent.name.length), ...figuresOf(child) };
}

function newNode(name, { isPrefix, level, revision, part }) {
  return {
    name,
    isPrefix,
    level,
    revision,
    part,
    children: null,
    seen: null,
    isOpen: false,
    loading: null,
    foot: null,
  };
}

function figuresOf(child) {
  return {
    count: child.count ?? "0",
    atLeast: child.count_at_least ?? false,
    bytes: child.bytes ?? "0",
    estimated: child.bytes_estimated ?? false,
    modified: child.mod_revision ?? "0",
  };
}

function takeFigures(node, child) {
  const fresh = figuresOf(child);
  if (Object.entries(fresh).every(([name, value]) => node[name] === value)) return;
  Object.assign(node, fresh);
  describe(node);
}

// A root has no parent whose answer would say how many keys are below it.
function takeTotal(node, { total_count = "0", total_at_least = false }) {
  Object.assign(node, { count: total_count, atLeast: total_at_least });
  describe(node);
}

// The name of a node as the tree shows it, and as text.
function titleOf({ isRoot, part, shownName }) {
  if (isRoot && part) {
    return {
      name: el("span", { class: "name" }, shown(part.key), " … ", part.end ? shown(part.end) : "no end"),
      text: `keys from ${escaped(part.key)} ${part.end ? `up to, without, ${escaped(part.end)}` : "on"}`,
    };
  }
  if (shownName.length === 0)
    return { name: el("span", { class: "name muted" }, "(empty name)"), text: "empty name" };
  return { name: shown(shownName, "bytes name"), text: escaped(shownName) };
}

function describe(node) {
  const { name, text } = titleOf(node);
  const figures =
    node.count === null
      ? []
      : [
          node.isPrefix ? count(node.count, node.atLeast) : el("span", { class: "figure" }),
          node.bytes === null ? el("span", { class: "figure" }) : bytes(node.bytes, node.estimated),
        ];
  node.row.replaceChildren(
    el("span", { class: node.isPrefix ? "caret" : "leaf", "aria-hidden": "true" }),
    name,
    ...figures,
  );
  const keys = node.isPrefix && node.count !== null ? `, ${counted(node.count, "key")}` : "";
  const size = node.bytes !== null ? `, ${humanBytes(node.bytes)}` : "";
  node.row.title = text;
  node.item.setAttribute(
    "aria-label",
    `${text}, ${node.isPrefix ? "prefix" : "key"}${keys}${size}`,
  );
}
