// A shortener at the edge: answers 302 at once and reports the hit in the time that the platform gives after the answer.
// For Cloudflare Workers and platforms like it: LINKS is a key-value store, CLICKCURVE_URL and CLICKCURVE_TOKEN are settings.

import { Client } from "../../clients/js/clickcurve.js";
import { fit } from "../../clients/js/fit.js";
import { decodedOnce, isAhead } from "../../clients/js/request.js";

const REPORT_WITHIN_MS = 20_000; // a worker may go on for some 30 s after its answer

export default {
  async fetch(request, env, context) {
    // The path without its slash, decoded once, as Clickcurve's own import of logs has it.
    const key = decodedOnce(new URL(request.url).pathname.slice(1));
    const target = key === "" ? null : await env.LINKS.get(key);
    if (target === null) return new Response("no such link\n", { status: 404 });
    if (request.method === "GET") context.waitUntil(report(key, request, env));
    return new Response(null, { status: 302, headers: { Location: target, "Cache-Control": "no-store" } });
  },
};

/** One client a request: a worker may not finish in one request what it began in another. */
async function report(key, request, env) {
  const clicks = new Client(env.CLICKCURVE_URL, { token: env.CLICKCURVE_TOKEN, gatherMs: 0 });
  const header = (name) => request.headers.get(name);
  const country = request.cf?.country ?? ""; // also XX, not known, and T1, a way through Tor
  clicks.hit(key, {
    ua: fit("ua", header("User-Agent")),
    ref: fit("ref", header("Referer")),
    lang: fit("lang", header("Accept-Language")),
    ip: header("CF-Connecting-IP"),
    country: /^(?!XX)[A-Z]{2}$/.test(country) ? country : null,
    bot: isAhead(header) || null,
  });
  await clicks.close(REPORT_WITHIN_MS);
}
