// Figures as people read them, with the exact value beside them.

import { el } from "./dom.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const grouped = (number) => BigInt(number ?? 0).toLocaleString("en-US");

// "1 key", "2 keys".
export function counted(number, one, many = `${one}s`) {
  return `${grouped(number)} ${BigInt(number ?? 0) === 1n ? one : many}`;
}

export function humanBytes(number) {
  let value = Number(number ?? 0);
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const text = unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1);
  return `${text} ${UNITS[unit]}`;
}

function humanCount(number) {
  const value = Number(number ?? 0);
  if (value < 10_000) return String(value);
  if (value < 999_500) return `${(value / 1000).toFixed(value < 100_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(value < 100_000_000 ? 2 : 0)}M`;
}

export function humanSeconds(seconds) {
  const value = Math.max(0, Math.round(Number(seconds)));
  if (value < 60) return `${value} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${value % 60} s`;
  if (value < 172800) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86400)} days`;
}

// "4 s", "3 min": roughly, for the age of a figure.
export function humanAge(seconds) {
  if (seconds < 1) return "less than 1 s";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return humanSeconds(seconds);
}

export function milliseconds(seconds) {
  const value = Number(seconds) * 1000;
  if (value < 0.1) return `${Math.round(value * 1000)} µs`;
  return `${value.toFixed(value < 10 ? 2 : 0)} ms`;
}

// Shows a value by a function; null, which is not known, is a dash.
export const known = (value, show) => (value === null ? "–" : show(value));

function ago(milliseconds) {
  const seconds = (Date.now() - milliseconds) / 1000;
  if (seconds < 3) return "just now";
  return `${humanSeconds(seconds)} ago`;
}

export function bytes(number, estimated = false) {
  const exact = `${estimated ? "about " : ""}${counted(number, "byte")}`;
  return el("span", { class: "figure", title: exact }, `${estimated ? "~" : ""}${humanBytes(number)}`);
}

// A number of keys.
export function count(number, atLeast = false) {
  return el(
    "span",
    { class: "figure", title: `${atLeast ? "at least " : ""}${counted(number, "key")}` },
    `${atLeast ? "≥ " : ""}${humanCount(number)}`,
  );
}

// Time as the browser's clock has it, in the user's zone.
export function moment(milliseconds) {
  const date = new Date(milliseconds);
  return el("time", { datetime: date.toISOString(), title: date.toISOString() }, date.toLocaleTimeString());
}

export const hexId = (id) => BigInt(id ?? 0).toString(16);

const DAY = 86_400_000; // ms

function clock(milliseconds) {
  const date = new Date(milliseconds);
  const near = Math.abs(Date.now() - milliseconds) < DAY / 2;
  return near
    ? date.toLocaleTimeString()
    : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

// The time between two moments; null if one is unknown.
export function period({ after, before }) {
  if (before === null || after === null) return null;
  const title = `after ${new Date(after).toISOString()}, before ${new Date(before).toISOString()}`;
  if (before - after < 15_000) return el("span", { title }, `${clock(before)}, ${ago(before)}`);
  return el("span", { title }, `between ${clock(after)} and ${clock(before)}`);
}
