// The tree of keys. A level is one call, with counts and bytes of each prefix; a level is asked for when
// it is opened, a page at a time, so the size of the store does not matter.

import { children } from "./api.js";
import { equal, escaped, startsWith, shown, toAddress, toBase64, fromBase64 } from "./bytes.js";
import { el } from "./dom.js";
import { bytes, count, grouped, humanBytes } from "./figures.js";

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
    this.revision = null;
    this.newest = null; // the store's revision, as the last answer said
    this.roots = [];
    this.current = null; // the marked node
    this.chosen = null; // the node that was clicked last
    this.element = el("div", {
      id: "tree",
      role: "tree",
      "aria-label": "Keys by prefix",
      keydown: (event) => this.#pressed(event),
      click: (event) => this.#clicked(event),
    });
  }

  // Shows the trees below starting points; resolves when the first level is there.
  async load(points, revision) {
    const open = new Set(this.#openNodes().map(({ name }) => toAddress(name)));
    this.revision = revision;
    this.roots = points.map((point) => rootOf(point));
    const whole = points.length === 1 && points[0].prefix.length === 0;
    if (whole) {
      await this.#fetch(this.roots[0]);
      this.element.replaceChildren(...this.roots[0].group.children);
      this.roots[0].group = this.element;
    } else {
      this.element.replaceChildren();
      for (const node of this.roots) {
        this.#render(node, 1);
        this.element.append(node.item);
      }
      await Promise.all(this.roots.filter((node) => node.isPrefix).map((node) => this.open(node)));
    }
    if (open.size > 1) await this.#openAgain(this.roots, open);
    else await this.#openChain(whole ? this.roots[0] : null);
    this.#makeOneTabStop();
  }

  // Opens the levels that were open before, as far as they are still there.
  async #openAgain(level, open) {
    const again = level.filter((node) => node.isPrefix && open.has(toAddress(node.name)));
    await Promise.all(
      again.map(async (node) => {
        await this.open(node);
        await this.#openAgain(node.children ?? [], open);
      }),
    );
  }

  isEmpty() {
    return this.roots.every((node) => node.isPrefix && node.children?.length === 0);
  }

  // Opens the levels above a key, as far as they are loaded, and marks it.
  async reveal(key) {
    let level = this.roots.flatMap((node) => (node.item ? [node] : (node.children ?? [])));
    for (;;) {
      const exact = level.find((node) => equal(node.name, key));
      if (exact) {
        await this.open(exact);
        return this.mark(exact);
      }
      const above = level.find((node) => node.isPrefix && startsWith(key, node.name));
      if (!above) return this.mark(null);
      await this.open(above);
      level = above.children ?? [];
    }
  }

  mark(node) {
    this.current?.item?.setAttribute("aria-selected", "false");
    this.current = node;
    if (!node?.item) return;
    node.item.setAttribute("aria-selected", "true");
    this.#focusable(node.item);
    node.item.scrollIntoView({ block: "nearest" });
  }

  async open(node) {
    if (!node.isPrefix || node.isOpen) return;
    node.isOpen = true;
    node.item?.setAttribute("aria-expanded", "true");
    if (node.children === null) {
      node.item?.setAttribute("aria-busy", "true");
      // The page and a click may open a level at once: it is fetched once.
      node.loading ??= this.#fetch(node).finally(() => (node.loading = null));
      try {
        await node.loading;
      } finally {
        node.item?.removeAttribute("aria-busy");
      }
    }
    node.item?.append(node.group);
  }

  close(node) {
    node.isOpen = false;
    node.item.setAttribute("aria-expanded", "false");
    node.group?.remove();
  }

  // Asks again for the open levels that are on the screen, and changes what has changed.
  async refresh() {
    for (const node of this.#openNodes()) {
      const box = node.group.getBoundingClientRect();
      if (box.bottom < 0 || box.top > innerHeight) continue;
      if (node.children.length > PAGE_MAX) continue;
      this.#reconcile(node, await this.#ask(node, Math.max(PAGE, node.children.length), null));
    }
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

  // A page of a level. The server may answer with few children, or none, and a place to go on from.
  async #ask(node, limit, from) {
    const request = { prefix: toBase64(node.name), limit: String(limit) };
    if (from) request.from = from;
    if (this.revision) request.revision = this.revision;
    const answer = await children(request);
    this.newest = answer.header?.revision ?? this.newest;
    const found = answer.children ?? [];
    let calls = 1;
    while (answer.next && found.length < limit && calls++ < CALLS_MAX) {
      const next = await children({ ...request, from: answer.next, limit: String(limit - found.length) });
      found.push(...(next.children ?? []));
      answer.next = next.next;
    }
    return { ...answer, children: found };
  }

  async #fetch(node, from = null) {
    const answer = await this.#ask(node, PAGE, from);
    const level = node.level + 1;
    const found = answer.children.map((child) => nodeOf(node, child, level));
    node.children = from ? [...node.children, ...found] : found;
    if (node.count === null && node.item) {
      Object.assign(node, { count: answer.total_count ?? "0", atLeast: answer.total_at_least ?? false });
      describe(node);
    }
    node.group ??= el("div", { role: "group" });
    node.more?.remove();
    for (const child of found) {
      this.#render(child, level);
      node.group.append(child.item);
    }
    this.#offerMore(node, answer, level);
    if (node.children.length === 0) {
      node.group.append(el("div", { class: "tree-note" }, "No keys here."));
    }
  }

  #offerMore(node, answer, level) {
    node.more?.remove();
    node.more = null;
    if (!answer.next) return;
    const row = el("span", { class: "row more" }, `Show ${PAGE} more`);
    node.more = el(
      "div",
      {
        role: "treeitem",
        "aria-level": level,
        tabindex: "-1",
        "aria-label": "Show more",
        "data-test": "more",
      },
      row,
    );
    node.more.act = async () => {
      row.textContent = "Loading…";
      const next = node.children.length;
      await this.#fetch(node, answer.next);
      this.#focus(node.children[Math.min(next, node.children.length - 1)]?.item);
    };
    node.group.append(node.more);
  }

  #reconcile(node, answer) {
    const before = new Map(node.children.map((child) => [toAddress(child.name), child]));
    const level = node.level + 1;
    const after = answer.children.map((child) => {
      const fresh = nodeOf(node, child, level);
      const old = before.get(toAddress(fresh.name));
      if (!old || old.isPrefix !== fresh.isPrefix) {
        this.#render(fresh, level);
        fresh.item.classList.add("changed");
        return fresh;
      }
      if (!sameFigures(old, fresh)) {
        Object.assign(old, {
          count: fresh.count,
          bytes: fresh.bytes,
          atLeast: fresh.atLeast,
          estimated: fresh.estimated,
          modified: fresh.modified,
        });
        describe(old);
      }
      return old;
    });
    const kept = new Set(after);
    for (const old of node.children) if (!kept.has(old)) old.item.remove();
    node.children = after;
    let place = node.group.firstChild;
    for (const child of after) {
      if (child.item === place) place = place.nextSibling;
      else node.group.insertBefore(child.item, place);
    }
    this.#offerMore(node, answer, level);
    this.#makeOneTabStop();
  }

  async #openChain(root) {
    let level = root ? root.children : this.roots;
    for (let depth = 0; depth < CHAIN_MAX && level.length <= CHAIN_KEYS_MAX; depth++) {
      const prefixes = level.filter((node) => node.isPrefix);
      if (prefixes.length !== 1) return;
      await this.open(prefixes[0]);
      level = prefixes[0].children;
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
    if (item.act) item.act();
    else this.#choose(item.node);
  }

  async #choose(node) {
    this.mark(node);
    if (node.isPrefix && node.isOpen && node === this.chosen) {
      this.close(node);
      return;
    }
    this.chosen = node;
    try {
      await this.open(node);
      this.selected(node);
    } catch (error) {
      this.#failed(node, error);
    }
  }

  #failed(node, error) {
    node.isOpen = false;
    node.item.setAttribute("aria-expanded", "false");
    node.item.append(el("div", { class: "tree-note bad", role: "alert" }, error.sentence ?? String(error)));
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
        if (node.isOpen) this.#focus(node.group.querySelector("[role=treeitem]"));
        else this.open(node).catch((error) => this.#failed(node, error));
      },
      ArrowLeft: () => {
        if (node?.isOpen && node.item) this.close(node);
        else this.#focus(item.parentElement.closest("[role=treeitem]"));
      },
      Enter: () => (item.act ? item.act() : this.#choose(node)),
      " ": () => (item.act ? item.act() : this.#choose(node)),
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

function rootOf({ prefix, single }) {
  return {
    name: prefix,
    shownName: prefix,
    isPrefix: !single,
    count: null,
    bytes: null,
    children: single ? [] : null,
    atLeast: false,
    estimated: false,
    isOpen: prefix.length === 0,
    level: 0,
  };
}

function nodeOf(parent, child, level) {
  const name = fromBase64(child.name);
  return {
    name,
    shownName: name.subarray(parent.name.length),
    isPrefix: child.is_prefix ?? false,
    count: child.count ?? "0",
    atLeast: child.count_at_least ?? false,
    bytes: child.bytes ?? "0",
    estimated: child.bytes_estimated ?? false,
    modified: child.mod_revision ?? "0",
    children: null,
    isOpen: false,
    level,
  };
}

function sameFigures(a, b) {
  return a.count === b.count && a.bytes === b.bytes && a.modified === b.modified;
}

function describe(node) {
  const name =
    node.shownName.length > 0
      ? shown(node.shownName, { className: "bytes name" })
      : el("span", { class: "name muted" }, "(empty name)");
  const figures =
    node.count === null
      ? []
      : [
          node.isPrefix ? count(node.count, "keys", node.atLeast) : el("span", { class: "figure" }),
          node.bytes === null ? el("span", { class: "figure" }) : bytes(node.bytes, node.estimated),
        ];
  node.row.replaceChildren(
    el("span", { class: node.isPrefix ? "caret" : "leaf", "aria-hidden": "true" }),
    name,
    ...figures,
  );
  const keys = node.isPrefix && node.count !== null ? `, ${grouped(node.count)} keys` : "";
  const size = node.bytes !== null ? `, ${humanBytes(node.bytes)}` : "";
  node.row.title = escaped(node.shownName);
  node.item.setAttribute(
    "aria-label",
    `${escaped(node.shownName) || "empty name"}, ${node.isPrefix ? "prefix" : "key"}${keys}${size}`,
  );
}
