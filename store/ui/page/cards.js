// The cards of one member, and the tabs that choose it.

import { el, empty, meter, tabList } from "./dom.js";
import { bytes, grouped, hexId, humanAge, humanBytes, humanSeconds, known, milliseconds } from "./figures.js";
import { fact } from "./keys.js";
import { diskShare, flushTimes, nameOf, quotaShare, rateOf, takenBytes, unapplied } from "./looks.js";
import { flushNote, mostText, pageOf, processorText, untilNext } from "./members.js";
import { NEARLY_FULL } from "./verdicts.js";

const RATES = {
  puts: "Puts /s",
  ranges: "Reads /s",
  txns: "Transactions /s",
  deletes: "Deletes /s",
  events: "Watch events /s",
};

const CARDS = "member-cards";

// The cards of the member with the chosen ID (hexadecimal), or of the server that is asked; `choose` is called with
// the ID of another.
export function memberCards(overview, chosenId, choose) {
  const { members, looks } = overview;
  const asked = members.find(({ is_self }) => is_self);
  const chosen = members.find(({ id }) => hexId(id) === chosenId) ?? asked;
  if (!chosen) return null;
  const listed = members.filter((member) => looks.has(member.id) || member === chosen);
  listed.sort((a, b) => Number(Boolean(b.is_self)) - Number(Boolean(a.is_self)));
  const isChoice = listed.length > 1;
  return el(
    "div",
    { class: "stack" },
    isChoice ? tabs(listed, chosen, choose) : null,
    el(
      "div",
      {
        class: "stack",
        id: CARDS,
        role: isChoice ? "tabpanel" : null,
        "aria-labelledby": isChoice ? tabId(chosen) : null,
        "data-test": "member-cards",
        "data-name": nameOf(chosen),
      },
      looks.has(chosen.id) ? contentOf(chosen, looks.get(chosen.id)) : noFigures(chosen),
    ),
  );
}

const tabId = ({ id }) => `member-tab-${hexId(id)}`;

function tabs(members, chosen, choose) {
  const tab = (member) =>
    el(
      "button",
      {
        type: "button",
        role: "tab",
        id: tabId(member),
        "aria-selected": String(member === chosen),
        "aria-controls": CARDS,
        tabindex: member === chosen ? "0" : "-1",
        "data-focus": tabId(member),
        "data-test": "member-tab",
        "data-name": nameOf(member),
        click: () => choose(member.is_self ? null : hexId(member.id)),
      },
      el("bdi", {}, nameOf(member)),
      member.is_self ? " (this server)" : null,
    );
  return el("div", { class: "key-bar" }, tabList("Figures of a member", members.map(tab)));
}

const noFigures = (member) =>
  empty(
    "No figures",
    "This server has no figures of ",
    el("bdi", {}, nameOf(member)),
    ". That member's own page shows them: ",
    pageOf(member),
  );

function contentOf(member, look) {
  const age = el("span", { class: "when muted" }, `figures ${humanAge(look.age)} old`);
  return [
    el(
      "h2",
      {},
      member.is_self ? "This server: " : "Member: ",
      el("bdi", {}, nameOf(member)),
      member.is_self ? null : [" ", age],
    ),
    el("div", { class: "cards" }, logCard(look), processCard(look), keysCard(look), loadCard(look)),
  ];
}

function logCard(look) {
  const { store } = look;
  const flushes = flushTimes(look);
  const note = flushNote(flushes);
  return card(
    "Log and disk",
    fact("Flush, mean", figure(known(flushes.mean, milliseconds), note)),
    fact(
      "99 of 100 flushes",
      figure(
        known(flushes.most, () => mostText(flushes, "at most ", "more than ")),
        note,
      ),
    ),
    filled("Disk", takenBytes(store), store.disk_total_bytes, diskShare(look)),
    filled("Store in use", store.db_in_use_bytes, store.quota_bytes, quotaShare(look), "quota"),
    fact("Size of the log", known(store.db_size_bytes, bytes)),
  );
}

function processCard(look) {
  const { process, store } = look;
  const calls = process.etcd_version ? `serves the calls of etcd ${process.etcd_version}` : null;
  return card(
    "Memory and time",
    fact("Memory", known(process.resident_memory_bytes, bytes)),
    fact("Index of the keys", known(store.index_memory_bytes, bytes)),
    fact("Processor", figure(processorText(look), "of one core, since the last look")),
    fact("Up for", known(process.uptime_seconds, humanSeconds)),
    fact("Version", figure(el("bdi", {}, known(process.version, String)), calls)),
  );
}

function keysCard(look) {
  const { store } = look;
  const compacted = (revision) => (revision === "0" ? "never" : grouped(revision));
  return card(
    "Keys",
    fact("Keys", known(store.keys, grouped)),
    fact("Versions", known(store.key_versions, grouped)),
    fact("Revision", known(store.revision, grouped)),
    fact("Compacted at", known(store.compacted_revision, compacted)),
    fact("Not yet applied", known(unapplied(look), grouped)),
  );
}

const loadCard = (look) =>
  card(
    "Load",
    Object.entries(RATES).map(([name, label]) => fact(label, rateText(name, look))),
    fact("Watches", known(look.load.watches, grouped)),
    fact("Connections", known(look.load.connections, grouped)),
  );

function rateText(name, look) {
  if (look.load[name] === null) return "–";
  const rate = rateOf(name, look);
  const text = rate === null ? untilNext(look) : rate >= 10 ? grouped(Math.round(rate)) : rate.toFixed(1);
  return figure(text, `${grouped(look.load[name])} since the start`);
}

function card(title, ...facts) {
  return el(
    "section",
    { class: "card stack", "aria-label": title },
    el("h3", {}, title),
    el("dl", { class: "facts grid" }, facts),
  );
}

const figure = (content, title) => el("span", { class: "figure", title }, content);

function filled(name, used, most, part, noun = "") {
  if (used === null) return fact(name, "–");
  if (part === null)
    return fact(name, bytes(used), " ", el("span", { class: "muted" }, noun ? `no ${noun}` : ""));
  return fact(
    name,
    bytes(used),
    el("span", { class: "muted" }, ` of ${humanBytes(most)}${noun ? ` ${noun}` : ""}`),
    meter(part, { isLow: part > NEARLY_FULL }),
  );
}
