// The part of the address behind "#": a view and its parameters, so that reload, back and a copied link
// show the same. #/keys?prefix=/registry/&key=/registry/a&rev=7&show=history

import { fromAddress, toAddress } from "./bytes.js";

const OF_BYTES = ["prefix", "key"];

export function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const params = {};
  for (const part of query.split("&")) {
    const at = part.indexOf("=");
    if (at < 1) continue;
    const name = part.slice(0, at);
    const value = part.slice(at + 1);
    if (value === "" || (name === "rev" && !/^[1-9][0-9]{0,18}$/.test(value))) continue;
    params[name] = OF_BYTES.includes(name) ? fromAddress(value) : decode(value);
  }
  return { view: path || "keys", params };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// A link to a view. Parameters that are null or undefined are left out.
export function link(view, params = {}) {
  const parts = Object.entries(params)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(
      ([name, value]) =>
        `${name}=${value instanceof Uint8Array ? toAddress(value) : encodeURIComponent(value)}`,
    );
  return `#/${view}${parts.length > 0 ? "?" + parts.join("&") : ""}`;
}

// Goes to a view; `replace` leaves no entry in the browser's history.
export function go(view, params = {}, { replace = false } = {}) {
  const target = link(view, params);
  if (target === location.hash) return;
  if (!replace) {
    location.hash = target;
    return;
  }
  history.replaceState(null, "", target);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
