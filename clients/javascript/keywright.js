// Keywright's client for JavaScript: activate, validate with signed answers, verify, and keep.
// One file without dependencies, for Node.js 20 and browsers with Ed25519 in Web Crypto. MIT license.

/** In seconds: how far a server's clock may be ahead of ours, and ours may move back. */
const TOLERANCE = 300, MAX_BYTES = 65_536;
const LICENSE = "keywright-license+jwt", KEYS = "keywright-keys+jwt";
const BEGIN = "-----BEGIN KEYWRIGHT LICENSE-----", END = "-----END KEYWRIGHT LICENSE-----";
const STATES = {
  disabled: "disabled", inactive: "disabled", expired: "expired", version_not_covered: "expired",
  limit_reached: "limit_reached", too_many_new_devices: "limit_reached", lease_lost: "limit_reached",
};
/** What a kept answer means that breaks a rule: it was copied, or made for another program; else it was altered. */
const FOREIGN = {
  device: "not_activated", license_key: "not_activated", audience: "not_activated", issuer: "not_activated",
  build: "unreachable_too_long",
};

class KeywrightError extends Error {
  constructor(message, code = null) {
    super(message);
    this.code = code;
  }
}
/** A signed answer or a license file that must not be believed; `code` says which rule it breaks. */
export class VerificationError extends KeywrightError {}
/** The server gave no answer that can be used. */
export class Unreachable extends KeywrightError {}
/** The server refused a change; `code` is its problem code. */
export class Refused extends KeywrightError {}

/**
 * The claims of a signed answer or a license file. Throws VerificationError. What is null is not compared, but for
 * `builtAt` (like 2026-11-22T08:54:00Z): what is for one build is refused by every other. `publicKeys` are base64url of
 * 32 bytes each; `now` is in seconds since 1970.
 */
export async function verify(text, expected) {
  const { publicKeys, now, product = null, licenseKey = null, fingerprint = null, nonce = null } = expected;
  require(utf8(text).length <= MAX_BYTES, "too_large");
  const claims = await open(unarmour(text), LICENSE, publicKeys);
  require(["iat", "nbf", "exp"].every((name) => Number.isInteger(claims[name])), "payload");
  require(typeof claims.valid === "boolean", "payload");
  require((expected.issuer ?? null) === null || claims.iss === expected.issuer, "issuer");
  require(product === null || claims.aud === product, "audience");
  require(now === null || claims.nbf <= now + TOLERANCE, "not_yet_valid");
  require(now === null || now < claims.exp, "expired");
  require(fingerprint === null || fits(claims, "activation", "fingerprint", fingerprint), "device");
  require(licenseKey === null || fits(claims, "license", "key_hash", await keyHash(licenseKey)), "license_key");
  require((claims.built_at ?? null) === null || claims.built_at === expected.builtAt, "build");
  require(nonce === null || claims.nonce === nonce, "nonce");
  return claims;
}

/**
 * The keys to believe, and the key sets that led to them: the newest set that a trusted key has signed takes
 * the place of the trusted keys, again and again. A set that does not verify changes nothing.
 */
export async function followKeySets(publicKeys, keySets, now) {
  let trust = { keys: publicKeys, sets: [], since: -Infinity };
  const left = new Set(keySets.filter((text) => text.length <= MAX_BYTES));
  for (;;) {
    let next = null;
    for (const text of left) {
      const found = await openKeySet(text, trust, now);
      if (found && (!next || found.since > next.since)) next = found;
    }
    if (!next) return trust;
    trust = next;
    left.delete(next.sets.at(-1));
  }
}

async function openKeySet(text, trust, now) {
  const { iat, exp, keys: jwks } = await open(text, KEYS, trust.keys).catch(onlyIf(VerificationError, () => ({})));
  if (!Number.isInteger(iat) || !Number.isInteger(exp) || !Array.isArray(jwks)) return null;
  const keys = jwks.filter((jwk) => jwk?.kty === "OKP" && jwk.crv === "Ed25519" && isKey(jwk.x)).map((jwk) => jwk.x);
  return keys.length && now < exp && iat >= trust.since ? { keys, sets: [...trust.sets, text], since: iat } : null;
}

