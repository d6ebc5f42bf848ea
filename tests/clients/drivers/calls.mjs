// Makes calls with the client for JavaScript; see tests/clients/library.py.
import { readFileSync, writeSync } from "node:fs";
import { fileStore, Keywright } from "../../../clients/javascript/keywright.js";

const [timeout, publicKey, fingerprint] = process.argv.slice(2);
const make = async ({ call, url, file, license_key: licenseKey }) => {
  const began = performance.now();
  const program = { url, publicKeys: [publicKey], product: "editor", fingerprint, timeoutSeconds: Number(timeout) };
  const keywright = new Keywright({ ...program, store: await fileStore(file) });
  const { valid, state, detail } = call === "check" ? await keywright.check() : await keywright.activate(licenseKey);
  return { valid, state, detail, seconds: (performance.now() - began) / 1000 };
};
writeSync(1, JSON.stringify(await Promise.all(JSON.parse(readFileSync(0, "utf8")).map(make))));
// Not exit(): that waits for the look-up of a name.
process.kill(process.pid, "SIGKILL");
