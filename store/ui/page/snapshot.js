// A snapshot of the store as a file, and the commands that restore one.

import { call, stream } from "./api.js";
import { fromBase64 } from "./bytes.js";
import { cli } from "./cli.js";
import { button, command, el, fill, meter, notice } from "./dom.js";
import { saveFile } from "./file.js";
import { humanBytes } from "./figures.js";

// Parts are handed to the browser in this size, which keeps large ones on disk.
const PART_BYTES = 16 * 1024 * 1024;
const LARGE_BYTES = 512 * 1024 * 1024;
const CHECKED_BYTES_MAX = LARGE_BYTES;
// The file is pages, and the SHA-256 of them.
const PAGE_BYTES = 512;
const DIGEST_BYTES = 32;

export class SnapshotView {
  constructor(main) {
    this.abort = null;
    this.progress = el("div", { role: "status", id: "snapshot-state" });
    this.save = button("Save a snapshot", { class: "primary", id: "save-snapshot" }, () =>
      this.abort ? this.abort.abort() : this.#save(),
    );
    this.restore = el("div", { class: "stack", id: "restore" });
    fill(
      main,
      el(
        "div",
        { class: "page" },
        el("div", { class: "page-head" }, el("h1", {}, "Snapshot")),
        el(
          "section",
          { class: "card stack" },
          el("h2", {}, "Save"),
          el(
            "p",
            { class: "muted" },
            "One file with everything that the store has at this moment: all kept versions of all keys, leases, users and roles. Inkstone and etcd both read it. Writes go on while it is made.",
          ),
          el("div", { class: "actions" }, this.save),
          this.progress,
          el("p", { class: "muted small" }, "The same without a browser, better for a large store:"),
          command(cli("snapshot save backup.db"), "save-command"),
        ),
        this.restore,
        el(
          "section",
          { class: "card stack" },
          el("h2", {}, "Copies"),
          el(
            "p",
            { class: "muted" },
            "A snapshot is one moment. A backup follows the cluster and stores every change within a second, in a folder or an object store; any revision or time of the last weeks can be restored from it:",
          ),
          command(cli("backup run --to backups")),
          command("inkstone backup list --from backups"),
        ),
      ),
    );
  }

  close() {
    this.abort?.abort();
  }

  async update() {
    await this.#showRestore("backup.db");
  }

