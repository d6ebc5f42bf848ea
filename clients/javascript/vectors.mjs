// Runs the shared vectors: node vectors.mjs ../vectors; prints what differs, and figures.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { followKeySets, stateOf, verify } from "./keywright.js";

const folder = process.argv[2] ?? new URL("../vectors", import.meta.url).pathname;
let cases = 0, wrong = 0, slowest = 0;
for (const file of readdirSync(folder).filter((name) => name.endsWith(".json"))) {
  for (const one of JSON.parse(readFileSync(join(folder, file), "utf8")).cases) {
    const began = performance.now();
    const found = await run(one);
    slowest = Math.max(slowest, performance.now() - began);
    const expected = one.result === "ok" ? `ok ${one.valid} ${one.state}` : one.result;
    cases += 1;
    if (found !== expected) {
      wrong += 1;
      console.log(`${file}: ${one.name}: ${found}, not ${expected}`);
    }
  }
}
console.log(`${cases} cases, ${wrong} wrong, slowest ${slowest.toFixed(1)} ms`);

// A good answer, each bit of it altered.
const [good] = JSON.parse(readFileSync(join(folder, "formats.json"), "utf8")).cases;
let altered = 0, accepted = 0;
for (let bit = 0; bit < good.text.length * 8; bit += 1) {
  const bytes = Buffer.from(good.text);
  bytes[bit >> 3] ^= 1 << (bit & 7);
  altered += 1;
  if ((await run({ ...good, text: bytes.toString("latin1") })).startsWith("ok")) accepted += 1;
}
console.log(`${altered} altered, ${accepted} accepted`);
const start = performance.now();
for (let time = 0; time < 200; time += 1) await run(good);
console.log(`one verification: ${((performance.now() - start) / 200).toFixed(3)} ms`);
process.exitCode = wrong || !cases || accepted ? 1 : 0;

async function run(one) {
  const text = one.pad_to === null ? one.text : one.text + " ".repeat(one.pad_to - Buffer.byteLength(one.text));
  const { keys } = await followKeySets(one.public_keys, one.key_sets, one.now);
  const { issuer, product, fingerprint, built_at: builtAt, nonce, now } = one;
  const program = { publicKeys: keys, issuer, product, builtAt }, { operation, body } = one;
  const expected = { ...program, licenseKey: one.license_key, fingerprint, nonce, operation, body, now };
  try {
    const claims = await verify(text, expected);
    return `ok ${claims.valid} ${stateOf(claims)}`;
  } catch (error) {
    return error.code ?? `${error}`;
  }
}
