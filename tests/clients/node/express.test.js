// Middleware: which answers are hits, and what is said of them. With Express itself, as Debian packages it.

import assert from "node:assert/strict";
import http from "node:http";
import { createRequire } from "node:module";
import { once } from "node:events";
import { test } from "node:test";

import { countRedirects, redirectCounter } from "../../../clients/js/express.js";
import { decodedOnce } from "../../../clients/js/request.js";

const express = createRequire(import.meta.url)("express"); // on NODE_PATH
const BROWSER = { "User-Agent": "Mozilla/5.0", Referer: "https://news.example/a", "Accept-Language": "de-AT" };

/** The hits that an application reports for these requests. */
async function reported(options, requests, { proxied = false } = {}) {
  const hits = [];
  const app = express();
  app.set("trust proxy", proxied);
  app.use(countRedirects({ hit: (key, fields) => hits.push({ key, ...fields }) }, options));
  app.get(/.*/, (request, response) => response.redirect(Number(request.query.status ?? 302), "https://example.org/"));
  app.post(/.*/, (request, response) => response.redirect(303, "https://example.org/"));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  for (const [path, method = "GET", headers = {}] of requests) {
    const asked = http.request({ port: server.address().port, path, method, headers: { ...BROWSER, ...headers } });
    asked.end();
    const [answer] = await once(asked, "response");
    answer.resume();
    await once(answer, "end");
  }
  server.close();
  return hits;
}

test("a redirect is a hit with what the browser says", async () => {
  const [hit] = await reported({}, [["/launch?utm_source=mail&utm_medium=&source=qr&x=1"]]);
  assert.deepEqual(hit, {
    key: "launch",
    ua: "Mozilla/5.0",
    ref: "https://news.example/a",
    lang: "de-AT",
    ip: "127.0.0.1",
    source: "qr",
    utm: { source: "mail" },
  });
});

test("a key is the path, decoded once, of a GET that is redirected", async () => {
  const odd = ["/%6caunch", "/%252F%F0%9F%9A%80", "/caf%e9%", "/%ed%a0%80%F0%9F"];
  assert.deepEqual(odd.map((path) => decodedOnce(path)), ["/launch", "/%2F🚀", "/caf%E9%", "/%ED%A0%80%F0%9F"]);
  const paths = ["/a%2Fb", "/a/b", "/caf%C3%A9?x", "/", "/x?status=301", "/x?status=304", "/x?status=404"];
  const hits = await reported({}, [...paths.map((path) => [path]), ["/x", "POST"], ["/x", "HEAD"]]);
  assert.deepEqual(hits.map((hit) => hit.key), ["a/b", "a/b", "café", "x"]);
});

test("a browser that fetches ahead is no person", async () => {
  const ahead = [["Sec-Purpose", "prefetch;prerender"], ["Purpose", "prefetch"], ["X-Purpose", "preview"], ["X-Moz", "Prefetch"]];
  const asked = [...ahead, ["X-Moz", "other"]].map(([name, value]) => ["/launch", "GET", { [name]: value }]);
  assert.deepEqual((await reported({}, asked)).map((hit) => hit.bot), [true, true, true, true, undefined]);
});

test("what counts and what is said can be chosen", async () => {
  const options = { statuses: [404], prefix: "/r/", fields: ["ref"] };
  const paths = ["/r/launch?status=404&utm_source=x", "/launch?status=404", "/r/launch", "/r/?status=404"];
  const hits = await reported(options, paths.map((path) => [path]));
  assert.deepEqual(hits, [{ key: "launch", ref: "https://news.example/a" }]);
  assert.throws(() => redirectCounter({}, { fields: ["shoe"] }), /shoe/);
});

test("an address is that of Express: a proxy's word only where it is trusted", async () => {
  const request = ["/launch", "GET", { "X-Forwarded-For": "198.51.100.1" }];
  assert.equal((await reported({}, [request]))[0].ip, "127.0.0.1");
  assert.equal((await reported({}, [request], { proxied: true }))[0].ip, "198.51.100.1");
});

test("words are made fit for the server", async () => {
  const query = `source=${"q".repeat(200)}&utm_source=a%0Ab&utm_campaign=${encodeURIComponent("ä".repeat(1500))}`;
  const headers = { Referer: Buffer.from(`https://x.example/${"Ä".repeat(1500)}`).toString("latin1") };
  const [hit] = await reported({}, [[`/launch?${query}`, "GET", headers]]);
  assert.equal(hit.source, "q".repeat(62));
  assert.equal(hit.utm.source, "a b");
  for (const text of [hit.ref, hit.utm.campaign]) {
    assert.ok(Buffer.byteLength(text) <= 2048);
    assert.doesNotMatch(text, /[\u0000-\u001f\u007f-\u009f]/);
  }
  assert.ok(hit.ref.startsWith("https://x.example/Ä"));
});
