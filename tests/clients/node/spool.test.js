// The spool file under Node: what it holds after any kill, with two holders, on a full disk; and files that are none.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";

import { Client } from "../../../clients/js/clickcurve.js";
import { Outbox } from "../../../clients/js/outbox.js";
import { Spool, readRecords } from "../../../clients/js/spool.js";
import { busy, scripted } from "./scripted.js";

const HEADER = "clickcurve-spool 1\n";
const MINUTE = 1_800_000_000;
const WITHIN_MS = 60_000;

const folder = () => fs.mkdtempSync(path.join(os.tmpdir(), "spool-"));
const quiet = { log: () => {}, gatherMs: 0 };

function held(file) {
  const text = fs.readFileSync(file, "utf8");
  assert.ok(text.startsWith(HEADER));
  const { batches, last } = readRecords(text.slice(HEADER.length));
  return [...batches.map((batch) => [batch.id, batch.hits, batch.doubtAt]), last.reduce((n, line) => n + line.count, 0)];
}

async function filled(spool) {
  const box = new Outbox(1 << 20);
  box.spoolTo(spool.found);
  box.add(MINUTE, '"key":"a"', ',"ip":"203.0.113.7"', 2, false);
  box.add(MINUTE, '"key":"a"', "", 1, false);
  box.add(MINUTE, '"key":"a","id":"x"', "", 1, true);
  await spool.append(box);
  return box;
}

test("a file says what happened, without what names a person", async () => {
  const file = path.join(folder(), "spool");
  const spool = await Spool.open(file);
  const box = await filled(spool);
  assert.deepEqual(held(file), [4]);
  box.closeBatch();
  const [batch] = box.closed;
  box.beginTry(batch, MINUTE + 7.5);
  await spool.append(box);
  assert.deepEqual(held(file), [[batch.id, 4, MINUTE + 7], 0]);
  box.notCounted(batch);
  await spool.append(box);
  assert.deepEqual(held(file), [[batch.id, 4, null], 0]);
  box.answer(batch, 4, 0, "");
  await spool.append(box);
  assert.deepEqual(held(file), [0]);
  assert.doesNotMatch(fs.readFileSync(file, "utf8"), /203\.0\.113\.7/);
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  await spool.close(true);
  assert.deepEqual(fs.readdirSync(path.dirname(file)), []);
});

test("a file that is torn anywhere holds all that was whole", async () => {
  const file = path.join(folder(), "spool");
  const spool = await Spool.open(file);
  const box = await filled(spool);
  box.closeBatch();
  box.beginTry(box.closed[0], MINUTE);
  box.add(MINUTE, '"key":"z"', "", 10, false);
  await spool.append(box);
  const whole = fs.readFileSync(file);
  await spool.close(false);
  const sums = new Set();
  for (let size = 0; size <= whole.length; size++) {
    const torn = path.join(folder(), "spool");
    fs.writeFileSync(torn, whole.subarray(0, size));
    const found = await Spool.open(torn);
    sums.add(found.found.reduce((total, batch) => total + batch.hits, 0));
    await found.close(false);
    const again = await Spool.open(torn);
    assert.deepEqual(again.found.map((batch) => batch.id), found.found.map((batch) => batch.id));
    await again.close(false);
  }
  assert.deepEqual([...sums].sort((a, b) => a - b), [0, 2, 3, 4, 14]);
});

test("a file does not grow with what is answered", async () => {
  const file = path.join(folder(), "spool");
  const spool = await Spool.open(file);
  const box = new Outbox(1 << 20);
  box.spoolTo([]);
  let largest = 0;
  for (let n = 0; n < 300; n++) {
    box.add(MINUTE, `"key":"${"x".repeat(10_000)}"`, "", 1, false);
    box.closeBatch();
    box.answer(box.closed[0], 1, 0, "");
    await spool.append(box);
    largest = Math.max(largest, fs.statSync(file).size);
  }
  assert.ok(largest > 1 << 20 && largest < (1 << 20) + 20_000, `${largest}`);
  await spool.close(true);
});

test("a disk that refuses stops nothing, and is made good later", async () => {
  const place = folder();
  const file = path.join(place, "spool");
  const spool = await Spool.open(file);
  const box = new Outbox(600);
  box.spoolTo([]);
  box.add(MINUTE, '"key":"a"', "", 1, false);
  await spool.append(box);
  assert.deepEqual(held(file), [1]);
  fs.mkdirSync(`${file}.new`); // the file can no longer be replaced
  for (let n = 1; n < 60; n++) box.add(MINUTE, '"key":"a"', "", 1, false);
  await spool.append(box);
  assert.notEqual(spool.broken, "");
  assert.deepEqual(held(file), [0], "no part of what happened");
  fs.rmdirSync(`${file}.new`);
  await spool.append(box);
  assert.equal(spool.broken, "");
  assert.deepEqual(held(file), [60]);
  await spool.close(false);
});

test("a snapshot has every batch in order and what is open", async () => {
  const box = new Outbox(1 << 20);
  box.spoolTo([]);
  for (let n = 1; n <= 3; n++) {
    box.add(MINUTE, `"key":"${n}"`, "", n, false);
    box.closeBatch();
  }
  box.beginTry(box.closed[0], MINUTE + 7);
  box.add(MINUTE, '"key":"z"', "", 10, false);
  const { batches, last } = readRecords(box.snapshot().join(""));
  assert.deepEqual(batches.map((batch) => batch.id), box.closed.map((batch) => batch.id));
  assert.deepEqual(batches.map((batch) => [batch.hits, batch.doubtAt]), [[1, MINUTE + 7], [2, null], [3, null]]);
  assert.deepEqual(last.map((line) => line.count), [10]);
});

