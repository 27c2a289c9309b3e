// Members and what they do: which one leads, which one is slow, disk, memory, flush times, alarms. The
// server that is asked knows its own figures, and of the others what it sees of them.

import { call, CallError } from "./api.js";
import { cli } from "./cli.js";
import { el, fill, meter, notice, refill, row, table } from "./dom.js";
import { bytes, counted, grouped, hexId, humanBytes, humanSeconds } from "./figures.js";
import { fact } from "./keys.js";
import { every } from "./poll.js";
import { turns } from "./turns.js";

// A member with more entries than this to catch up is called slow.
const SLOW_ENTRIES = 1000;
// So is one with a round trip, since the last look, of more than this and several times the fastest.
const SLOW_ROUND_TRIP = 0.02; // s
const SLOW_TIMES = 4;
const NEARLY_FULL = 0.9;

const RATES = {
  puts: "Puts /s",
  ranges: "Reads /s",
  txns: "Transactions /s",
  deletes: "Deletes /s",
  events: "Watch events /s",
};

export class ClusterView {
  constructor(main) {
    this.before = null;
    this.turn = turns(); // of loads
    this.box = el("div", { class: "stack", id: "cluster" });
    fill(
      main,
      el("div", { class: "page" }, el("div", { class: "page-head" }, el("h1", {}, "Cluster")), this.box),
    );
    this.end = every(() => this.#load());
  }

  close() {
    this.end();
    this.turn();
  }

  async update() {
    await this.#load();
  }

  // Resolves to false if it failed.
  async #load() {
    const isNewest = this.turn();
    try {
      const now = { ...(await call("inkstone/overview")), at: performance.now() };
      if (isNewest()) this.#render(now);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      if (!isNewest() || error.needsSignIn) return false;
      // Without a connection, old figures stay.
      if (error.code === 14 && this.before) return false;
      const parts = await lessOf(error);
      if (isNewest()) fill(this.box, parts);
      return false;
    }
  }

  #render(now) {
    const before = this.before && countsOn(now, this.before) ? this.before : null;
    this.before = now;
    now.members = (now.members ?? []).sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
    now.roundTrips = roundTrips(now, before);
    now.stuck = new Set(before ? stuckMembers(now, before) : []);
    refill(
      this.box,
      verdicts(now).map(([kind, ...text]) => notice(kind, ...text)),
      membersTable(now),
      ownFigures(now, before),
    );
  }
}

// The members by etcd's own call, where the overview is refused or unknown.
async function lessOf(error) {
  const head = notice(
    "note",
    `The server gives no overview: ${error.message}. The list of members says less.`,
  );
  try {
    const { members = [] } = await call("cluster/member/list");
    return [head, table("Members", ["Member", "ID", "Client URLs"], members.map(plainRow))];
  } catch (refused) {
    return [head, notice("bad", refused.sentence ?? refused.message)];
  }
}

const plainRow = ({ name, ID, clientURLs = [] }) =>
  row([el("bdi", {}, name ?? "not started"), el("code", {}, hexId(ID)), clientURLs.join(", ")]);

// Whether both answers are of the same run of the same server: its counters begin at 0 when it starts.
function countsOn(now, before) {
  const selfOf = ({ members = [] }) => members.find(({ is_self }) => is_self)?.id;
  const uptime = ({ process }) => Number(process?.uptime_seconds ?? 0);
  const counters = Object.keys(RATES);
  const isLower = counters.some((name) => Number(now.load?.[name] ?? 0) < Number(before.load?.[name] ?? 0));
  return selfOf(now) === selfOf(before) && uptime(now) >= uptime(before) && !isLower;
}

const nameOf = (member) => member.name || hexId(member.id);

// Entries that a member has yet to receive; null where the server that is asked does not know.
function lagOf(member, { store = {} }) {
  if (member.matched_index === undefined) return null;
  const lag = BigInt(store.raft_index ?? 0) - BigInt(member.matched_index);
  return lag > 0n ? Number(lag) : 0;
}

// Members that lack entries and have received none since the last look.
function stuckMembers(now, before) {
  return now.members
    .filter((member) => {
      const earlier = (before.members ?? []).find(({ id }) => id === member.id);
      return (
        earlier?.matched_index !== undefined &&
        earlier.matched_index === member.matched_index &&
        lagOf(earlier, before) > 0
      );
    })
    .map(({ id }) => id);
}

// Mean round trips since the last look, by member, where the server counts them.
function roundTrips(now, before) {
  const found = new Map();
  for (const member of now.members) {
    const earlier = before?.members?.find(({ id }) => id === member.id);
    const number = Number(member.round_trips ?? 0) - Number(earlier?.round_trips ?? 0);
    const sum = Number(member.round_trip_sum_seconds ?? 0) - Number(earlier?.round_trip_sum_seconds ?? 0);
    if (earlier && number > 0) found.set(member.id, sum / number);
  }
  return found;
}

const entries = (number) => counted(number, "entry", "entries");

