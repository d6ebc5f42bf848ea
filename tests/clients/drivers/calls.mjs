// Makes calls with the client for JavaScript; see tests/clients/library.py.
import { existsSync, readFileSync, writeSync } from "node:fs";
import { fileStore, Keywright } from "../../../clients/javascript/keywright.js";

const [timeout, publicKey, fingerprint] = process.argv.slice(2);
const make = async (one) => {
  const began = performance.now();
  const program = { url: one.url, publicKeys: [publicKey], product: "editor", fingerprint, timeoutSeconds: Number(timeout) };
  const keywright = new Keywright({ ...program, store: await fileStore(one.file) });
  const { valid, state, detail } = await run(keywright, one);
  return { valid, state, detail, seconds: (performance.now() - began) / 1000 };
};
const run = (keywright, one) => {
  if (one.call === "check") return keywright.check();
  if (one.call === "trial") return keywright.startTrial();
  if (one.call === "activate") return keywright.activate(one.license_key);
  if (one.call === "choose") return choose(keywright, one.license_key);
  return lease(keywright, one).catch(({ code, message }) => ({ valid: false, state: code ?? "unreachable", detail: message }));
};
const choose = async (keywright, key) => {
  const full = await keywright.activate(key), [{ id, name }] = full.devices;
  const { valid, state } = await keywright.activate(key, { remove: id });
  return { valid, state: `${full.state} ${state}`, detail: name };
};
const lease = async (keywright, { call, holder, end, license_key: licenseKey }) => {
  const seconds = call === "watch" ? 2 : null;
  const taken = await keywright.lease({ holder: holder || null, seconds, licenseKey: licenseKey || null });
  while (call === "watch" && !existsSync(end)) await new Promise((resolve) => setTimeout(resolve, 5));
  if (call !== "lease") return { valid: taken.isHeld, state: taken.isHeld ? "held" : "lost", detail: "" };
  await taken.renew();
  const status = await keywright.check(), wasHeld = taken.isHeld;
  await taken.release();
  return { ...status, valid: status.valid && wasHeld && !taken.isHeld };
};
writeSync(1, JSON.stringify(await Promise.all(JSON.parse(readFileSync(0, "utf8")).map(make))));
// Not exit(): that waits for the look-up of a name.
process.kill(process.pid, "SIGKILL");
