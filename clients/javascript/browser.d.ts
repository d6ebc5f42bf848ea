import type { Store } from "./keywright.js";

export * from "./keywright.js";

/** A place to keep what is known in `localStorage`, or another storage, under this name. */
export function browserStore(
  name?: string,
  storage?: { getItem(name: string): string | null; setItem(name: string, text: string): void },
): Store;
