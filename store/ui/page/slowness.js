// Reasons to call a member slow: it is not connected, lacks entries, flushes slowly, or answers slowly.

import { counted, milliseconds } from "./figures.js";
import { flushTimes, isOld } from "./looks.js";

// A member with more entries than this to catch up is called slow.
const SLOW_ENTRIES = 1000;
// So is one with round trips or flushes, since the last look, of more than this and several times the fastest.
const SLOW_TIME = 0.02; // s
const SLOW_TIMES = 4;

// Entries that a member has yet to receive; null where the server that is asked does not know.
export function lagOf({ matched_index: matched }, { self }) {
  const newest = self?.store.raft_index ?? null;
  if (newest === null || !/^\d{1,20}$/.test(matched)) return null;
  const lag = BigInt(newest) - BigInt(matched);
  return lag > 0n ? Number(lag) : 0;
}

// Members that lack entries and have received none since the last look.
export function stuckMembers({ members, earlier }) {
  const isStuck = (member) => {
    const before = earlier?.members.find(({ id }) => id === member.id);
    return before?.matched_index === member.matched_index && before && lagOf(before, earlier) > 0;
  };
  return new Set(members.filter(isStuck).map(({ id }) => id));
}

// Mean round trips since the last look, by member, where the server counts them.
export function roundTrips({ members, earlier }) {
  const found = new Map();
  for (const member of members) {
    const before = earlier?.members.find(({ id }) => id === member.id);
    const number = Number(member.round_trips ?? 0) - Number(before?.round_trips ?? 0);
    const sum = Number(member.round_trip_sum_seconds ?? 0) - Number(before?.round_trip_sum_seconds ?? 0);
    if (before && number > 0 && sum >= 0) found.set(member.id, sum / number);
  }
  return found;
}

// Mean times of the flushes since the last look, by member.
export function flushMeans(looks) {
  const found = new Map();
  for (const [id, look] of looks) {
    const { isRecent, mean } = flushTimes(look);
    if (isRecent && mean !== null && !isOld(look)) found.set(id, mean);
  }
  return found;
}

const entries = (number) => counted(number, "entry", "entries");

// The reasons as a text, which is empty for a member that keeps up.
export function slowness(member, overview) {
  if (!member.is_connected) return "not connected";
  const flush = slowTime(member, overview.flushMeans);
  const trip = slowTime(member, overview.roundTrips);
  return [
    behind(member, overview),
    flush === null ? "" : `flushes take ${milliseconds(flush)}`,
    trip === null ? "" : `slow to answer, ${milliseconds(trip)}`,
  ]
    .filter(Boolean)
    .join(", ");
}

function behind(member, overview) {
  const lag = lagOf(member, overview) ?? 0;
  if (overview.stuck.has(member.id)) return `receives nothing, ${entries(lag)} behind`;
  return lag > SLOW_ENTRIES ? `${entries(lag)} behind` : "";
}

// The time of a member if it is slow beside the fastest.
function slowTime({ id }, times) {
  const time = times.get(id) ?? 0;
  return time > SLOW_TIME && time > SLOW_TIMES * Math.min(...times.values()) ? time : null;
}
