// A file for the user, made in the browser.

import { el } from "./dom.js";

const KEPT = 60_000; // ms that the browser has to begin its download

export function saveFile(name, blob) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT);
}
