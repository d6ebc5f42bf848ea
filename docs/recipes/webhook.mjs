// Verify a delivery of Keywright (Standard Webhooks), with Node.js alone.
//
// node webhook.mjs SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body

import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** The delivery. Throws for one that is not Keywright's, or is older than five minutes. `body` is a Buffer. */
export function verify(secret, id, timestamp, signature, body) {
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) {
    throw new Error("too old");
  }
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const expected = Buffer.from("v1," + createHmac("sha256", key).update(signed).digest("base64"));
  // While a secret is replaced, there are several signatures.
  const isGood = signature
    .split(" ")
    .map((one) => Buffer.from(one))
    .some((one) => one.length === expected.length && timingSafeEqual(one, expected));
  if (!isGood) throw new Error("not signed with this secret");
  return JSON.parse(body);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [secret, id, timestamp, signature] = process.argv.slice(2);
  try {
    const delivery = verify(secret, id, timestamp, signature, readFileSync(0));
    console.log(delivery.type, delivery.data.license_id);
  } catch (problem) {
    console.error(`refused: ${problem.message}`);
    process.exit(1);
  }
}
