// Counts the redirects of an Express application, or of any server whose requests and answers are Node's.
//
//     app.use(countRedirects(clicks));
//
// As in `clickcurve import`: a GET that is answered by a redirect is a hit; the key is the path without its first slash and
// without the query, percent-decoded once. A browser that fetches ahead of a click says so: its hit is a bot's. Behind a proxy, set Express's own `trust proxy`: the address is `request.ip`.

import { fit } from "./fit.js";
import { decodedOnce, isAhead } from "./request.js";

const REDIRECTS = [301, 302, 303, 307, 308];
const HEADERS = { ua: "user-agent", ref: "referer", lang: "accept-language" };
const FIELDS = ["ua", "ref", "lang", "ip", "source", "utm"];
export function countRedirects(clicks, options = {}) {
  const count = redirectCounter(clicks, options);
  return (request, response, next) => {
    response.on("finish", () => count(request, response));
    next();
  };
}

/** Makes a function that reports one answered request, if it is a hit. */
export function redirectCounter(clicks, { statuses = REDIRECTS, prefix = "/", fields = FIELDS } = {}) {
  const unknown = fields.filter((name) => !FIELDS.includes(name));
  if (unknown.length) throw new TypeError(`${unknown.join(", ")}: no fields; there are ${FIELDS.join(", ")}`);
  return (request, response) => {
    if (request.method !== "GET" || !statuses.includes(response.statusCode)) return;
    const [path, query = ""] = split(request.originalUrl ?? request.url);
    if (!path.startsWith(prefix) || path.length === prefix.length) return;
    const said = {};
    for (const [name, header] of Object.entries(HEADERS)) said[name] = fit(name, text(request.headers[header]));
    said.ip = request.ip ?? request.socket?.remoteAddress;
    Object.assign(said, campaign(query));
    const kept = Object.entries(said).filter(([name, value]) => value && fields.includes(name));
    if (isAhead((name) => request.headers[name])) kept.push(["bot", true]);
    clicks.hit(decodedOnce(path.slice(prefix.length)), Object.fromEntries(kept));
  };
}

/** A header as its sender meant it: Node reads each byte as a character. */
function text(header) {
  return typeof header === "string" ? Buffer.from(header, "latin1").toString() : "";
}

function split(target) {
  const at = target.indexOf("?");
  return at < 0 ? [target] : [target.slice(0, at), target.slice(at + 1)];
}

/** `source` and `utm` where the query of a link names them. */
function campaign(query) {
  if (!query.includes("=")) return {};
  const given = new URLSearchParams(query);
  const utm = {};
  for (const name of ["source", "medium", "campaign"]) {
    const value = fit("utm", given.get(`utm_${name}`));
    if (value) utm[name] = value;
  }
  const source = fit("source", given.get("source") || given.get("src"));
  return { ...(source && { source }), ...(Object.keys(utm).length && { utm }) };
}