test("the file says that a batch may have been counted before it is sent", async () => {
  let file = "";
  const spool = {
    path: "nowhere",
    found: [],
    broken: "",
    async append(box) {
      const records = box.takeRecords();
      await new Promise((done) => setImmediate(done)); // a disk takes its time
      file += records.join("");
    },
    async close() {},
  };
  const seen = [];
  const fetch = async () => {
    seen.push(readRecords(file).batches.map((batch) => batch.doubtAt));
    if (seen.length === 1) return new Response("{}", { status: 503, headers: { "Retry-After": "0" } });
    return Response.json({ counted: 1, duplicate: 0, late: 0, refused: 0, items: [] });
  };
  const clicks = new Client("http://127.0.0.1:9", { ...quiet, spool, fetch, now: () => MINUTE * 1000 });
  clicks.hit("launch");
  assert.ok(await clicks.close());
  assert.deepEqual(seen, [[MINUTE], [MINUTE]], "also where the try before was certainly not counted");
});

test("a kill between two files leaves one id for what was open", async () => {
  const file = path.join(folder(), "spool");
  const first = await Spool.open(file);
  const second = await Spool.open(file);
  const box = new Outbox(1000);
  box.spoolTo([]);
  box.add(60, '"key":"a"', "", 5, false);
  await second.append(box);
  await second.close(false);
  await first.close(false);
  const program = `
    import fs from "node:fs";
    import { Spool } from ${JSON.stringify(new URL("../../../clients/js/spool.js", import.meta.url).href)};
    const unlink = fs.unlinkSync;
    fs.unlinkSync = (path) => (path.endsWith("spool.1") ? process.exit(9) : unlink(path));
    await Spool.open(process.argv[1]);`;
  const dying = spawn(process.execPath, ["--input-type=module", "-e", program, file], { stdio: "inherit" });
  assert.deepEqual(await once(dying, "exit"), [9, null]);
  const both = [held(file)[0], held(`${file}.1`)[0]];
  assert.deepEqual(both[0], both[1]);
  const last = await Spool.open(file);
  assert.deepEqual(last.found.map((batch) => batch.hits), [5]);
  await last.close(false);
});

test("two holders name one file and hold two, and a dead one's is taken over", async () => {
  const file = path.join(folder(), "spool");
  const first = await Spool.open(file);
  const program = `
    import { Spool } from ${JSON.stringify(new URL("../../../clients/js/spool.js", import.meta.url).href)};
    import { Outbox } from ${JSON.stringify(new URL("../../../clients/js/outbox.js", import.meta.url).href)};
    const spool = await Spool.open(process.argv[1]);
    const box = new Outbox(1000);
    box.spoolTo([]);
    box.add(60, '"key":"a"', "", 5, false);
    await spool.append(box);
    console.log(spool.path);
    setInterval(() => {}, 1000);`;
  const other = spawn(process.execPath, ["--input-type=module", "-e", program, file]);
  const [printed] = await once(other.stdout, "data");
  assert.equal(printed.toString().trim(), `${file}.1`);
  await first.close(true);
  const second = await Spool.open(file);
  assert.deepEqual([second.path, second.found], [file, []], "nothing of a living one is taken");
  other.kill("SIGKILL");
  await once(other, "exit");
  await second.close(true);
  const third = await Spool.open(file);
  assert.deepEqual(third.found.map((batch) => batch.hits), [5]);
  assert.ok(!fs.existsSync(`${file}.1`));
  await third.close(false);
});

test("a file of something else is left alone, a damaged one is kept aside", async () => {
  const file = path.join(folder(), "notes.txt");
  fs.writeFileSync(file, "dear diary");
  await assert.rejects(Spool.open(file), /is not a spool file/);
  assert.equal(fs.readFileSync(file, "utf8"), "dear diary");
  const damaged = path.join(folder(), "spool");
  fs.writeFileSync(damaged, `${HEADER}+1 x\n`);
  const spool = await Spool.open(damaged);
  assert.deepEqual(spool.found, []);
  assert.equal(fs.readFileSync(`${damaged}.damaged`, "utf8"), `${HEADER}+1 x\n`);
  await spool.close(true);
});

test("what could not be sent is sent by the next life under the same id", () =>
  scripted([busy(3600), busy(3600), busy(3600)], async ({ url, posts, arrived, script }) => {
    const file = path.join(folder(), "spool");
    const clicks = new Client(url, { ...quiet, spool: await Spool.open(file) });
    clicks.hit("launch", { count: 3, visitor: "ann" });
    await arrived(1);
    assert.equal(await clicks.close(0), false);
    assert.deepEqual([clicks.delivered, clicks.dropped, clicks.waiting], [0, 0, 3]);
    script.length = 0;
    const next = new Client(url, { ...quiet, spool: await Spool.open(file) });
    assert.ok(await next.flush(WITHIN_MS));
    assert.equal(next.delivered, 3);
    await next.close();
    const [first, last] = [posts[0], posts.at(-1)];
    assert.equal(first.id, last.id);
    assert.equal(first.hits[0].visitor, "ann");
    delete first.hits[0].visitor;
    assert.deepEqual(first.hits, last.hits);
    assert.deepEqual(fs.readdirSync(path.dirname(file)), []);
  }));