/** The payload of a JWS, once its signature holds. The token brings no key; it only chooses one. */
async function open(token, type, publicKeys) {
  const parts = token.split(".");
  require(parts.length === 3, "not_three_parts");
  const key = await keyOf(parts[0], type, publicKeys);
  require(key !== null, "header");
  const payload = decode(parts[1]), signature = decode(parts[2]);
  const imported = await crypto.subtle.importKey("raw", decode(key), "Ed25519", false, ["verify"]);
  const isSigned = await crypto.subtle.verify("Ed25519", imported, signature, utf8(`${parts[0]}.${parts[1]}`));
  require(isSigned, "signature");
  try {
    const claims = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload));
    if (claims !== null && typeof claims === "object" && !Array.isArray(claims)) return claims;
  } catch { /* Refused below. */ }
  return require(false, "payload");
}

/** The pinned key whose header this is, byte for byte; null for another one. */
async function keyOf(header, type, publicKeys) {
  for (const key of publicKeys) {
    if (!isKey(key)) throw new TypeError("A public key is base64url of 32 bytes, without padding.");
    const kid = encode(await sha256(`{"crv":"Ed25519","kty":"OKP","x":"${key}"}`));
    const headers = ["EdDSA", "Ed25519"].map((alg) => `{"alg":"${alg}","kid":"${kid}","typ":"${type}"}`);
    if (headers.some((one) => header === encode(utf8(one)))) return key;
  }
  return null;
}

/** 32 bytes are 43 characters, of which the last has two unused bits. */
const isKey = (text) => typeof text === "string" && /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/.test(text);
/** Whether it is for this device or key. Only an answer that says no may leave open for which it is. */
const fits = (claims, claim, member, expected) =>
  (claims[claim] ?? null) === null ? !claims.valid : claims[claim][member] === expected;
function unarmour(text) {
  const lines = text.replace(/^\ufeff/, "").split("\n").map((line) => line.replace(/[ \t\r]+$/, ""));
  const begin = lines.indexOf(BEGIN);
  if (begin < 0) return text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
  const end = lines.indexOf(END, begin);
  require(end > 0, "armour");
  return lines.slice(begin + 1, end).join("");
}
/** What to do about errors of a kind; others go on. */
const onlyIf = (kind, answer) => (error) => {
  if (!(error instanceof kind)) throw error;
  return answer(error);
};

function require(condition, code) {
  if (!condition) throw new VerificationError(`The signed answer is refused: ${code}.`, code);
}
const utf8 = (text) => new TextEncoder().encode(text);
const sha256 = async (text) => new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(text)));
const keyHash = async (licenseKey) => encode(await sha256(`keywright-license-key:${licenseKey}`));

