// Sentences at the top of the cluster: alarms, slow members, disks and quotas that are nearly full, versions.

import { cli } from "./cli.js";
import { el } from "./dom.js";
import { humanAge } from "./figures.js";
import { diskShare, isOld, nameOf, quotaShare } from "./looks.js";
import { slowness } from "./slowness.js";

export const NEARLY_FULL = 0.9;

// [kind, ...text] of each.
export function verdicts(overview) {
  const all = [
    ...alarms(overview),
    ...overview.errors.map((error) => ["bad", error]),
    ...members(overview),
    ...nearlyFullDisks(overview),
    ...nearlyFullQuotas(overview),
    ...versions(overview),
    ...leaderless(overview),
  ];
  return all.length > 0 ? all : [["good", goodText(overview)]];
}

function goodText({ members, looks }) {
  if (members.length === 1) return "The member works, and there is no alarm.";
  return looks.size === members.length
    ? "All members keep up, and there is no alarm."
    : "No member is known to be slow, and there is no alarm.";
}

const alarms = (overview) =>
  overview.alarms.map(({ alarm = "NONE", memberID }) => {
    const member = overview.members.find(({ id }) => id === memberID);
    return ["bad", ...alarmText(alarm, member)];
  });

function alarmText(alarm, member) {
  const start = member ? [`Alarm ${alarm} at `, name(member)] : [`Alarm ${alarm}`];
  if (alarm === "NOSPACE")
    return [
      ...start,
      `: there is no room, so puts are refused. Compact or delete, then run ${cli("alarm disarm")}.`,
    ];
  if (alarm === "CORRUPT")
    return [...start, ": the members have different data. See “damage” in the documentation."];
  return [...start, "."];
}

const name = (member) => el("bdi", {}, nameOf(member));
const strongName = (member) => el("strong", {}, name(member));

// Slow members, and those that stopped giving figures.
function members(overview) {
  return overview.members.flatMap((member) => {
    const why = slowness(member, overview);
    if (why !== "") return [["bad", strongName(member), `: ${why}.`]];
    const look = overview.looks.get(member.id);
    if (!look || !isOld(look)) return [];
    return [["note", strongName(member), `: its newest figures are ${humanAge(look.age)} old.`]];
  });
}

function nearlyFullDisks(overview) {
  const full = nearlyFull(overview, diskShare);
  if (full.length === 0) return [];
  const remedy = " A leader without room refuses puts.";
  if (full.length > 1) return [["note", "Disks are nearly full: ", list(full), ".", remedy]];
  const [{ member, part, look }] = full;
  const when = isOld(look) ? [" was ", ` ${humanAge(look.age)} ago`] : [" is ", ""];
  return [["note", "The disk of ", strongName(member), `${when[0]}${percent(part)} full${when[1]}.`, remedy]];
}

function nearlyFullQuotas(overview) {
  const full = nearlyFull(overview, quotaShare);
  if (full.length === 0) return [];
  const remedy = " At 100 % it refuses puts: compact old revisions, or raise --quota-backend-bytes.";
  const parts = new Set(full.map(({ part }) => percent(part)));
  if (full.length === overview.looks.size && parts.size === 1)
    return [["note", `The store uses ${[...parts]} of its quota.`, remedy]];
  return [["note", "The store uses most of its quota: ", list(full), ".", remedy]];
}

// Members with a share above the limit: [{member, part, look}].
function nearlyFull({ members, looks }, shareOf) {
  return members
    .filter(({ id }) => looks.has(id))
    .map((member) => ({ member, look: looks.get(member.id), part: shareOf(looks.get(member.id)) }))
    .filter(({ part }) => part !== null && part > NEARLY_FULL);
}

// Rounded down: a disk that is not full is not called full.
export const percent = (part) => `${Math.floor(part * 100)} %`;

const list = (full) =>
  full.map(({ member, part, look }, at) => [
    at > 0 ? ", " : "",
    strongName(member),
    ` ${percent(part)}${isOld(look) ? ` (${humanAge(look.age)} ago)` : ""}`,
  ]);

function versions({ members, looks }) {
  const found = new Map(); // version -> members
  for (const member of members) {
    const version = looks.get(member.id)?.process.version;
    if (version) found.set(version, [...(found.get(version) ?? []), member]);
  }
  if (found.size < 2) return [];
  const groups = [...found].map(([version, some], at) => [
    at > 0 ? "; " : "",
    el("bdi", {}, version),
    ": ",
    some.map((member, place) => [place > 0 ? ", " : "", name(member)]),
  ]);
  return [["note", "The members run different versions. ", groups, "."]];
}

const leaderless = (overview) =>
  overview.members.some(({ is_leader }) => is_leader)
    ? []
    : [["bad", "There is no leader: the cluster refuses writes."]];
