/** The key that a path names, percent-decoded once. Bytes that are no UTF-8 stay escaped, with capital digits. */
export function decodedOnce(path: string): string;
/** Whether a browser fetches the link before anybody has clicked on it. `header` gives a header by its name. */
export function isAhead(header: (name: string) => string | string[] | null | undefined): boolean;
