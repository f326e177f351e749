// Hits that are accepted and not confirmed yet, in memory that is bounded.
//
// Hits that say the same in the same minute are one line with a count. The open lines are closed into a batch that has an
// id, and whatever becomes of a try, the same lines go out again under the same id: so each counts once.

export const FULL = "the buffer is full";
export const REFUSED = "refused by the server";
export const CLOSED = "the client is closed";

const BATCH_LINES = 1000;
const BATCH_CHARACTERS = 256 * 1024; // below the 1 MiB of a body that nginx lets through by default
const LINE_BYTES = 500; // what a line takes in memory beside its text
export const MOST_COUNTS = 1_000_000_000; // of one hit, by the server's rule

const sizeOf = (line) => line.said.length + line.secret.length + LINE_BYTES;

/** The record of a line in a spool file: without what names a person. */
export function recordOf(line) {
  return `${line.single ? "*" : "+"}${line.count} ${line.minute} ${line.said}\n`;
}

/** Lines that are sent together under one id, until they are answered. doubtAt: when a try began that may count. */
export class ClosedBatch {
  constructor(id, lines, doubtAt = null) {
    this.id = id;
    this.lines = lines;
    this.doubtAt = doubtAt;
    this.hits = lines.reduce((sum, line) => sum + line.count, 0);
    this.size = lines.reduce((sum, line) => sum + sizeOf(line), 0);
  }

  body() {
    const texts = this.lines.map((l) => `{${l.said}${l.secret},"ts":${l.minute},"count":${l.count}}`);
    return `[${texts.join(",")}]`;
  }

  records() {
    const known = this.doubtAt === null ? [] : [`?${this.id} ${Math.floor(this.doubtAt)}\n`];
    return [...this.lines.map(recordOf), `=${this.id}\n`, ...known];
  }
}

export class Outbox {
  #maxBytes;
  #open = new Map();
  #openCharacters = 0;
  #bytes = 0;
  #singles = 0;
  #records = null;
  #recordCharacters = 0;

  constructor(maxBytes) {
    this.#maxBytes = maxBytes;
    this.closed = [];
    this.accepted = 0;
    this.answered = 0;
    this.delivered = 0;
    this.adjusted = 0;
    this.dropped = new Map();
  }

  /** Keeps records for a spool file from now on, and puts the batches that it held in front. */
  spoolTo(found) {
    this.#records = [];
    this.closed.unshift(...found);
    for (const batch of found) {
      this.#bytes += batch.size;
      this.accepted += batch.hits;
    }
  }

  get isEmpty() {
    return this.#open.size === 0 && this.closed.length === 0;
  }

  get waiting() {
    return this.accepted - this.answered;
  }

  drop(reason, count) {
    this.dropped.set(reason, (this.dropped.get(reason) ?? 0) + count);
  }

  /** Takes hits; returns whether a batch is full, and undefined where there is no room. */
  add(minute, said, secret, count, single) {
    const name = `${minute} ${said}${secret}${single ? ++this.#singles : ""}`;
    let line = this.#open.get(name);
    if (line !== undefined && line.count + count > MOST_COUNTS) {
      this.closeBatch();
      line = undefined;
    }
    if (line === undefined) {
      line = { minute, said, secret, single, count: 0 };
      if (this.#bytes + sizeOf(line) > this.#maxBytes) {
        this.drop(FULL, count);
        return undefined;
      }
      this.#open.set(name, line);
      this.#bytes += sizeOf(line);
      this.#openCharacters += said.length + secret.length;
    }
    line.count += count;
    this.accepted += count;
    this.record(recordOf({ ...line, count }));
    if (this.#open.size < BATCH_LINES && this.#openCharacters < BATCH_CHARACTERS) return false;
    this.closeBatch();
    return true;
  }

  closeBatch() {
    if (this.#open.size === 0) return;
    const batch = new ClosedBatch(globalThis.crypto.randomUUID(), [...this.#open.values()]);
    this.closed.push(batch);
    this.#open = new Map();
    this.#openCharacters = 0;
    this.record(`=${batch.id}\n`);
  }

  /** Takes the first batch out: it was answered, or is given up. */
  answer(batch, delivered, dropped, reason) {
    if (this.closed[0] !== batch) return; // the client ended without it
    this.closed.shift();
    this.#bytes -= batch.size;
    this.answered += batch.hits;
    this.delivered += delivered;
    if (dropped > 0) this.drop(reason, dropped);
    this.record(`-${batch.id}\n`);
  }

  /** Notes that from now on the batch may have been counted; false if it may have been before. */
  beginTry(batch, now) {
    if (batch.doubtAt !== null) return false;
    batch.doubtAt = now;
    this.record(`?${batch.id} ${Math.floor(now)}\n`);
    return true;
  }

  /** Notes that no try was counted, for certain. */
  notCounted(batch) {
    batch.doubtAt = null;
    this.record(`!${batch.id}\n`);
  }

  /** Drops all that was not answered. */
  abandon(reason) {
    const left = this.waiting;
    this.closed = [];
    this.#open = new Map();
    this.answered = this.accepted;
    if (left > 0) this.drop(reason, left);
    return left;
  }

  // --- for a spool file -----------------------------------------------------------------------------------------
  record(text) {
    if (this.#records === null) return;
    this.#recordCharacters += text.length;
    if (this.#recordCharacters > this.#maxBytes) this.#records.length = 0; // a snapshot is shorter
    this.#records.push(text);
  }

  get hasRecords() {
    return this.#records !== null && this.#records.length > 0;
  }

  /** What is to be written next; null if that was too much, and a snapshot must be written instead. */
  takeRecords() {
    if (this.#recordCharacters > this.#maxBytes) return null;
    const records = this.#records;
    this.#records = [];
    this.#recordCharacters = 0;
    return records;
  }

  /** Records of all that is not answered yet, which stand for all that was to be written. */
  snapshot() {
    this.#records = [];
    this.#recordCharacters = 0;
    return [...this.closed.flatMap((batch) => batch.records()), ...[...this.#open.values()].map(recordOf)];
  }
}
