// The sidebar shows the line of this page; a search without a server, with an index that is a
// script of this site and is loaded on first use.
"use strict";
(() => {
  const root = document.currentScript.dataset.root;
  const form = document.querySelector(".search");
  const input = form.querySelector("input");
  const found = form.querySelector(".found");
  const HITS_MAX = 12;
  let loading = null;

  function load() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = root + "search-index.js";
      script.onload = () => resolve(searchIndex);
      script.onerror = reject;
      document.head.append(script);
    });
    return loading;
  }

  // Points of a section: words in its heading count more than words in its text.
  function points(words, title, heading, text) {
    let sum = 0;
    for (const word of words) {
      const inHeading = heading.includes(word), inTitle = title.includes(word);
      if (!inHeading && !inTitle && !text.includes(word)) return 0;
      sum += inHeading ? 10 : inTitle ? 6 : 1;
    }
    return sum;
  }

  function search(index, query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = [];
    for (const [title, address, sections] of index) {
      sections.forEach(([anchor, heading, text], at) => {
        const value = points(words, title.toLowerCase(), heading.toLowerCase(), text.toLowerCase());
        // The page before its sections, a page of use before a record of the same words.
        const order = value + (at ? 0 : 2) - (address.startsWith("lab/records/2") ? 8 : 0);
        if (value) hits.push({ order, title, heading, text, words, href: root + address + (at ? "#" + anchor : "") });
      });
    }
    return hits.sort((a, b) => b.order - a.order).slice(0, HITS_MAX);
  }

  function excerpt(text, words) {
    const lower = text.toLowerCase();
    const at = Math.max(0, ...words.map((word) => lower.indexOf(word)));
    const from = at < 50 ? 0 : text.indexOf(" ", at - 40) + 1;
    return (from ? "… " : "") + text.slice(from, from + 130) + (text.length > from + 130 ? " …" : "");
  }

  function element(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  function show(hits) {
    found.replaceChildren(...hits.map((hit) => {
      const link = element("a", "");
      link.href = hit.href;
      const where = hit.heading === hit.title ? hit.title : hit.title + " › " + hit.heading;
      link.append(element("strong", where), element("span", excerpt(hit.text, hit.words)));
      return link;
    }));
    if (!hits.length) found.append(element("p", "Nothing found"));
    found.hidden = false;
  }

  async function update() {
    const query = input.value.trim();
    if (query.length < 2) { found.hidden = true; return; }
    show(search(await load(), query));
  }

  function move(step) {
    const links = [...found.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement) + step;
    (at < 0 ? input : links[Math.min(at, links.length - 1)])?.focus();
  }

  const sidebar = document.querySelector(".sidebar");
  const here = sidebar?.querySelector("[aria-current], .open");
  if (here) sidebar.scrollTop = here.offsetTop - sidebar.clientHeight / 2;

  form.hidden = false;
  input.addEventListener("focus", load);
  input.addEventListener("input", update);
  form.addEventListener("submit", (event) => { event.preventDefault(); found.querySelector("a")?.click(); });
  form.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); move(1); }
    if (event.key === "ArrowUp") { event.preventDefault(); move(-1); }
    if (event.key === "Escape") { found.hidden = true; input.blur(); }
  });
  document.addEventListener("keydown", (event) => {
    const writes = /INPUT|TEXTAREA/.test(event.target.tagName);
    if (event.key === "/" && !writes) { event.preventDefault(); input.focus(); input.select(); }
  });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) found.hidden = true; });
})();
