// Reports hits to a Clickcurve server from a shortener's own code, in the background and each once.
//
//     import { Client } from "clickcurve-client";
//     const clicks = new Client("http://127.0.0.1:8080");
//     clicks.hit("launch", { ref: request.headers.referer });   // returns at once, whatever the server does
//     await clicks.close();
//
// Needs `fetch`, `crypto.randomUUID` and timers, and nothing else: Node 20, Deno, Bun, workers.

import { CLOSED, MOST_COUNTS, Outbox, REFUSED } from "./outbox.js";
import { post } from "./post.js";

const MINUTE_S = 60;
const HIT_CHARACTERS = 16 * 1024;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 30_000;
const LONGEST_ASKED_PAUSE_MS = 600_000;
const LAST_PAUSE_MS = 200; // between tries while the client ends
const SPOOL_PAUSE_MS = 1000; // before a disk that refused is tried again
const SAY_EVERY_MS = 60_000;
// The server knows an id for 48 hours from when it counted. Up to here a repeat cannot count again.
const REPEATABLE_S = 47 * 3600;

const UNDECIDED = "without an answer for so long that a repeat could count twice";
const WRONG_COUNT = `count is not a whole number from 1 to ${MOST_COUNTS}`;
const WRONG_TIME = "ts is not a number of epoch seconds";
const UNENCODABLE = "no hit: its fields are not what JSON can say";
const TOO_LONG = "a hit of more than 16 KiB";

const SAID = ["id", "bot", "ua", "ref", "country", "lang", "source", "utm", "tags", "groups", "event", "value"];
// A person's address, and what names a person, never reach a spool file.
const SECRET = ["ip", "visitor"];

/** The clients that have something to send: a process that is about to end sends it first. */
const busy = new Set();
globalThis.process?.on?.("beforeExit", () => {
  for (const client of busy) void client.close();
});

export class Client {
  #url;
  #options;
  #outbox;
  #spool;
  #running = null;
  #writing = null;
  #wakers = new Set();
  #waiters = new Set();
  #hurry = false;
  #gathered = () => {};
  #ending = false;
  #over = false; // the time to send what is left is up
  #underWay = null;
  #said = new Map();