  async #save() {
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.save.textContent = "Stop";
    const name = fileName();
    try {
      const file = await chooseFile(name);
      if (file) await this.#writeTo(file, name, signal);
      else await this.#finish(await this.#receive(signal), name);
    } catch (error) {
      const stopped = error.name === "AbortError";
      fill(
        this.progress,
        stopped
          ? notice("note", "Stopped; no file was saved.")
          : notice(
              "bad",
              error.forbidden ? "Only the user root may save a snapshot." : (error.sentence ?? error.message),
            ),
      );
    } finally {
      this.abort = null;
      this.save.textContent = "Save a snapshot";
    }
  }

  async #receive(signal) {
    const parts = [];
    let pending = [];
    let pendingBytes = 0;
    const flush = () => {
      parts.push(new Blob(pending));
      pending = [];
      pendingBytes = 0;
    };
    await this.#read(signal, (bytes) => {
      pending.push(bytes);
      pendingBytes += bytes.length;
      if (pendingBytes >= PART_BYTES) flush();
    });
    flush();
    return new Blob(parts, { type: "application/octet-stream" });
  }

  // A large snapshot goes straight into a file that the user chose.
  async #writeTo(file, name, signal) {
    const writer = await file.createWritable();
    let size;
    try {
      size = await this.#read(signal, (bytes) => writer.write(bytes));
      await writer.close();
    } catch (error) {
      await writer.abort().catch(() => {});
      throw error;
    }
    this.#saved(`Saved, ${humanBytes(size)}. Check it with inkstone snapshot status.`, name);
  }

  // Gives all bytes of a snapshot to `write`, and returns their number. Throws if the end is missing.
  async #read(signal, write) {
    let received = 0;
    let remaining = null;
    const take = async ({ blob, remaining_bytes = "0" }) => {
      const bytes = fromBase64(blob);
      await write(bytes);
      received += bytes.length;
      remaining = Number(remaining_bytes);
      this.#showProgress(received, received + remaining);
    };
    await stream("maintenance/snapshot", {}, { signal, take });
    if (remaining !== 0 || received % PAGE_BYTES !== DIGEST_BYTES)
      throw new Error("The snapshot broke off before its end. It was not saved; try again.");
    return received;
  }

  #showProgress(received, total) {
    fill(
      this.progress,
      el("p", { class: "muted small" }, `${humanBytes(received)} of ${humanBytes(total)}`),
      meter(total > 0 ? received / total : 0),
    );
  }

  async #finish(blob, name) {
    const checked = await isComplete(blob);
    if (checked === false)
      throw new Error("The file is damaged: its SHA-256 does not fit. It was not saved; try again.");
    saveFile(name, blob);
    const compared = checked ? ", its SHA-256 was compared" : "";
    this.#saved(`Saved as ${name}, ${humanBytes(blob.size)}${compared}.`, name);
  }

  #saved(text, name) {
    fill(this.progress, notice("good", text));
    // The commands that are shown serve as well if the members cannot be asked now.
    this.#showRestore(name);
  }

  async #showRestore(file) {
    const members = await membersOf();
    const cluster = members.map(({ name, url }) => `${name}=${url}`).join(",");
    const blocks = members.map(({ name, url }) => [
      members.length > 1 ? el("h3", {}, `On the machine of ${name}`) : null,
      command(
        `inkstone snapshot restore ${file} --name=${name} --data-dir=restored.inkstone \\\n    --initial-cluster=${cluster} \\\n    --initial-cluster-token=restored --initial-advertise-peer-urls=${url} \\\n    --bump-revision=1000000000 --mark-compacted`,
        "restore-command",
      ),
    ]);
    fill(
      this.restore,
      el(
        "section",
        { class: "card stack" },
        el("h2", {}, "Restore"),
        el(
          "p",
          { class: "muted" },
          "Check the file, then make a new data directory from it and start a server with that directory and the same token. A restored cluster is a new one; this one is not touched.",
        ),
        command(`inkstone snapshot status ${file}`),
        blocks.flat().filter(Boolean),
      ),
    );
  }
}

const fileName = () => `inkstone-${new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-")}.db`;

// A file for a snapshot that is too large to be held by the browser; null for a smaller one.
async function chooseFile(name) {
  const { dbSize = "0" } = await call("maintenance/status");
  if (Number(dbSize) <= LARGE_BYTES) return null;
  if (globalThis.showSaveFilePicker) return showSaveFilePicker({ suggestedName: name });
  throw new Error(
    `The store has ${humanBytes(dbSize)}: too much for this browser to hold. The command below writes it straight to disk.`,
  );
}

// Names and peer URLs that may stand in a command as they are; others are replaced.
async function membersOf() {
  try {
    const { members = [] } = await call("cluster/member/list");
    const plain = (text, other) => (/^[A-Za-z0-9._:\/\[\]-]+$/.test(text ?? "") ? text : other);
    return members.map(({ name, peerURLs = [] }) => ({
      name: plain(name, "NAME"),
      url: plain(peerURLs[0], "http://HOST:2380"),
    }));
  } catch {
    return [{ name: "default", url: "http://localhost:2380" }];
  }
}

// Whether the digest at the end of the file is that of the rest; null where the browser cannot say.
async function isComplete(blob) {
  if (!globalThis.crypto?.subtle || blob.size <= DIGEST_BYTES || blob.size > CHECKED_BYTES_MAX) return null;
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const end = bytes.length - DIGEST_BYTES;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes.subarray(0, end)));
  return digest.every((byte, at) => byte === bytes[end + at]);
}