function slowness(member, overview) {
  if (!member.is_connected) return "not connected";
  const lag = lagOf(member, overview) ?? 0;
  if (overview.stuck.has(member.id)) return `receives nothing, ${entries(lag)} behind`;
  if (lag > SLOW_ENTRIES) return `${entries(lag)} behind`;
  const times = [...overview.roundTrips.values()];
  const time = overview.roundTrips.get(member.id) ?? 0;
  if (time > SLOW_ROUND_TRIP && time > SLOW_TIMES * Math.min(...times))
    return `slow to answer, ${milliseconds(time)}`;
  return "";
}

function verdicts(overview) {
  const { members = [], alarms = [], errors = [], store = {} } = overview;
  const all = [];
  for (const { alarm = "NONE", memberID } of alarms)
    all.push([
      "bad",
      alarmText(
        alarm,
        members.find(({ id }) => id === memberID),
      ),
    ]);
  for (const error of errors) all.push(["bad", error]);
  const slow = members.map((member) => [member, slowness(member, overview)]).filter(([, why]) => why !== "");
  for (const [member, why] of slow)
    all.push(["bad", el("strong", {}, el("bdi", {}, nameOf(member))), `: ${why}.`]);
  const full = share(store.db_in_use_bytes, store.quota_bytes);
  if (full > NEARLY_FULL)
    all.push([
      "note",
      `The store uses ${Math.round(full * 100)} % of its quota. At 100 % it refuses puts: compact old revisions, or raise --quota-backend-bytes.`,
    ]);
  if (!members.some(({ is_leader }) => is_leader))
    all.push(["bad", "There is no leader: the cluster refuses writes."]);
  if (all.length === 0)
    all.push([
      "good",
      members.length > 1
        ? "All members keep up, and there is no alarm."
        : "The member works, and there is no alarm.",
    ]);
  return all;
}

function alarmText(alarm, member) {
  const where = member ? ` at ${nameOf(member)}` : "";
  if (alarm === "NOSPACE")
    return `Alarm NOSPACE${where}: there is no room, so puts are refused. Compact or delete, then run ${cli("alarm disarm")}.`;
  if (alarm === "CORRUPT")
    return `Alarm CORRUPT${where}: the members have different data. See “damage” in the documentation.`;
  return `Alarm ${alarm}${where}.`;
}

function membersTable(overview) {
  const { members = [], store = {} } = overview;
  const self = members.find(({ is_self }) => is_self);
  const leader = members.find(({ is_leader }) => is_leader);
  const rows = members.map((member) => {
    const why = slowness(member, overview);
    const lag = lagOf(member, overview);
    return row(
      [
        [el("strong", {}, el("bdi", {}, nameOf(member))), " ", badges(member)],
        why ? el("span", { class: "badge bad" }, why) : el("span", { class: "badge good" }, "keeps up"),
        {
          cell: member === leader ? "leads" : lag === null ? "–" : grouped(lag),
          class: "figure",
          title: "entries of the log that the member does not have yet",
        },
        {
          cell: roundTripOf(member, overview),
          class: "figure",
          title: "mean round trip of the probes from this server",
        },
        pageOf(member),
      ],
      { "data-test": "member", "data-name": nameOf(member), "data-slow": String(why !== "") },
    );
  });
  const unknown =
    self !== leader && members.length > 1
      ? el(
          "p",
          { class: "muted small" },
          "The leader knows what each member lacks; this server does not lead. ",
          leader ? pageOf(leader, "Open the leader's page") : null,
        )
      : null;
  return el(
    "div",
    { class: "stack" },
    table("Members", ["Member", "State", "#Entries behind", "#Mean round trip", "Page"], rows),
    unknown,
    el(
      "p",
      { class: "muted small" },
      `Term ${grouped(store.raft_term)}, entry ${grouped(store.raft_index)}. Flush time, disk and memory are those of the server that is asked; each member has a page of its own.`,
    ),
  );
}

function roundTripOf(member, { roundTrips }) {
  const time = roundTrips.get(member.id) ?? member.round_trip_seconds;
  return time === undefined ? "–" : milliseconds(time);
}

function badges({ is_leader, is_self, is_learner }) {
  return [is_leader ? "leader" : null, is_learner ? "learner" : null, is_self ? "this server" : null]
    .filter(Boolean)
    .map((text) => [el("span", { class: text === "leader" ? "badge accent" : "badge" }, text), " "]);
}

