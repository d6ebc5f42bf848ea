// Updates for programs in Node.js: what is newer and covered, and its file, which is kept only once its bytes are right.
// One file beside keywright.js, without dependencies, for Node.js 20. MIT license.

import { createHash, createPublicKey, randomBytes, verify as verifySignature } from "node:crypto";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import { arch as thisArch, platform as thisPlatform } from "node:process";
import { basename, join } from "node:path";
import { Refused, Unreachable, VerificationError, encode, followKeySets, openToken } from "./keywright.js";

const TYPE = "keywright-update+jwt", MAX_ANSWER = 2 ** 16;
const PLATFORMS = { win32: "windows", darwin: "macos" }, ARCHS = { x64: "x86_64", arm64: "aarch64", ia32: "i686" };
const REASONS = {
  nonce: "It is an answer of another time.",
  question: "It answers another question.",
  name: "The file has a name that no file may have.",
  url: "The file is at an address that is not one of the web.",
  size: "The file has another size than was announced.",
  sha256: "The bytes of the file are others than were announced.",
  file_signature: "No key that this program trusts has signed the file.",
};

/**
 * Ask what is newer than this program. The answer is signed and bound to this question: an old build cannot be offered
 * as new. Throws Unreachable, Refused and VerificationError.
 */
export async function checkForUpdate({ url, publicKeys, timeout = 10_000, ...asked }) {
  const nonce = randomBytes(16).toString("hex");
  const body = JSON.stringify({
    license_key: asked.licenseKey, update_token: asked.updateToken, fingerprint: asked.fingerprint,
    product: asked.product, app_version: asked.appVersion, channel: asked.channel, by_hand: asked.byHand,
    platform: asked.platform ?? PLATFORMS[thisPlatform] ?? thisPlatform, arch: asked.arch ?? ARCHS[thisArch], nonce,
  });
  const signal = AbortSignal.timeout(timeout), server = url.replace(/\/+$/, "");
  const headers = { Accept: "application/jwt", "Content-Type": "application/json" };
  const text = await send(`${server}/v3/updates`, { method: "POST", body, headers, signal, redirect: "error" });
  return await verifyUpdate(text, { publicKeys, nonce, body }).catch(async (error) => {
    if (error.code !== "header") throw error;
    const sets = JSON.parse(await send(`${server}/v3/signing-keys`, { signal, redirect: "error" })).keys;
    const { keys } = await followKeySets(publicKeys, sets, Date.now() / 1000);
    return await verifyUpdate(text, { publicKeys: keys, nonce, body });
  });
}

/** The claims of a signed answer about updates to this question. Throws VerificationError. */
export async function verifyUpdate(text, { publicKeys, nonce, body }) {
  const claims = await openToken(text.trim(), TYPE, publicKeys);
  const asked = createHash("sha256").update(`keywright-question:updates\n${body}`).digest();
  require(claims.nonce === nonce, "nonce");
  require(claims.asked === encode(asked), "question");
  return claims;
}

/**
 * Download the file of an answer into a folder, and go on where an earlier attempt was cut off; returns its path. With
 * `fileKeys`, the vendor's public keys (Ed25519 or minisign), a signature of one of them is needed.
 *
 * Throws VerificationError (`size`, `sha256`, `file_signature`): nothing is kept then; Unreachable: what came is kept
 * for the next attempt; and Refused.
 */
export async function download(file, folder, { fileKeys = [], onProgress = () => {}, timeout = 600_000 } = {}) {
  const name = basename(file.name.replaceAll("\\", "/"));
  require(name && !name.startsWith("."), "name");
  require(/^https?:\/\//.test(file.url), "url");
  await mkdir(folder, { recursive: true });
  const part = join(folder, `${name}.${file.sha256.slice(0, 16)}.part`);
  try {
    await fetchFile(file, part, onProgress, AbortSignal.timeout(timeout));
    await requireRight(file, part, fileKeys);
  } catch (error) {
    if (error instanceof VerificationError) await rm(part, { force: true });
    throw error;
  }
  const path = join(folder, name);
  await rename(part, path);
  return path;
}

async function fetchFile(file, part, onProgress, signal) {
  let done = await stat(part).then((found) => found.size, () => 0);
  if (done >= file.size) return;
  const headers = done ? { Range: `bytes=${done}-`, "If-Range": `"${file.sha256}"` } : {};
  try {
    const answer = await fetch(file.url, { headers, signal });
    if (!answer.ok) throw new Refused("The download is refused.", "download_refused");
    if (answer.status !== 206) done = 0;
    const opened = await open(part, done ? "a" : "w");
    try {
      for await (const piece of answer.body) {
        await opened.write(piece);
        done += piece.length;
        onProgress(done, file.size);
        if (done > file.size) break;
      }
    } finally {
      await opened.close();
    }
  } catch (error) {
    throw error instanceof Refused ? error : new Unreachable("The download was cut off.", "unreachable");
  }
  if (done < file.size) throw new Unreachable("The download was cut off.", "unreachable");
}

async function requireRight(file, part, fileKeys) {
  require((await stat(part)).size === file.size, "size");
  const [sha256, prehash] = await digest(part, "sha256", "blake2b512");
  require(sha256.toString("hex") === file.sha256, "sha256");
  if (!fileKeys.length) return;
  const found = await Promise.all(fileKeys.map((key) => isOf(key, file.signature ?? "", part, prehash)));
  require(found.includes(true), "file_signature");
}

async function digest(part, ...names) {
  const hashes = names.map((name) => createHash(name)), opened = await open(part);
  for await (const piece of opened.createReadStream()) hashes.forEach((hash) => hash.update(piece));
  return hashes.map((hash) => hash.digest());
}

/** Whether a key has made a signature of these bytes: base64 of Ed25519, or what minisign writes. */
async function isOf(key, signature, part, prehash) {
  const publicKey = Buffer.from(key, "base64");
  let lines = signature.trim().split("\n");
  if (lines[0].startsWith("dW50cnVzdGVk")) lines = `${Buffer.from(lines.join(""), "base64")}`.trim().split("\n");
  const bare = Buffer.from(lines.find((line) => !line.startsWith("untrusted comment:")) ?? "", "base64");
  if (bare.length === 64) return holds(publicKey, await readWhole(part), bare);
  const kind = bare.subarray(0, 2).toString("latin1");
  const isOther = publicKey.length === 42 && !bare.subarray(2, 10).equals(publicKey.subarray(2, 10));
  if (bare.length !== 74 || !["Ed", "ED"].includes(kind) || isOther) return false;
  return holds(publicKey, kind === "ED" ? prehash : await readWhole(part), bare.subarray(10));
}

async function readWhole(part) {
  const opened = await open(part);
  try {
    return await opened.readFile();
  } finally {
    await opened.close();
  }
}

function holds(publicKey, content, signature) {
  try {
    const x = publicKey.subarray(-32).toString("base64url");
    return verifySignature(null, content, createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" }), signature);
  } catch {
    return false;
  }
}

async function send(url, options) {
  const answer = await fetch(url, options).catch(() => {
    throw new Unreachable("The license server cannot be reached.", "unreachable");
  });
  const text = await answer.text().catch(() => "");
  if (answer.ok && text.length <= MAX_ANSWER) return text;
  if (answer.status >= 400 && answer.status < 500) throw new Refused("The license server refused it.", "refused");
  throw new Unreachable(`The license server answers with status ${answer.status}.`, "unreachable");
}

function require(condition, code) {
  if (!condition) throw new VerificationError(REASONS[code], code);
}
