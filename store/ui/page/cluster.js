// Members and their work: which one leads, which one is slow or full, flush times, disk, memory, alarms. The
// server that is asked knows its own figures, and has asked the other members for theirs.

import { call, CallError } from "./api.js";
import { go } from "./address.js";
import { memberCards } from "./cards.js";
import { el, fill, notice, refill, row, table } from "./dom.js";
import { hexId } from "./figures.js";
import { Looks, nameOf } from "./looks.js";
import { membersTable } from "./members.js";
import { every } from "./poll.js";
import { flushMeans, roundTrips, stuckMembers } from "./slowness.js";
import { turns } from "./turns.js";
import { verdicts } from "./verdicts.js";

export class ClusterView {
  constructor(main) {
    this.looks = new Looks();
    this.shown = null; // the newest overview
    this.chosen = null; // ID of the member with its cards shown; null is the server that is asked
    this.turn = turns(); // of loads
    this.verdicts = verdictsBox();
    this.members = el("div", {});
    this.cards = el("div", {});
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

  async update({ member = null }) {
    this.chosen = member;
    if (this.shown) this.#showCards();
    else await this.#load();
  }

  // Resolves to false if it failed.
  async #load() {
    const isNewest = this.turn();
    try {
      const answer = await call("inkstone/overview");
      if (isNewest()) this.#take(answer, performance.now());
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      if (!isNewest() || error.needsSignIn) return false;
      // Without a connection, old figures stay.
      if (error.code === 14 && this.shown) return false;
      const parts = await lessOf(error);
      if (isNewest()) fill(this.box, parts);
      return false;
    }
  }

  #take(answer, at) {
    this.shown = overviewOf(answer, this.shown, this.looks, at);
    if (!this.members.isConnected) fill(this.box, this.verdicts, this.members, this.cards);
    this.#showVerdicts();
    refill(this.members, membersTable(this.shown));
    this.#showCards();
  }

  // A screen reader says an alert again when its element is replaced.
  #showVerdicts() {
    const box = verdictsBox(verdicts(this.shown).map(([kind, ...text]) => notice(kind, ...text)));
    if (!box.isEqualNode(this.verdicts)) refill(this.verdicts, [...box.childNodes]);
  }

  #showCards() {
    const choose = (member) => go("cluster", { member }, { replace: true });
    refill(this.cards, memberCards(this.shown, this.chosen, choose));
  }
}

const verdictsBox = (...notices) => el("div", { class: "stack", id: "verdicts" }, notices);

function overviewOf(answer, before, looks, at) {
  const { members = [], alarms = [], errors = [] } = answer;
  members.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const found = looks.take({ ...answer, members }, at);
  const self = found.get(members.find(({ is_self }) => is_self)?.id);
  const now = { members, alarms, errors, looks: found, self };
  now.earlier = earlierOf(now, before);
  now.roundTrips = roundTrips(now);
  now.flushMeans = flushMeans(found);
  now.stuck = stuckMembers(now);
  return now;
}

// The overview that this server's own look is compared with; null if it has none, as after a restart.
function earlierOf({ self }, before) {
  if (!self?.before || !before) return null;
  const isSameLook = self.moment === before.self?.moment;
  return isSameLook ? before.earlier : { members: before.members, self: before.self };
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
