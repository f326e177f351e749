// What a request says of itself: the key that its path names, and whether anybody has clicked.

const ESCAPES = /(?:%[0-9a-f]{2})+/gi;
const AHEAD_HEADERS = ["sec-purpose", "purpose", "x-purpose", "x-moz"];
const AHEAD = /^\s*(?:prefetch|prerender|preview)\b/i;
const LONGEST = 4; // bytes of a character

/** The key that a path names, percent-decoded once. Bytes that are no UTF-8 stay escaped, with capital digits. */
export function decodedOnce(path) {
  return path.replace(ESCAPES, (escapes) => character(escapes) ?? oneByOne(escapes));
}

/** Whether a browser fetches the link before anybody has clicked on it. header: gives one by its name. */
export function isAhead(header) {
  return AHEAD_HEADERS.some((name) => AHEAD.test(header(name) ?? ""));
}

function oneByOne(escapes) {
  let text = "";
  for (let at = 0; at < escapes.length; ) {
    let bytes = 1;
    while (bytes < LONGEST && character(escapes.slice(at, at + 3 * bytes)) === null) bytes += 1;
    const decoded = character(escapes.slice(at, at + 3 * bytes));
    if (decoded === null) bytes = 1;
    text += decoded ?? escapes.slice(at, at + 3).toUpperCase();
    at += 3 * bytes;
  }
  return text;
}

function character(escapes) {
  try {
    return decodeURIComponent(escapes);
  } catch {
    return null;
  }
}
