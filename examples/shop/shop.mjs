// A shop's webhook and a form in one file: each paid order is a sale of the link that brought it, each form a lead.
//
//     WEBHOOK_SECRET=... CLICKCURVE_URL=http://127.0.0.1:8080 node examples/shop/shop.mjs 9000
//
// The order's number is the id of the event, so a webhook that is sent three times counts once. It is answered with
// success when the server has counted it; until then the shop sends it again.
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { Client } from "../../clients/js/clickcurve.js"; // in a project of yours: "clickcurve-client"

const BODY_BYTES = 64 * 1024;
const WITHIN_MS = 5_000;
const secret = process.env.WEBHOOK_SECRET;
if (!secret) throw new Error("WEBHOOK_SECRET is not set");
const clicks = new Client(process.env.CLICKCURVE_URL ?? "http://127.0.0.1:8080", {
  token: process.env.CLICKCURVE_TOKEN,
  gatherMs: 100,
});

/** Whether the shop has sent a body. */
function isSigned(body, signature) {
  const right = Buffer.from(createHmac("sha256", secret).update(body).digest("hex"));
  const given = Buffer.from(signature ?? "");
  return right.length === given.length && timingSafeEqual(right, given);
}

/** Of an order the link's key, the amount in the smallest unit, and the id under which it counts once; null: no order. */
function order(body) {
  try {
    const { id, total, via } = JSON.parse(body);
    const value = Math.round(Number(total) * 100);
    const isOne = typeof via === "string" && Number.isInteger(id) && Number.isFinite(value);
    return isOne ? { key: via, value, id: `order-${id}` } : null;
  } catch {
    return null;
  }
}

async function sold(body, signature) {
  if (!isSigned(body, signature)) return [401, ""];
  const found = order(body);
  if (found === null) return [400, ""];
  clicks.hit(found.key, { event: "sale", value: found.value, id: found.id });
  return [(await clicks.flush(WITHIN_MS)) ? 204 : 502, ""];
}

function form(via) {
  const shown = via.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
  return `<!DOCTYPE html><meta charset="utf-8"><title>Ask us</title><form method="post">
<input type="hidden" name="via" value="${shown}"><input type="hidden" name="id" value="${randomBytes(8).toString("hex")}">
<input name="name" placeholder="Your name"><button>Send</button></form>`;
}

async function bodyOf(request) {
  const pieces = [];
  let size = 0;
  for await (const piece of request) {
    size += piece.length;
    if (size <= BODY_BYTES) pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

async function answer(request) {
  const { pathname, searchParams } = new URL(request.url, "http://shop.example");
  const body = await bodyOf(request);
  if (request.method === "POST" && pathname === "/webhook") return sold(body, request.headers["x-shop-signature"]);
  if (request.method === "GET" && pathname === "/form") return [200, form(searchParams.get("via") ?? "")];
  if (request.method === "POST" && pathname === "/form") {
    const given = new URLSearchParams(body);
    if (given.get("via") && given.get("id")) {
      const ua = request.headers["user-agent"]; // tells a lead of a bot
      clicks.hit(given.get("via"), { event: "lead", id: `form-${given.get("id")}`, ua });
    }
    return [200, "Thank you."];
  }
  return [404, ""];
}

createServer(async (request, response) => {
  const [status, page] = await answer(request).catch(() => [400, ""]); // its address or body cannot be read
  response.writeHead(status, { "Content-Type": "text/html; charset=utf-8" }).end(page);
}).listen(Number(process.argv[2]), "127.0.0.1");
