import type { Spool } from "./spool.js";

/** What a hit may say beside its key; the names are those of POST /v1/hits. */
export interface Fields {
  /** A whole number from 1 to 1,000,000,000; 1 if left out. */
  count?: number;
  /** Epoch seconds or a Date; now if left out. */
  ts?: number | Date | null;
  /** Counts once in 48 hours. */
  id?: string | null;
  bot?: boolean | null;
  ua?: string | null;
  ref?: string | null;
  ip?: string | null;
  country?: string | null;
  lang?: string | null;
  source?: string | null;
  utm?: { source?: string; medium?: string; campaign?: string } | null;
  tags?: Record<string, string> | null;
  visitor?: string | null;
  groups?: readonly string[] | null;
  /** What came of a click, by a name of the server's settings. */
  event?: string | null;
  /** The amount of one event, a whole number of the smallest unit. */
  value?: number | null;
}

export interface Options {
  /** A token with the scope `write`. */
  token?: string;
  /** A file that keeps hits until they are confirmed: `await Spool.open(path)`. */
  spool?: Spool | null;
  /** So long a hit waits for others to travel with; 1,000 if left out. */
  gatherMs?: number;
  /** Of one try; 10,000 if left out. */
  timeoutMs?: number;
  /** Memory for hits that are not confirmed, 32 MiB if left out; beyond it new ones are dropped. */
  maxBytes?: number;
  fetch?: typeof globalThis.fetch;
  now?: () => number;
  log?: (text: string) => void;
}

/** Reports hits in the background. */
export declare class Client {
  constructor(url: string, options?: Options);
  /** Reports hits of a link; returns at once, and never throws for what it is given. */
  hit(key: string, fields?: Fields): void;
  /** Hits that the server has confirmed: it counted them, or had done so by an earlier try. */
  get delivered(): number;
  /** Hits among the delivered ones of which a word was lost: it was cut or left out, as the log says. */
  get adjusted(): number;
  /** Hits that will not be counted, or are not known to be. */
  get dropped(): number;
  get droppedByReason(): Record<string, number>;
  /** Hits that are neither delivered nor dropped yet. */
  get waiting(): number;
  /** Waits until all that was reported before is delivered or dropped; false if that took longer. */
  flush(timeoutMs?: number): Promise<boolean>;
  /** Sends what is left, for so long at most, and ends; whether nothing was left over. */
  close(timeoutMs?: number): Promise<boolean>;
}