  constructor(url, options = {}) {
    const { protocol, username } = new URL(url);
    if (!/^https?:$/.test(protocol) || username) {
      throw new TypeError(`${url} is not the address of a server: http:// or https://, a host, perhaps a port and a path`);
    }
    const defaults = { token: "", spool: null, gatherMs: 1000, timeoutMs: 10_000, maxBytes: 32 * 1024 * 1024 };
    const outside = { fetch: (...asked) => globalThis.fetch(...asked), now: Date.now, log: (text) => console.warn(text) };
    this.#options = { ...defaults, ...outside, ...options };
    for (const name of ["timeoutMs", "maxBytes"]) {
      if (!(this.#options[name] > 0)) throw new TypeError(`${name} is not above 0`);
    }
    this.#url = `${url.replace(/\/+$/, "")}/v1/hits`;
    this.#outbox = new Outbox(this.#options.maxBytes);
    this.#spool = this.#options.spool;
    if (this.#spool) {
      this.#outbox.spoolTo(this.#spool.found);
      if (!this.#outbox.isEmpty) this.#start();
    }
  }

  hit(key, fields = {}) {
    const { count = 1, ts = null } = fields;
    if (this.#ending) return this.#outbox.drop(CLOSED, count);
    if (!Number.isInteger(count) || count < 1 || count > MOST_COUNTS) return this.#outbox.drop(WRONG_COUNT, 1);
    const second = Math.floor(ts === null ? this.#options.now() / 1000 : ts instanceof Date ? ts / 1000 : ts);
    if (!Number.isSafeInteger(second)) return this.#outbox.drop(WRONG_TIME, count);
    let said, secret;
    try {
      said = `"key":${encoded(key)}${members(fields, SAID)}`;
      secret = members(fields, SECRET);
    } catch {
      return this.#outbox.drop(UNENCODABLE, count);
    }
    if (said.length + secret.length > HIT_CHARACTERS) return this.#outbox.drop(TOO_LONG, count);
    const minute = second - (second % MINUTE_S);
    const full = this.#outbox.add(minute, said, secret, count, (fields.id ?? null) !== null);
    if (full === undefined) return;
    if (full) this.#gathered();
    this.#start();
  }

  get delivered() {
    return this.#outbox.delivered;
  }

  get adjusted() {
    return this.#outbox.adjusted;
  }

  get dropped() {
    return [...this.#outbox.dropped.values()].reduce((sum, count) => sum + count, 0);
  }

  get droppedByReason() {
    return Object.fromEntries(this.#outbox.dropped);
  }

  get waiting() {
    return this.#outbox.waiting;
  }

  async flush(timeoutMs = 10_000) {
    const wanted = this.#outbox.accepted;
    this.#outbox.closeBatch();
    this.#hurry = true;
    this.#wake();
    return (await this.#answered(wanted, timeoutMs)) || this.#outbox.answered >= wanted;
  }

  async close(timeoutMs = 5_000) {
    this.#outbox.closeBatch();
    if (!this.#ending) {
      this.#ending = true;
      this.#wake();
      if (!(await this.#answered(this.#outbox.accepted, timeoutMs))) {
        this.#over = true;
        this.#underWay?.abort();
      }
      await this.#running;
      await this.#writing;
      await this.#end();
    }
    return this.#outbox.waiting === 0 && !this.#outbox.dropped.has(CLOSED);
  }

  async #end() {
    const left = this.#outbox.waiting;
    if (this.#spool) {
      await this.#spool.close(left === 0);
      if (left) this.#options.log(`clickcurve: ${left} hits could not be reported; they stay in ${this.#spool.path}`);
    } else if (this.#outbox.abandon(CLOSED)) {
      this.#options.log(`clickcurve: ${left} hits could not be reported`);
    }
  }

  // --- sending --------------------------------------------------------------------------------------------------
  #start() {
    busy.add(this);
    this.#running ??= this.#sendAll();
    if (this.#spool) this.#writing ??= this.#writeAll();
  }

  async #sendAll() {
    await null; // the hit that starts it returns first
    while (!this.#outbox.isEmpty && !this.#over) {
      if (this.#outbox.closed.length === 0 && !this.#ending) await this.#gather();
      if (this.#outbox.closed.length === 0) this.#outbox.closeBatch();
      if (!(await this.#deliver(this.#outbox.closed[0]))) break;
      this.#sayDropped();
    }
    this.#running = null;
    busy.delete(this);
  }

  /** Waits for more hits to travel with, until a batch is full. */
  #gather() {
    const full = new Promise((resolve) => (this.#gathered = resolve));
    return Promise.race([full, this.#pause(this.#options.gatherMs, true)]);
  }

  /** Tries until the batch is answered; false if the client ended before. */
  async #deliver(batch) {
    const body = batch.body();
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const now = this.#options.now() / 1000;
      if (batch.doubtAt !== null && now - batch.doubtAt > REPEATABLE_S) {
        this.#settle(batch, 0, UNDECIDED);
        return true;
      }
      const tried = await this.#try(batch, body, now);
      if (tried.done) {
        const taken = Math.min(tried.taken, batch.hits);
        this.#outbox.adjusted += tried.adjusted ?? 0;
        this.#settle(batch, taken, REFUSED);
        await this.#write();
        if (tried.adjusted) {
          this.#say("adjusted", `${tried.adjusted} hits counted without a word of theirs: ${tried.lost}`);
        }
        if (tried.why) this.#say("refused", `${batch.hits - taken} hits were not taken: ${tried.why}`);
        return true;
      }
      this.#say("waits", `${this.#outbox.waiting} hits wait: ${tried.why}`);
      if (this.#over) return false;
      const askedMs = tried.pauseMs === null ? null : Math.min(tried.pauseMs, LONGEST_ASKED_PAUSE_MS);
      const waitMs = askedMs ?? pauseMs * (0.5 + Math.random() / 2);
      await (this.#ending ? this.#pause(LAST_PAUSE_MS, false) : this.#pause(waitMs, askedMs === null));
    }
  }

  async #try(batch, body, now) {
    const first = this.#outbox.beginTry(batch, now);
    await this.#write();
    const { fetch, token, timeoutMs } = this.#options;
    // A controller of its own: signals made by AbortSignal.any and .timeout may be collected before they fire.
    this.#underWay = new AbortController();
    const timer = setTimeout(() => this.#underWay.abort(new Error(`none within ${timeoutMs} ms`)), timeoutMs);
    const tried = await post(fetch, this.#url, token, batch.id, body, this.#underWay.signal, now * 1000);
    clearTimeout(timer);
    this.#underWay = null;
    if (first && !tried.done && tried.certain) this.#outbox.notCounted(batch);
    return tried;
  }

  #settle(batch, taken, reason) {
    this.#outbox.answer(batch, taken, batch.hits - taken, reason);
    for (const waiter of this.#waiters) if (this.#outbox.answered >= waiter.wanted) waiter.resolve(true);
  }

  // --- the spool file -------------------------------------------------------------------------------------------
  async #writeAll() {
    await null;
    while (this.#outbox.hasRecords) {
      await this.#write();
      if (this.#spool.broken) await this.#pause(SPOOL_PAUSE_MS, false);
      if (this.#over) break;
    }
    this.#writing = null;
  }

  async #write() {
    if (!this.#spool) return;
    await this.#spool.append(this.#outbox);
    if (this.#spool.broken) this.#say("spool", `the spool file cannot be written: ${this.#spool.broken}`);
  }

  // --- waiting and saying ---------------------------------------------------------------------------------------
  /** Waits; the end of the client cuts it short, and so does a flush if it may. A timer keeps no process alive. */
  #pause(ms, mayHurry) {
    if (mayHurry && this.#hurry) {
      this.#hurry = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const wake = () => {
        if (!this.#ending && !(mayHurry && this.#hurry)) return;
        this.#hurry = false;
        clearTimeout(timer);
        this.#wakers.delete(wake);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#wakers.delete(wake);
        resolve();
      }, ms);
      if (!this.#ending) {
        timer.unref?.();
        this.#wakers.add(wake);
      }
    });
  }

  #wake() {
    for (const wake of [...this.#wakers]) wake();
  }

  #answered(wanted, timeoutMs) {
    if (this.#outbox.answered >= wanted) return Promise.resolve(true);
    return new Promise((resolve) => {
      const waiter = {
        wanted,
        resolve: (answered) => {
          clearTimeout(timer);
          this.#waiters.delete(waiter);
          resolve(answered);
        },
      };
      const timer = setTimeout(() => waiter.resolve(false), timeoutMs);
      this.#waiters.add(waiter);
    });
  }

  /** Logs, the same at most once a minute. */
  #say(what, text) {
    const now = this.#options.now();
    if (now - (this.#said.get(what) ?? -Infinity) < SAY_EVERY_MS) return;
    this.#said.set(what, now);
    this.#options.log(`clickcurve: ${text}`);
  }

  #sayDropped() {
    const reasons = Object.entries(this.droppedByReason).map(([why, count]) => `${count} (${why})`);
    if (reasons.length) this.#say("dropped", `hits dropped so far: ${reasons.join(", ")}`);
  }
}

function members(fields, names) {
  let text = "";
  for (const name of names) {
    const value = fields[name];
    if (value !== undefined && value !== null) text += `,"${name}":${encoded(value)}`;
  }
  return text;
}

function encoded(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError("not JSON");
  return text;
}
