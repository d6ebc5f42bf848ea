// Keywright's client for pages in a browser, which keeps the license in the browser's storage. MIT license.
export * from "./keywright.js";

/** A place to keep what is known in `localStorage`, or another storage, under this name. */
export const browserStore = (name = "keywright-license", storage = globalThis.localStorage) => ({
  read: () => storage.getItem(name),
  write: (text) => storage.setItem(name, text),
});
