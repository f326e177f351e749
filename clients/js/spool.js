// The file that keeps hits until the server has confirmed them, and outlives a kill of the process. For Node.
//
//     import { Spool } from "clickcurve-client/spool";
//     const clicks = new Client(url, { spool: await Spool.open("/var/lib/shortener/clicks.spool") });
//
// The lines are those of the Python client. One process holds one file: FILE, or the first free one of FILE.1, FILE.2, ...
// FILE.pid names it, so a file that a dead process left behind is taken over when the next one starts.

import { randomUUID } from "node:crypto";
import fs from "node:fs";

import { ClosedBatch } from "./outbox.js";

const HEADER = "clickcurve-spool 1\n";
const MOST_FILES = 100;
const REWRITE_FROM_BYTES = 1024 * 1024;
const REWRITE_FACTOR = 4;

export class Spool {
  #handle = null;
  #bytes = 0;
  #rewriteAt = REWRITE_FROM_BYTES;
  #turn = Promise.resolve();

  /** Opens the first free file and takes over what dead processes left. Throws for a file of something else. */
  static async open(path) {
    const own = files(path).find(isTaken);
    if (own === undefined) throw new Error(`${path} and its ${MOST_FILES - 1} numbered files are in use by other processes`);
    const spool = new Spool();
    spool.path = own;
    spool.broken = "";
    spool.found = recovered(own);
    await spool.#replace(recordsOf(spool.found));
    for (const other of files(path)) {
      if (other === own || !fs.existsSync(other) || !isTaken(other)) continue;
      const known = new Set(spool.found.map((batch) => batch.id)); // a kill right here leaves a batch in both files
      spool.found.push(...recovered(other).filter((batch) => !known.has(batch.id)));
      await spool.#replace(recordsOf(spool.found));
      fs.unlinkSync(other);
      fs.unlinkSync(`${other}.pid`);
    }
    return spool;
  }

  /** Writes down what is to be written next. What cannot be written is written later, as a snapshot. */
  append(outbox) {
    const written = this.#turn.then(() => this.#append(outbox));
    this.#turn = written;
    return written;
  }

  async #append(outbox) {
    const records = this.broken || this.#bytes > this.#rewriteAt ? null : outbox.takeRecords();
    try {
      if (records === null) await this.#replace(outbox.snapshot());
      else if (records.length) await this.#put(this.#handle, records.join(""));
      this.broken = "";
    } catch (error) {
      this.broken = error.message;
      // With a part of what happened in it, hits could count twice.
      await this.#handle.truncate(HEADER.length).catch((again) => (this.broken = again.message));
    }
  }

  async close(isEmpty) {
    await this.#turn;
    await this.#handle.close();
    if (isEmpty) fs.rmSync(this.path, { force: true });
    fs.rmSync(`${this.path}.pid`, { force: true });
  }

  async #replace(records) {
    const beside = `${this.path}.new`;
    const handle = await fs.promises.open(beside, "w", 0o600);
    const before = this.#bytes;
    this.#bytes = 0;
    try {
      await this.#put(handle, HEADER + records.join(""));
      await fs.promises.rename(beside, this.path);
    } catch (error) {
      this.#bytes = before;
      await handle.close();
      throw error;
    }
    await this.#handle?.close();
    this.#handle = handle;
    this.#rewriteAt = Math.max(REWRITE_FROM_BYTES, REWRITE_FACTOR * this.#bytes);
  }

  async #put(handle, text) {
    await handle.appendFile(text);
    this.#bytes += Buffer.byteLength(text);
  }
}

const recordsOf = (batches) => batches.flatMap((batch) => batch.records());

function files(path) {
  return [path, ...Array.from({ length: MOST_FILES - 1 }, (_, number) => `${path}.${number + 1}`)];
}

