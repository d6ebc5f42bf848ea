// The types of the package for JavaScript, in use.
import { fileStore, Keywright, Refused, type Status } from "keywright-client";
import { browserStore } from "keywright-client/browser";
import { checkForUpdate, download, type Update } from "keywright-client/updates";

const publicKeys = ["eUCpOtsXO3ow0Ga2z9i8SE7Q9NcRZfWNQvKTTQ7A9i4"];
const keywright = new Keywright({ url: "http://127.0.0.1:9", publicKeys, store: await fileStore("license.json") });
const status: Status = await keywright.check();
if (status.state === "limit_reached") await keywright.activate("KEY-1", { remove: status.devices[0]?.id });
export function inPage() {
  const page = new Keywright({ url: "http://127.0.0.1:9", publicKeys, store: browserStore("license") });
  page.lease({ seconds: 60 }).catch((error: unknown) => error instanceof Refused && error.code);
  // @ts-expect-error The vendor's keys are missing.
  return new Keywright({ url: "http://127.0.0.1:9", store: browserStore() });
}
export async function update() {
  const found: Update = await checkForUpdate({ url: "http://127.0.0.1:9", publicKeys, licenseKey: "KEY-1", byHand: true });
  // @ts-expect-error There may be no file.
  await download(found.file, "new");
  const path = found.file && (await download(found.file, "new", { fileKeys: publicKeys, onProgress: (done) => done }));
  return path satisfies string | null;
}
console.log(status.state satisfies string);
