// Reports the redirects of Kutt to a Clickcurve server, without a change of Kutt's files:
//
//     NODE_OPTIONS="--import /path/to/clickcurve/examples/kutt/clickcurve-kutt.mjs" npm start
//
// Kutt has no plugins. Node itself says of every request when its answer is finished, on the channel
// `http.server.response.finish`; Kutt's links are the paths of one segment that it answers by a redirect to an address
// with a scheme (`/login`, `/404` and its other own pages are named by their paths alone).
//
// CLICKCURVE_URL, CLICKCURVE_TOKEN and CLICKCURVE_SPOOL are the settings; all but the first may be left out.

import { subscribe } from "node:diagnostics_channel";

import { Client } from "../../clients/js/clickcurve.js";
import { redirectCounter } from "../../clients/js/express.js";
import { Spool } from "../../clients/js/spool.js";

const { CLICKCURVE_URL, CLICKCURVE_TOKEN = "", CLICKCURVE_SPOOL } = process.env;

if (CLICKCURVE_URL) {
  const spool = CLICKCURVE_SPOOL ? await Spool.open(CLICKCURVE_SPOOL) : null;
  const clicks = new Client(CLICKCURVE_URL, { token: CLICKCURVE_TOKEN, spool });
  const count = redirectCounter(clicks);
  subscribe("http.server.response.finish", ({ request, response }) => {
    const path = (request.originalUrl ?? request.url).split("?")[0];
    const target = String(response.getHeader("location") ?? "");
    if (path.indexOf("/", 1) < 0 && /^[a-z][a-z0-9+.-]*:/i.test(target)) count(request, response);
  });
  for (const signal of ["SIGTERM", "SIGINT"]) {
    process.once(signal, async () => {
      await clicks.close();
      process.kill(process.pid, signal);
    });
  }
}