// --- which process holds a file -----------------------------------------------------------------------------------------
/** Puts this process's name on a file, unless a living one's is there. */
function isTaken(path) {
  const name = `${path}.pid`;
  for (;;) {
    try {
      fs.writeFileSync(name, identity(process.pid), { flag: "wx", mode: 0o600 });
      return true;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const holder = textOf(name);
    if (holder === null) continue; // it has just gone
    const pid = Number.parseInt(holder, 10);
    if (holder === "" || (Number.isInteger(pid) && identity(pid) === holder)) return false;
    // Aside first: of two that find the same dead holder, one gets it.
    const aside = `${name}.${randomUUID()}`;
    try {
      fs.renameSync(name, aside);
    } catch (error) {
      if (error.code === "ENOENT") continue;
      throw error;
    }
    const moved = textOf(aside);
    fs.unlinkSync(aside);
    if (moved !== holder) {
      fs.writeFileSync(name, moved, { flag: "wx", mode: 0o600 });
      return false;
    }
  }
}

/** A process's number, and where the system tells it, when it began: numbers are used again. "" if it does not live. */
function identity(pid) {
  const told = textOf(`/proc/${pid}/stat`);
  if (told !== null) return `${pid} ${told.slice(told.lastIndexOf(")")).split(" ")[20]}`;
  if (fs.existsSync("/proc/self/stat")) return "";
  try {
    process.kill(pid, 0);
    return `${pid}`;
  } catch (error) {
    return error.code === "EPERM" ? `${pid}` : "";
  }
}

function textOf(path) {
  try {
    return fs.readFileSync(path, "utf8");
  } catch (error) {
    if (error.code === "ENOENT" || error.code === "ESRCH") return null;
    throw error;
  }
}

// --- what a file holds --------------------------------------------------------------------------------------------------
/** Reads what is not answered. What was open becomes a batch, whose id is written down before all else. */
function recovered(path) {
  const text = textOf(path);
  if (text === null || HEADER.startsWith(text)) return [];
  if (!text.startsWith(HEADER)) throw new Error(`${path} is not a spool file: it does not begin with ${HEADER.trim()}`);
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  let batches, last;
  try {
    ({ batches, last } = readRecords(whole.slice(HEADER.length)));
  } catch (error) {
    // No kill does this, a lost disk may.
    fs.renameSync(path, `${path}.damaged`);
    console.warn(`clickcurve: ${error.message}; the file is kept as ${path}.damaged, and its hits are not sent`);
    return [];
  }
  if (last.length > 0) {
    const batch = new ClosedBatch(randomUUID(), last);
    fs.truncateSync(path, Buffer.byteLength(whole));
    fs.appendFileSync(path, `=${batch.id}\n`);
    batches.push(batch);
  }
  return batches;
}

/** The batches that are not answered, and the lines that are in none yet. */
export function readRecords(text) {
  const batches = new Map();
  let last = new Map();
  for (const [number, record] of text.split("\n").slice(0, -1).entries()) {
    const rest = record.slice(1);
    const line = "+*".includes(record[0]) && /^(\d+) (\d+) (.*)$/.exec(rest);
    if (line) {
      const [, count, minute, said] = line;
      const single = record[0] === "*";
      const name = `${minute} ${said}${single ? number : ""}`;
      const known = last.get(name) ?? { minute: Number(minute), said, secret: "", single, count: 0 };
      known.count += Number(count);
      last.set(name, known);
    } else if (record[0] === "=") {
      batches.set(rest, new ClosedBatch(rest, [...last.values()]));
      last = new Map();
    } else if (record[0] === "?") {
      const [id, at] = rest.split(" ");
      batches.get(id).doubtAt = Number(at);
    } else if (record[0] === "!") {
      batches.get(rest).doubtAt = null;
    } else if (record[0] === "-" && batches.delete(rest)) {
      continue;
    } else {
      throw new Error(`record ${number + 1} of a spool file cannot be read: ${record}`);
    }
  }
  return { batches: [...batches.values()], last: [...last.values()] };
}
