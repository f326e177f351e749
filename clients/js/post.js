// One try to send a batch, and what its answer means.

// Statuses that say that this body is never taken; all others may change: a token is made, a proxy comes back.
const NEVER = new Set([400, 413, 415, 422]);
const CERTAIN = new Set([429, 503]);
const NOT_CONNECTED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
const SUMS = ["counted", "duplicate", "refused"];

/**
 * @typedef {object} Tried
 * @property {boolean} done it is answered; else it is tried again
 * @property {string} why
 * @property {number} taken
 * @property {boolean} certain nothing of it was counted
 * @property {number | null} pauseMs what the server asks to wait
 */

/** @returns {Tried} */
const tried = (done, why, taken = 0, certain = true, pauseMs = null) => ({ done, why, taken, certain, pauseMs });

/** @returns {Promise<Tried>} */
export async function post(fetch, url, token, id, body, signal, now) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": id };
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer, text;
  try {
    answer = await fetch(url, { method: "POST", headers, body, signal, redirect: "manual" });
    text = await answer.text();
  } catch (error) {
    const code = error?.cause?.code ?? "";
    return tried(false, `no answer: ${error?.cause?.message || error?.message || error}`, 0, NOT_CONNECTED.has(code));
  }
  const { status } = answer;
  const receipt = status === 200 || status === 422 ? receiptIn(text) : null;
  if (receipt !== null) {
    return tried(true, receipt.refused ? `refused: ${reasons(receipt)}` : "", receipt.counted + receipt.duplicate);
  }
  const why = `status ${status}: ${text.slice(0, 200)}`;
  if (NEVER.has(status)) return tried(true, why);
  if (status === 200) return tried(false, "it does not answer as a Clickcurve server does", 0, false);
  return tried(false, why, 0, status < 500 || CERTAIN.has(status), retryAfterMs(answer.headers.get("Retry-After"), now));
}

function receiptIn(text) {
  try {
    const receipt = JSON.parse(text);
    return receipt !== null && SUMS.every((name) => Number.isInteger(receipt[name])) ? receipt : null;
  } catch {
    return null; // not JSON, so no receipt: the caller says so
  }
}

function reasons(receipt) {
  const items = Array.isArray(receipt.items) ? receipt.items : [];
  const refused = items.filter((item) => item?.status === "refused").slice(0, 3);
  return refused.map((item) => `${item.field} ${JSON.stringify(item.value)}: ${item.reason}`).join("; ");
}

function retryAfterMs(text, now) {
  if (text === null) return null;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
