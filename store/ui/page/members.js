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
      { cell: [stateBadge(why), agePart(look)] },
      ...ofReplication(member, look, overview),
      ...ofProcess(look),
    ],
    {
      class: look && isOld(look) ? "old" : null,
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

const stateBadge = (why) =>
  why ? el("span", { class: "badge bad" }, why) : el("span", { class: "badge good" }, "keeps up");

function agePart(look) {
  if (look === null) return el("div", { class: "muted small" }, "no figures");
  return isOld(look) ? el("div", { class: "muted small" }, `figures ${humanAge(look.age)} old`) : null;
}

const figureCell = (test, cell, title) => ({ cell, class: "figure", title, "data-test": test });

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
    ),
    figureCell(
      "round-trip",
      known(overview.roundTrips.get(member.id) ?? null, milliseconds),
      "mean round trip of the probes from this server, since the last look",
    ),
  ];
}

function ofProcess(look) {
  if (look === null) return ["flush", "flush-most", "disk", "memory", "processor", "version"].map(unknown);
  const flushes = flushTimes(look);
  const note = flushNote(flushes);
  return [
    figureCell("flush", known(flushes.mean, milliseconds), note),
    figureCell(
      "flush-most",
      known(flushes.most, () => mostText(flushes, "≤ ", "> ")),
      note,
    ),
    figureCell("disk", diskCell(look), "taken of the disk of the data directory"),
    figureCell("memory", known(look.process.resident_memory_bytes, bytes)),
    figureCell("processor", processorText(look), "of one core, since the last look"),
    { cell: el("bdi", {}, known(look.process.version, String)), "data-test": "version" },
  ];
}

const unknown = (test) => (test === "version" ? { cell: "–", "data-test": test } : figureCell(test, "–"));

const number = (count) => (count === 1 ? "1 flush" : `${grouped(count)} flushes`);

export const flushNote = ({ number: count, isRecent }) =>
  `${number(count)} ${isRecent ? "since the last look" : "since the start"}`;

export const mostText = ({ most, last }, within, above) =>
  most === Infinity ? `${above}${milliseconds(last)}` : `${within}${milliseconds(most)}`;

// "…" until there is a second look.
export function processorText(look) {
  if (look.process.cpu_seconds === null) return "–";
  const part = processorShare(look);
  return part === null ? "…" : `${part.toFixed(1)} %`;
}

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
