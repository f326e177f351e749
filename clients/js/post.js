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
 * @property {number} [adjusted] hits that count and of which a word was lost
 * @property {string} [lost] of the first of these words, why
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
    const why = receipt.refused ? `refused: ${reasons(receipt)}` : "";
    const answered = tried(true, why, receipt.counted + receipt.duplicate);
    if (!Number.isInteger(receipt.adjusted) || receipt.adjusted <= 0) return answered;
    return { ...answered, adjusted: receipt.adjusted, lost: lostWords(receipt) };
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

function firstItems(receipt, status) {
  const items = Array.isArray(receipt.items) ? receipt.items : [];
  return items.filter((item) => item?.status === status).slice(0, 3);
}

function reasons(receipt) {
  const refused = firstItems(receipt, "refused");
  return refused.map((item) => `${item.field} ${JSON.stringify(item.value)}: ${item.reason}`).join("; ");
}

/** Why words were lost, without what they said: that is a visitor's. */
function lostWords(receipt) {
  return [...new Set(firstItems(receipt, "adjusted").map((item) => String(item.reason)))].join("; ");
}

function retryAfterMs(text, now) {
  if (text === null) return null;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
