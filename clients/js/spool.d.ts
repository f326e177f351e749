/** A file that keeps hits until the server has confirmed them. For Node. */
export declare class Spool {
  private constructor();
  /** Opens FILE, or the first free one of FILE.1, FILE.2, ...; throws if it is a file of something else. */
  static open(path: string): Promise<Spool>;
  readonly path: string;
}