function encode(bytes) {
  const binary = typeof bytes === "string" ? bytes : Array.from(bytes, (one) => String.fromCharCode(one)).join("");
  return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** The bytes of base64url in its one form: no padding, unused bits 0, no other character. */
function decode(text) {
  require(/^[A-Za-z0-9_-]*$/.test(text) && text.length % 4 !== 1, "base64url");
  const binary = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  require(encode(binary) === text, "base64url");
  return Uint8Array.from(binary, (one) => one.charCodeAt(0));
}

const random = (length) => encode(crypto.getRandomValues(new Uint8Array(length)));

/** A place to keep what is known in a file, for Node.js. */
export async function fileStore(path) {
  const fs = await import("node:fs");
  return {
    read: () => (fs.existsSync(path) ? fs.readFileSync(path, "utf8") : null),
    write(text) {
      const beside = `${path}.${random(6)}`;
      fs.writeFileSync(beside, text, { mode: 0o600 });
      fs.renameSync(beside, path);
    },
  };
}

/** A program's license: on this device, kept between starts, and asked about when it is time. */
export class Keywright {
  /**
   * `url`, `publicKeys` (those that the program pins), `store` (has `read()` and `write(text)`), and, where wanted,
   * `product`, `fingerprint` (names the device: 8 to 256 characters, no serial number; without one, a random name
   * is kept), `appVersion`, `builtAt`, `issuer`, `timeoutSeconds`, `clock`.
   */
  constructor(options) {
    const defaults = { product: null, fingerprint: null, appVersion: null, builtAt: null, issuer: null };
    Object.assign(this, defaults, { timeoutSeconds: 10, clock: () => Date.now() / 1000 }, options);
  }

  /** Whether the license is good now. Asks the server when it is time; else uses what is kept. Does not throw. */
  async check() {
    const kept = this.#read();
    if (!kept.license_key) return this.#status(kept.is_damaged ? "tampered" : "not_activated", null);
    const { claims = null, problem } = await this.#look(kept);
    const isEarly = claims !== null && this.clock() < Date.parse(claims.next_check_at) / 1000;
    if (claims?.valid && isEarly) return this.#status(stateOf(claims), claims);
    try {
      let fresh = await this.#ask("validate", kept);
      // A "no" is asked for again before it takes the place of what is kept.
      if (!fresh.claims.valid && claims?.valid) fresh = await this.#ask("validate", kept);
      return this.#keep(kept.license_key, fresh);
    } catch (error) {
      if (!(error instanceof Unreachable || error instanceof Refused)) throw error;
      const state = claims?.valid ? "unreachable_but_valid_until" : problem ?? stateOf(claims);
      return this.#status(state, claims, error.message, true);
    }
  }

  /** Take a place for this device. Returns a status, also for a refusal; that changes nothing that is kept. */
  async activate(licenseKey, device = {}) {
    const kept = { ...this.#read(), license_key: licenseKey };
    try {
      return this.#keep(licenseKey, await this.#ask("activate", kept, device, random(18)));
    } catch (error) {
      if (!(error instanceof Unreachable || error instanceof Refused)) throw error;
      const state = error.code ? STATES[error.code] ?? "not_activated" : "unreachable_too_long";
      return this.#status(state, null, error.message, !error.code, error.code ?? state);
    }
  }

  /** Give the place up, and forget the license. Throws where the server cannot be reached. */
  async deactivate() {
    const { license_key, key_sets, fingerprint } = this.#read();
    const device = { license_key, fingerprint: this.fingerprint ?? fingerprint };
    if (license_key) await this.#post("deactivate", device, random(18));
    this.store.write(JSON.stringify({ fingerprint, key_sets }));
  }

  /** Keep a license file, for a machine without a network. Throws VerificationError. */
  async install(licenseKey, text) {
    const kept = this.#read();
    const claims = await this.#verify(text, { ...kept, license_key: licenseKey }, this.clock());
    return this.#keep(licenseKey, { text, claims, keySets: kept.key_sets, isFile: true });
  }

  /** The claims of what is kept, or the state where they are not to be believed. */
  async #look(kept) {
    const now = this.clock();
    const toProblem = onlyIf(VerificationError, ({ code }) => ({ problem: FOREIGN[code] ?? "tampered" }));
    const claims = await this.#verify(kept.answer, kept, null).catch(toProblem);
    if (claims.problem) return claims;
    if (now < Math.max(kept.latest, claims.iat) - TOLERANCE) return { problem: "clock_moved_back" };
    return now < claims.exp ? { claims } : { problem: "unreachable_too_long" };
  }

  async #verify(text, kept, now, nonce = null) {
    const trust = await followKeySets(this.publicKeys, kept.key_sets, -Infinity);
    const { product, issuer, builtAt } = this, fingerprint = this.fingerprint ?? kept.fingerprint;
    const expected = { product, issuer, builtAt, fingerprint, licenseKey: kept.license_key, nonce, now };
    return verify(String(text), { publicKeys: trust.keys, ...expected });
  }

  async #ask(path, kept, members = {}, idempotencyKey = null) {
    const nonce = random(18), { license_key } = kept;
    const device = { fingerprint: this.fingerprint ?? kept.fingerprint, app_version: this.appVersion };
    const body = { license_key, ...device, built_at: this.builtAt, product: this.product, nonce, ...members };
    const text = await this.#post(path, body, idempotencyKey, "application/jwt");
    // Its own clock is believed: that of this device may be wrong.
    const verified = async (keySets) =>
      ({ text, keySets, claims: await this.#verify(text, { ...kept, key_sets: keySets }, null, nonce) });
    const learn = async () => {
      const { keys } = JSON.parse(await this.#send("/v3/signing-keys", {}));
      return verified((await followKeySets(this.publicKeys, [...kept.key_sets, ...keys], this.clock())).sets);
    };
    return verified(kept.key_sets)
      .catch((error) => (error.code === "header" ? learn() : Promise.reject(error)))
      .catch((error) => Promise.reject(new Unreachable(`The answer cannot be believed: ${error.message}`)));
  }

  #post(path, members, idempotencyKey, accept = "application/json") {
    const headers = { "Content-Type": "application/json", Accept: `${accept}, application/problem+json` };
    if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
    return this.#send(`/v3/${path}`, { method: "POST", headers, body: JSON.stringify(members) });
  }

  async #send(path, options) {
    const signal = AbortSignal.timeout(this.timeoutSeconds * 1000);
    const unreachable = (error) => Promise.reject(new Unreachable(`The license server is away: ${error.message}`));
    const answer = await fetch(this.url.replace(/\/+$/, "") + path, { ...options, signal }).catch(unreachable);
    const text = await answer.text().catch(unreachable);
    if (answer.ok) return text;
    const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
    const isRefusal = isProblem && answer.status < 500 && answer.status !== 429;
    if (!isRefusal) throw new Unreachable(`The license server answered ${answer.status}.`);
    const { detail, code } = JSON.parse(text);
    throw new Refused(detail, code);
  }

  #keep(licenseKey, { text, claims, keySets, isFile = false }) {
    const kept = this.#read();
    if (kept.license_key !== licenseKey || claims.iat >= kept.issued_at) {
      const latest = isFile ? Math.max(claims.iat, this.clock()) : claims.iat;
      const known = { license_key: licenseKey, answer: text, issued_at: claims.iat, latest, key_sets: keySets };
      this.store.write(JSON.stringify({ ...known, fingerprint: kept.fingerprint }));
    }
    return this.#status(stateOf(claims), claims);
  }

  /** What is kept; at first, a new name for this device. */
  #read() {
    const kept = { license_key: "", answer: "", issued_at: 0, latest: 0, key_sets: [], fingerprint: null };
    try {
      Object.assign(kept, JSON.parse(this.store.read() ?? "{}"));
    } catch {
      kept.is_damaged = true;
    }
    if (!Array.isArray(kept.key_sets)) kept.key_sets = [];
    if (this.fingerprint !== null || kept.fingerprint) return kept;
    kept.fingerprint = random(18);
    this.store.write(JSON.stringify(kept));
    return kept;
  }

  #status(state, claims, detail = "", isOffline = false, code = claims?.code ?? state) {
    const { codes = [code], entitlements = [], license = null, activation = null } = claims ?? {};
    const valid = ["valid", "grace", "unreachable_but_valid_until"].includes(state);
    const validUntil = claims ? new Date(claims.exp * 1000) : null;
    const has = (entitlement) => valid && entitlements.includes(entitlement);
    return { valid, state, code, codes, detail, isOffline, entitlements, license, activation, validUntil, has };
  }
}

const stateOf = ({ valid, code, codes = [] }) =>
  valid ? (codes.includes("grace") ? "grace" : "valid") : STATES[code] ?? "not_activated";

