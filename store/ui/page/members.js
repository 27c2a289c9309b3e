// The table of the members: the figures that tell a slow or full member from the others.

import { el, meter, row, table } from "./dom.js";
import { bytes, grouped, humanAge, humanBytes, known, milliseconds } from "./figures.js";
import { diskShare, flushTimes, isOld, nameOf, processorShare, unapplied } from "./looks.js";
import { lagOf, slowness } from "./slowness.js";
import { NEARLY_FULL, percent } from "./verdicts.js";

const HEADS = [
  "Member",
  "State",
  "#Entries behind",
  "#Not applied",
  "#Mean round trip",
  "#Flush, mean",
  "#99 of 100 flushes",
  "#Disk",
  "#Memory",
  "#Processor",
  "Version",
];
const FIGURES = ["flush", "flush-most", "disk", "memory", "processor"];

export function membersTable(overview) {
  const box = table(
    "Members",
    HEADS,
    overview.members.map((member) => memberRow(member, overview)),
  );
  box.classList.add("members");
  return el("div", { class: "stack" }, box, footnotes(overview));
}

function memberRow(member, overview) {
  const look = overview.looks.get(member.id) ?? null;
  const why = slowness(member, overview);
  return row(
    [
      { cell: [nameCell(member)], role: "rowheader" },
      { cell: [stateCell(why, look, lagOf(member, overview))] },
      ...ofReplication(member, look, overview),
      ...ofProcess(look),
    ],
    {
      "data-test": "member",
      "data-name": nameOf(member),
      "data-slow": String(why !== ""),
    },
  );
}

const nameCell = (member) => [
  el("strong", {}, el("bdi", {}, nameOf(member))),
  " ",
  badges(member),
  member.is_self ? null : el("div", { class: "small" }, pageOf(member)),
];

// A member is said to keep up if it gives figures, or if the leader knows that it lacks nothing.
function stateCell(why, look, lag) {
  const age = look && isOld(look) ? badge("note", `figures ${humanAge(look.age)} old`) : null;
  const missing = look === null ? el("div", { class: "muted small" }, "no figures") : null;
  const fine = look === null && lag === null ? badge("", "connected") : badge("good", "keeps up");
  return [why ? badge("bad", why) : (age ?? fine), why && age ? [" ", age] : null, missing];
}

const badge = (kind, text) => el("span", { class: `badge ${kind}` }, text);

function ofReplication(member, look, overview) {
  return [
    figureCell(
      "behind",
      member.is_leader ? "leads" : known(lagOf(member, overview), grouped),
      "entries of the log that the member does not have yet",
    ),
    figureCell(
      "unapplied",
      known(look && unapplied(look), grouped),
      "entries that the member has and has not applied yet",
      look,
    ),
    figureCell(
      "round-trip",
      known(overview.roundTrips.get(member.id) ?? null, milliseconds),
      "mean round trip of the probes from this server, since the last look",
    ),
  ];
}

function ofProcess(look) {
  if (look === null)
    return [...FIGURES.map((test) => figureCell(test, "–")), { cell: "–", "data-test": "version" }];
  const flushes = flushTimes(look);
  const note = flushNote(flushes);
  const version = el("bdi", {}, known(look.process.version, String));
  return [
    figureCell("flush", known(flushes.mean, milliseconds), note, look),
    figureCell(
      "flush-most",
      known(flushes.most, () => mostText(flushes, "≤ ", "> ")),
      note,
      look,
    ),
    figureCell("disk", diskCell(look), "taken of the disk of the data directory", look),
    figureCell("memory", known(look.process.resident_memory_bytes, bytes), null, look),
    figureCell("processor", processorText(look), "of one core, since the last look", look),
    { cell: version, class: isOld(look) ? "old" : null, "data-test": "version" },
  ];
}

// The cell is marked if it shows an old look.
function figureCell(test, content, title = null, look = null) {
  const age = look && isOld(look) ? " old" : "";
  return { cell: content, class: `figure${age}`, title, "data-test": test };
}

const number = (count) => (count === 1 ? "1 flush" : `${grouped(count)} flushes`);

export const flushNote = ({ number: count, isRecent }) =>
  `${number(count)} ${isRecent ? "since the last look" : "since the start"}`;

export const mostText = ({ most, last }, within, above) =>
  most === Infinity ? `${above}${milliseconds(last)}` : `${within}${milliseconds(most)}`;

export function processorText(look) {
  if (look.process.cpu_seconds === null) return "–";
  const part = processorShare(look);
  return part === null ? untilNext(look) : `${part.toFixed(1)} %`;
}

// Stands for a rate until there is a second look.
export const untilNext = (look) => (isOld(look) ? "–" : "…");

function diskCell(look) {
  const part = diskShare(look);
  if (part === null) return "–";
  const of = el("span", { class: "muted" }, ` of ${humanBytes(look.store.disk_total_bytes)}`);
  return [percent(part), of, meter(part, { isLow: part > NEARLY_FULL })];
}

function badges({ is_leader, is_self, is_learner }) {
  return [is_leader ? "leader" : null, is_learner ? "learner" : null, is_self ? "this server" : null]
    .filter(Boolean)
    .map((text) => [el("span", { class: text === "leader" ? "badge accent" : "badge" }, text), " "]);
}

// A link that the user may follow; the page itself asks only its own server.
export function pageOf({ client_urls = [] }, text) {
  const url = client_urls.find((one) => /^https?:\/\//.test(one));
  if (!url) return el("span", { class: "muted" }, "no client URL");
  return el("a", { href: `${url.replace(/\/+$/, "")}/ui/#/cluster`, rel: "noreferrer" }, text ?? url);
}

function footnotes(overview) {
  const { members, looks, self } = overview;
  const place = self
    ? `Term ${known(self.store.raft_term, grouped)}, entry ${known(self.store.raft_index, grouped)}. `
    : "";
  const asks =
    members.length > 1
      ? "This server asks the other members for their figures. Each member has a page of its own."
      : "";
  return [
    leaderNote(overview),
    ...members.filter(({ id }) => !looks.has(id)).map(missingNote),
    el("p", { class: "muted small" }, place, asks),
  ];
}

function leaderNote({ members }) {
  const leader = members.find(({ is_leader }) => is_leader);
  if (leader?.is_self || members.length < 2) return null;
  return el(
    "p",
    { class: "muted small" },
    "The leader knows what each member lacks; this server does not lead. ",
    leader ? pageOf(leader, "Open the leader's page") : null,
  );
}

const missingNote = (member) =>
  el(
    "p",
    { class: "muted small" },
    "This server has no figures of ",
    el("bdi", {}, nameOf(member)),
    ": that member has not answered yet, or runs an older release.",
  );
