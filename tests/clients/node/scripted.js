// A server that answers posts of hits as a test says: well, badly, never, or not at all.

import http from "node:http";
import { once } from "node:events";

export const NO_ANSWER = { status: 0 };
export const NEVER = { status: -1 };
export const busy = (seconds) => ({ status: 503, body: "{}", headers: { "Retry-After": String(seconds) } });

export const sum = (hits) => hits.reduce((total, hit) => total + hit.count, 0);

/** Gives the next reply of `script` to each post, and counts once the script is over. */
export async function scripted(script, use) {
  const posts = [];
  const server = http.createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const hits = JSON.parse(Buffer.concat(pieces).toString());
    posts.push({ path: request.url, id: request.headers["idempotency-key"], headers: request.headers, hits });
    server.emit("post");
    const reply = script.shift() ?? { status: 200 };
    if (reply.status === 0) return request.socket.destroy();
    if (reply.status < 0) return undefined;
    const receipt = { counted: sum(hits), duplicate: 0, late: 0, refused: 0, items: [] };
    response.writeHead(reply.status, reply.headers ?? {});
    return response.end(reply.body ?? JSON.stringify(receipt));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const arrived = async (count) => {
    while (posts.length < count) await once(server, "post");
    return posts;
  };
  try {
    return await use({ url: `http://127.0.0.1:${server.address().port}`, posts, arrived, script });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