// A link that the user may follow; the page itself asks only its own server.
function pageOf({ client_urls = [], is_self }, text) {
  const url = client_urls.find((one) => /^https?:\/\//.test(one));
  if (is_self && !text) return el("span", { class: "muted" }, "this one");
  if (!url) return el("span", { class: "muted" }, "no client URL");
  return el("a", { href: `${url.replace(/\/+$/, "")}/ui/#/cluster`, rel: "noreferrer" }, text ?? url);
}

function ownFigures(now, before) {
  const { members = [], store = {}, process = {}, load = {} } = now;
  const self = members.find(({ is_self }) => is_self);
  const flushes = flushTimes(load, before?.load);
  const cpu = cpuShare(now, before);
  return el(
    "div",
    { class: "stack" },
    el("h2", {}, "This server", self ? [": ", el("bdi", {}, nameOf(self))] : null),
    el(
      "div",
      { class: "cards" },
      card(
        "Log and disk",
        fact("Flush, mean", figure(flushes.mean, flushes.note)),
        fact("99 of 100 flushes", figure(flushes.most, flushes.note)),
        filled("Disk", taken(store.disk_free_bytes, store.disk_total_bytes), store.disk_total_bytes),
        filled("Store in use", store.db_in_use_bytes, store.quota_bytes ?? null, "quota"),
        fact("Size of the log", bytes(store.db_size_bytes)),
      ),
      card(
        "Memory and time",
        fact("Memory", bytes(process.resident_memory_bytes)),
        fact("Index of the keys", bytes(store.index_memory_bytes)),
        fact("Core", cpu === null ? "…" : figure(`${cpu.toFixed(1)} %`, "of one core, since the last look")),
        fact("Up for", process.uptime_seconds === undefined ? "–" : humanSeconds(process.uptime_seconds)),
        fact("Version", figure(process.version ?? "–", `serves the calls of etcd ${process.etcd_version}`)),
      ),
      card(
        "Keys",
        fact("Keys", grouped(store.keys)),
        fact("Versions", grouped(store.key_versions)),
        fact("Revision", grouped(store.revision)),
        fact("Compacted at", store.compacted_revision ? grouped(store.compacted_revision) : "never"),
        fact(
          "Not yet applied",
          grouped(BigInt(store.raft_index ?? 0) - BigInt(store.raft_applied_index ?? 0)),
        ),
      ),
      card(
        "Load",
        ...Object.entries(RATES).map(([name, label]) =>
          fact(label, rate(load[name], before?.load?.[name], now, before)),
        ),
        fact("Watches", grouped(load.watches)),
        fact("Connections", grouped(load.connections)),
      ),
    ),
  );
}

function card(title, ...facts) {
  return el(
    "section",
    { class: "card stack", "aria-label": title },
    el("h3", {}, title),
    el("dl", { class: "facts grid" }, facts),
  );
}

const figure = (text, title) => el("span", { class: "figure", title }, text);

function filled(name, used, most, noun = "") {
  if (used === undefined || used === null) return fact(name, "–");
  if (!most) return fact(name, bytes(used), " ", el("span", { class: "muted" }, noun ? `no ${noun}` : ""));
  const part = share(used, most);
  return fact(
    name,
    bytes(used),
    el("span", { class: "muted" }, ` of ${humanBytes(most)}${noun ? ` ${noun}` : ""}`),
    meter(part, { isLow: part > NEARLY_FULL }),
  );
}

const share = (used, most) => (Number(most ?? 0) > 0 ? Number(used ?? 0) / Number(most) : 0);

function taken(free, total) {
  return free === undefined || total === undefined ? null : String(BigInt(total) - BigInt(free));
}

function milliseconds(seconds) {
  const value = Number(seconds) * 1000;
  if (value < 0.1) return `${Math.round(value * 1000)} µs`;
  return `${value.toFixed(value < 10 ? 2 : 0)} ms`;
}

function rate(now, earlier, { at }, before) {
  if (!before) return "…";
  const seconds = (at - before.at) / 1000;
  const value = (Number(now ?? 0) - Number(earlier ?? 0)) / seconds;
  return figure(
    value >= 10 ? grouped(Math.round(value)) : value.toFixed(1),
    `${grouped(now)} since the start`,
  );
}

function cpuShare(now, before) {
  const [a, b] = [before?.process?.cpu_seconds, now.process?.cpu_seconds];
  return a === undefined || b === undefined ? null : (100 * (b - a)) / ((now.at - before.at) / 1000);
}

// The mean time of a flush, and the time that 99 of 100 took at most: of the flushes since the last look, or of
// all if there were none.
function flushTimes(load, before) {
  const buckets = load.flush_buckets ?? [];
  const recent = Number(load.flushes ?? 0) > Number(before?.flushes ?? Infinity);
  const base = recent ? before : {};
  const total = Number(load.flushes ?? 0) - Number(base.flushes ?? 0);
  const note = `${counted(total, "flush", "flushes")} ${recent ? "since the last look" : "since the start"}`;
  if (total === 0) return { mean: "–", most: "–", note };
  const mean = (Number(load.flush_seconds ?? 0) - Number(base.flush_seconds ?? 0)) / total;
  const within = (bucket, at) =>
    Number(bucket.count ?? 0) - Number(base.flush_buckets?.[at]?.count ?? 0) >= 0.99 * total;
  const at = buckets.findIndex(within);
  const last = buckets[buckets.length - 1]?.seconds_max ?? 0;
  return {
    mean: milliseconds(mean),
    most: at < 0 ? `more than ${milliseconds(last)}` : `at most ${milliseconds(buckets[at].seconds_max)}`,
    note,
  };
}
