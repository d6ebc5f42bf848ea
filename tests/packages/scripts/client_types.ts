// The types of the package for JavaScript, in use.
import { fileStore, Keywright, Refused, type Status } from "keywright-client";
import { browserStore } from "keywright-client/browser";

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
console.log(status.state satisfies string);
