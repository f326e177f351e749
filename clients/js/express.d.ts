import type { Client } from "./clickcurve.js";

export interface RedirectOptions {
  /** Statuses of the answers that count; redirects if left out. */
  statuses?: readonly number[];
  /** Of the paths that count; it is not part of the key. */
  prefix?: string;
  /** What is said of a visitor beside the key. */
  fields?: readonly ("ua" | "ref" | "lang" | "ip" | "source" | "utm")[];
}

/** A request and an answer as Node's http module has them; Express's are such. */
export interface NodeRequest {
  method?: string;
  url?: string;
  headers: Record<string, string | string[] | undefined>;
}
export interface NodeResponse {
  statusCode: number;
  on(event: "finish", listener: () => void): unknown;
}

export declare function countRedirects(
  clicks: Pick<Client, "hit">,
  options?: RedirectOptions,
): (request: NodeRequest, response: NodeResponse, next: () => void) => void;

export declare function redirectCounter(
  clicks: Pick<Client, "hit">,
  options?: RedirectOptions,
): (request: NodeRequest, response: Pick<NodeResponse, "statusCode">) => void;
