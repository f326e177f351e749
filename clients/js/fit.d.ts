/** What the server takes of a text: as many bytes as it allows of this field, without control characters. */
export declare function fit(name: "ua" | "ref" | "lang" | "source" | "utm", value: string | null | undefined): string;
