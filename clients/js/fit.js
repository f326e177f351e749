// What a visitor's browser says, made fit for the server, which refuses a hit with a control character in its referrer, say:
// a word may be lost then, never the hit.

const BYTES = { ua: 2048, ref: 2048, lang: 1024, source: 64, utm: 2048 };
const CONTROL = /[\u0000-\u001f\u007f-\u009f\ud800-\udfff]+/gu;

/** What the server takes of a text: as many bytes as it allows of this field, without control characters. */
export function fit(name, value) {
  if (typeof value !== "string") return "";
  // A character that is cut in two becomes U+FFFD, which is longer by two bytes at most.
  const cut = new TextDecoder().decode(new TextEncoder().encode(value).subarray(0, BYTES[name] - 2));
  return cut.replace(CONTROL, " ").trim();
}
