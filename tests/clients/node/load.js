// A program that reports hits until it is told to end: `load.js URL SPOOL KEYS`. It prints its counts as lines of JSON.

import { Client } from "../../../clients/js/clickcurve.js";
import { Spool } from "../../../clients/js/spool.js";

const [url, spoolPath, keys] = process.argv.slice(2);
const spool = spoolPath === "-" ? null : await Spool.open(spoolPath);
const clicks = new Client(url, { spool, gatherMs: 0, timeoutMs: 5000 });
let reported = 0;
const say = () => console.log(JSON.stringify({ reported, delivered: clicks.delivered, dropped: clicks.dropped }));
const reporting = setInterval(() => {
  for (let n = 0; n < 20; n++, reported++) clicks.hit(`key-${reported % keys}`, { ip: "203.0.113.7", visitor: "ann" });
}, 1);
const saying = setInterval(say, 20);
process.once("SIGTERM", async () => {
  clearInterval(reporting);
  clearInterval(saying);
  await clicks.flush(60_000);
  await clicks.close();
  say();
});
