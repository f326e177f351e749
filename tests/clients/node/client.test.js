// The client under Node: what it sends, keeps and says, whatever its server does.

import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import v8 from "node:v8";
import vm from "node:vm";

import { Client } from "../../../clients/js/clickcurve.js";
import { NEVER, NO_ANSWER, busy, scripted, sum } from "./scripted.js";

const MINUTE = 1_800_000_000;
const WITHIN_MS = 60_000;
const quiet = { log: () => {}, now: () => (MINUTE + 30) * 1000 };

async function freePort() {
  const probe = net.createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.once("listening", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

const SAID = {
  id: "visit-1",
  bot: false,
  ua: "Mozilla/5.0",
  ref: "https://news.example/a",
  country: "AT",
  lang: "de-AT,en;q=0.8",
  source: "qr",
  utm: { source: "news", medium: "mail", campaign: "spring" },
  tags: { channel: "print" },
  groups: ["spring", "print"],
  ip: "203.0.113.7",
  visitor: "v-1",
};

test("every field goes out under its name", () =>
  scripted([], async ({ url, posts }) => {
    const clicks = new Client(`${url}/stats/`, { ...quiet, token: "secret" });
    clicks.hit("launch/ä", SAID);
    assert.ok(await clicks.close(WITHIN_MS));
    assert.deepEqual(posts[0].hits, [{ key: "launch/ä", ...SAID, ts: MINUTE, count: 1 }]);
    assert.equal(posts[0].path, "/stats/v1/hits");
    assert.equal(posts[0].headers.authorization, "Bearer secret");
    assert.deepEqual([clicks.delivered, clicks.dropped, clicks.waiting], [1, 0, 0]);
  }));

test("hits that say the same in a minute are one line, and hits with an id are not", () =>
  scripted([], async ({ url, posts }) => {
    const clicks = new Client(url, quiet);
    for (let n = 0; n < 50; n++) {
      clicks.hit("a");
      clicks.hit("a", { ts: MINUTE - 1 });
      clicks.hit("a", { ts: new Date((MINUTE + 90) * 1000), ref: "https://news.example/" });
    }
    clicks.hit("a", { id: "one" });
    clicks.hit("a", { id: "one" });
    assert.ok(await clicks.flush(WITHIN_MS));
    const lines = posts[0].hits.map((hit) => [hit.ts - MINUTE, hit.count, hit.ref, hit.id]);
    assert.deepEqual(lines, [
      [0, 50, undefined, undefined],
      [-60, 50, undefined, undefined],
      [60, 50, "https://news.example/", undefined],
      [0, 1, undefined, "one"],
      [0, 1, undefined, "one"],
    ]);
    await clicks.close();
  }));

const FAULTS = [
  busy(0),
  { status: 429, body: "{}", headers: { "Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT" } },
  { status: 500, body: "no" },
  { status: 502, body: "" },
  { status: 401, body: "{}" },
  { status: 301, body: "", headers: { Location: "/elsewhere" } },
  { status: 200, body: "<html>Welcome" },
  { status: 200, body: "[]" },
  NO_ANSWER,
];
for (const fault of FAULTS) {
  test(`a batch is tried under the same id after ${fault.status} ${fault.body ?? ""}`, () =>
    scripted([fault, fault], async ({ url, posts }) => {
      const clicks = new Client(url, { ...quiet, gatherMs: 0 });
      clicks.hit("launch", { count: 7 });
      assert.ok(await clicks.flush(WITHIN_MS));
      assert.equal(posts.length, 3);
      assert.equal(new Set(posts.map((post) => post.id)).size, 1);
      assert.deepEqual(posts[2].hits, posts[0].hits);
      assert.deepEqual([clicks.delivered, clicks.dropped], [7, 0]);
      await clicks.close();
    }));
}

for (const status of [400, 413, 415, 422]) {
  test(`a body that is answered ${status} is dropped, and the next one is sent`, () =>
    scripted([{ status, body: '{"title": "no"}' }], async ({ url }) => {
      const clicks = new Client(url, { ...quiet, gatherMs: 0 });
      clicks.hit("launch", { count: 3 });
      assert.ok(await clicks.flush(WITHIN_MS));
      assert.deepEqual(clicks.droppedByReason, { "refused by the server": 3 });
      clicks.hit("next");
      assert.ok(await clicks.flush(WITHIN_MS));
      assert.equal(clicks.delivered, 1);
      await clicks.close();
    }));
}

test("what the server refuses is dropped with its reason", () => {
  const items = [{ index: 0, status: "refused", field: "key", value: "", reason: "key is empty" }];
  const receipt = { counted: 2, duplicate: 1, late: 0, refused: 4, items };
  return scripted([{ status: 200, body: JSON.stringify(receipt) }], async ({ url }) => {
    const said = [];
    const clicks = new Client(url, { ...quiet, log: (text) => said.push(text) });
    clicks.hit("a", { count: 3 });
    clicks.hit("", { count: 4 });
    assert.ok(await clicks.flush(WITHIN_MS));
    assert.deepEqual([clicks.delivered, clicks.dropped], [3, 4]);
    assert.match(said.join("\n"), /key is empty/);
    await clicks.close();
  });
});

test("words that the server cut are counted, and told once a minute", () => {
  const item = { index: 0, status: "adjusted", field: "ref", value: "https://secret.example/", reason: "ref is cut" };
  const receipt = { counted: 2, duplicate: 0, late: 0, refused: 0, items: [item, item], adjusted: 2 };
  const reply = { status: 200, body: JSON.stringify(receipt) };
  return scripted([reply, reply], async ({ url }) => {
    const said = [];
    const clicks = new Client(url, { ...quiet, gatherMs: 0, log: (text) => said.push(text) });
    for (let n = 0; n < 2; n++) {
      clicks.hit("a", { count: 2, ref: "https://secret.example/" });
      assert.ok(await clicks.flush(WITHIN_MS));
    }
    assert.deepEqual([clicks.delivered, clicks.adjusted, clicks.dropped], [4, 4, 0]);
    assert.deepEqual(said, ["clickcurve: 2 hits counted without a word of theirs: ref is cut"]);
    await clicks.close();
  });
});

for (const items of ["1", "null", "[1, null]", '{"a": 1}']) {
  test(`a receipt that is odd ends nothing: ${items}`, () =>
    scripted([{ status: 200, body: `{"counted": 9, "duplicate": 0, "refused": 1, "items": ${items}}` }], async ({ url }) => {
      const clicks = new Client(url, { ...quiet, gatherMs: 0 });
      clicks.hit("launch", { count: 3 });
      assert.ok(await clicks.flush(WITHIN_MS));
      clicks.hit("launch");
      assert.ok(await clicks.close(WITHIN_MS));
      assert.deepEqual([clicks.delivered, clicks.dropped], [4, 0]);
    }));
}

test("the pause that the server asks for is kept, but at the end of the client", () =>
  scripted([busy(3600)], async ({ url, posts, arrived }) => {
    const clicks = new Client(url, { ...quiet, gatherMs: 0 });
    clicks.hit("launch");
    await arrived(1);
    assert.equal(await clicks.flush(300), false);
    assert.deepEqual([posts.length, clicks.waiting], [1, 1]);
    assert.ok(await clicks.close(WITHIN_MS));
    assert.equal(clicks.delivered, 1);
  }));

test("a server that is away blocks no hit, and the end is bounded", async () => {
  const said = [];
  const clicks = new Client(`http://127.0.0.1:${await freePort()}`, { ...quiet, gatherMs: 0, log: (t) => said.push(t) });
  for (let n = 0; n < 10_000; n++) clicks.hit(`key-${n % 10}`);
  assert.equal(await clicks.flush(200), false);
  assert.equal(clicks.waiting, 10_000);
  assert.equal(await clicks.close(200), false);
  assert.deepEqual(clicks.droppedByReason, { "the client is closed": 10_000 });
  assert.match(said.join("\n"), /10000 hits could not be reported/);
});

test("a server that never answers is asked again, under the same id", () =>
  scripted([NEVER, NEVER], async ({ url, posts }) => {
    const clicks = new Client(url, { ...quiet, gatherMs: 0, timeoutMs: 100 });
    clicks.hit("launch");
    assert.ok(await clicks.flush(WITHIN_MS));
    assert.ok(posts.length >= 3);
    assert.deepEqual([new Set(posts.map((post) => post.id)).size, clicks.delivered], [1, 1]);
    await clicks.close();
  }));

test("a server that never answers blocks no end", () =>
  scripted([NEVER], async ({ url, arrived }) => {
    const clicks = new Client(url, { ...quiet, gatherMs: 0 });
    clicks.hit("launch");
    await arrived(1);
    const began = Date.now();
    assert.equal(await clicks.close(100), false);
    assert.ok(Date.now() - began < 5000, "not the ten seconds of a try");
    assert.equal(clicks.dropped, 1);
  }));

test("a try ends in time, also when memory is collected meanwhile", () =>
  scripted([NEVER, NEVER], async ({ url, posts }) => {
    v8.setFlagsFromString("--expose-gc");
    const collecting = setInterval(vm.runInNewContext("gc"), 10);
    const clicks = new Client(url, { ...quiet, gatherMs: 0, timeoutMs: 200 });
    clicks.hit("launch");
    assert.ok(await clicks.flush(WITHIN_MS));
    clearInterval(collecting);
    assert.ok(posts.length >= 3);
    await clicks.close();
  }));

test("memory is bounded, and lines that wait take more hits", async () => {
  const clicks = new Client(`http://127.0.0.1:${await freePort()}`, { ...quiet, maxBytes: 600, gatherMs: WITHIN_MS });
  for (let n = 0; n < 5; n++) {
    clicks.hit("launch");
    clicks.hit("another");
  }
  assert.deepEqual([clicks.waiting, clicks.droppedByReason], [5, { "the buffer is full": 5 }]);
  await clicks.close(0);
});

/** A clock that goes on by some hours, and a fetch that makes it do so before the last of its answers is heard. */
function passing(hours, answers) {
  let now = MINUTE * 1000;
  const waiting = async (...asked) => {
    try {
      return await fetch(...asked);
    } finally {
      if (--answers === 0) now += hours * 3600 * 1000;
    }
  };
  return { fetch: waiting, now: () => now };
}

test("a batch in doubt is given up before a repeat could count twice", () =>
  scripted([NO_ANSWER, busy(0)], async ({ url, posts }) => {
    const clicks = new Client(url, { ...quiet, gatherMs: 0, ...passing(47.01, 2) });
    clicks.hit("launch", { count: 2 });
    assert.ok(await clicks.flush(WITHIN_MS));
    assert.deepEqual([clicks.delivered, clicks.dropped, posts.length], [0, 2, 2]);
    await clicks.close();
  }));

test("a batch that was certainly not counted is never given up", () =>
  scripted([busy(0)], async ({ url, posts }) => {
    const clicks = new Client(url, { ...quiet, gatherMs: 0, ...passing(400, 1) });
    clicks.hit("launch", { count: 2 });
    assert.ok(await clicks.flush(WITHIN_MS));
    assert.deepEqual([clicks.delivered, clicks.dropped, posts.length], [2, 0, 2]);
    await clicks.close();
  }));

test("batches are small enough for a proxy", () =>
  scripted([], async ({ url, posts }) => {
    const clicks = new Client(url, quiet);
    for (let n = 0; n < 3000; n++) clicks.hit(`${n}-${"x".repeat(900)}`);
    assert.ok(await clicks.close(WITHIN_MS));
    assert.ok(Math.max(...posts.map((post) => JSON.stringify(post.hits).length)) < 512 * 1024);
    assert.equal(posts.reduce((total, post) => total + sum(post.hits), 0), 3000);
  }));

const WRONG = [{ count: 0 }, { count: 1.5 }, { count: "1" }, { count: 1_000_000_001 }, { ts: "today" }, { ts: NaN }];
for (const fields of [...WRONG, { ref: 7n }, { ref: "x".repeat(20_000) }]) {
  test(`a hit that is none is dropped and throws nothing: ${Object.keys(fields)} ${String(Object.values(fields)).slice(0, 9)}`, () =>
    scripted([], async ({ url }) => {
      const clicks = new Client(url, quiet);
      clicks.hit("launch", fields);
      assert.equal(clicks.dropped, 1);
      clicks.hit("launch");
      assert.ok(await clicks.close(WITHIN_MS));
      assert.equal(clicks.delivered, 1);
      clicks.hit("launch");
      assert.equal(clicks.dropped, 2);
    }));
}

test("a wrong address or bound is refused at once", () => {
  for (const url of ["127.0.0.1:8080", "ftp://host/", "http://", ""]) assert.throws(() => new Client(url), TypeError);
  assert.throws(() => new Client("http://127.0.0.1:9", { timeoutMs: 0 }), /timeoutMs/);
});
