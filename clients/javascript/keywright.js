// Keywright's client for JavaScript: activate, validate with signed answers, verify, and keep.
// One file without dependencies, for Node.js 20 and browsers with Ed25519 in Web Crypto. MIT license.

/** In seconds: how far a server's clock may be ahead of ours, and ours may move back. */
const TOLERANCE = 300, MAX_BYTES = 65_536, MAX_ANSWER = 2 ** 20;
const LICENSE = "keywright-license+jwt", KEYS = "keywright-keys+jwt";
const BEGIN = "-----BEGIN KEYWRIGHT LICENSE-----", END = "-----END KEYWRIGHT LICENSE-----";
const STATES = {
  disabled: "disabled", inactive: "disabled", expired: "expired", version_not_covered: "expired",
  limit_reached: "limit_reached", too_many_new_devices: "limit_reached", no_removal_left: "limit_reached",
  lease_lost: "no_lease", lease_required: "no_lease",
};
/** What the customer is told at `no_lease`. */
const NO_LEASE = "This program has no place in the shared license. "
  + "Start the program again; where every place is taken, end it on another device first.";
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
export class Refused extends KeywrightError {
  /** Those that hold the places of a full license, where its terms let programs choose. */
  devices = [];
}

/**
 * The claims of a signed answer or a license file. Throws VerificationError. What is null is not compared, but for
 * `builtAt` (like 2026-11-22T08:54:00Z): what is for one build is refused by every other. `publicKeys` are base64url of
 * 32 bytes each; `now` is in seconds since 1970. Where a `nonce` was sent, `operation` (the path below /v3/) and `body`
 * (the text that was sent) are the question: a no need not name a license, and would fit another. Where `isPlaceNeeded`
 * is false, the answer may name no device.
 */
export async function verify(text, expected) {
  const { publicKeys, now, product = null, licenseKey = null, fingerprint = null, nonce = null } = expected;
  const { operation = null, body = "", isPlaceNeeded = true } = expected;
  require(utf8(text).length <= MAX_BYTES, "too_large");
  const claims = await openToken(unarmour(text), LICENSE, publicKeys);
  require(["iat", "nbf", "exp"].every((name) => Number.isInteger(claims[name])), "payload");
  require(typeof claims.valid === "boolean", "payload");
  require((expected.issuer ?? null) === null || claims.iss === expected.issuer, "issuer");
  require(product === null || claims.aud === product, "audience");
  require(now === null || claims.nbf <= now + TOLERANCE, "not_yet_valid");
  require(now === null || now < claims.exp, "expired");
  require(fingerprint === null || fits(claims, "activation", "fingerprint", fingerprint, isPlaceNeeded), "device");
  require(licenseKey === null || fits(claims, "license", "key_hash", await keyHash(licenseKey)), "license_key");
  require((claims.built_at ?? null) === null || claims.built_at === expected.builtAt, "build");
  require(nonce === null || claims.nonce === nonce, "nonce");
  const asked = operation === null ? null : encode(await sha256(`keywright-question:${operation}\n${body}`));
  require(nonce === null || (asked !== null && claims.asked === asked), "question");
  return claims;
}

/**
 * The keys to believe, and the key sets that led to them: the newest set that a trusted key has signed takes
 * the place of the trusted keys, again and again. A set that does not verify changes nothing.
 */
export async function followKeySets(publicKeys, keySets, now) {
  let trust = { keys: publicKeys, sets: [], since: -Infinity };
  const left = new Set(keySets.filter((text) => typeof text === "string" && text.length <= MAX_BYTES));
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
  const { iat, exp, keys: jwks } = await openToken(text, KEYS, trust.keys).catch(onlyIf(VerificationError, () => ({})));
  if (!Number.isInteger(iat) || !Number.isInteger(exp) || !Array.isArray(jwks)) return null;
  const keys = jwks.filter((jwk) => jwk?.kty === "OKP" && jwk.crv === "Ed25519" && isKey(jwk.x)).map((jwk) => jwk.x);
  return keys.length && now < exp && iat >= trust.since ? { keys, sets: [...trust.sets, text], since: iat } : null;
}

/** The payload of a JWS, once its signature holds. The token brings no key; it only chooses one. */
export async function openToken(token, type, publicKeys) {
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
  for (const key of publicKeys.filter(isKey)) {
    const kid = encode(await sha256(`{"crv":"Ed25519","kty":"OKP","x":"${key}"}`));
    const headers = ["EdDSA", "Ed25519"].map((alg) => `{"alg":"${alg}","kid":"${kid}","typ":"${type}"}`);
    if (headers.some((one) => header === encode(utf8(one)))) return key;
  }
  return null;
}

/** 32 bytes are 43 characters, of which the last has two unused bits. */
const isKey = (text) => typeof text === "string" && /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/.test(text);
/** Whether it is for this device or key. Only an answer that says no may leave open for which it is. */
const fits = (claims, claim, member, expected, isNeeded = true) =>
  (claims[claim] ?? null) === null ? !claims.valid || !isNeeded : claims[claim][member] === expected;
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

export function encode(bytes) {
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
  // Not in quotes there: bundlers for browsers would look for it.
  const module = "node:fs", fs = await import(/* @vite-ignore */ module);
  return {
    read() {
      try {
        return fs.readFileSync(path, "utf8");
      } catch (error) {
        if (error.code === "ENOENT") return null;
        throw new Error(`${path}: ${error.message}`);
      }
    },
    write(text) {
      const beside = `${path}.${random(6)}`;
      try {
        fs.writeFileSync(beside, text, { mode: 0o600, flag: "wx" });
        fs.renameSync(beside, path);
      } catch (error) {
        fs.rmSync(beside, { force: true });
        throw error;
      }
    },
  };
}

/**
 * A place of a floating license, renewed in the background until `release()`; `isHeld` turns false when it is lost: the
 * server was away too long, or gave it to another. `Keywright.lease` takes it.
 */
export class Lease {
  #call;
  #request;
  #seconds = 0;
  #ends = 0;
  #timer = null;
  #isOver = false;
  id = null;

  constructor(call, licenseKey, holder, seconds) {
    Object.assign(this, { licenseKey });
    this.#call = call;
    this.#request = { holder: holder ?? random(12), seconds };
  }

  get isHeld() {
    return performance.now() < this.#ends;
  }

  /** Take it, or renew it before half of its time has passed. Throws what `Keywright.lease` does. */
  async renew() {
    clearTimeout(this.#timer);
    let wait = this.#seconds / 2;
    try {
      await this.#take();
      wait = this.#seconds / 2;
    } catch (error) {
      if (error instanceof Refused) this.#ends = 0;
      else wait = this.#seconds / 10;
      throw error;
    } finally {
      if (this.id && !this.#isOver) this.#timer = setTimeout(() => this.renew().catch(() => {}), Math.max(wait, 1) * 1000);
      // It keeps no program of Node.js alive.
      this.#timer?.unref?.();
    }
  }

  /** Give it back. Where the server cannot be told, it ends by itself. */
  async release() {
    clearTimeout(this.#timer);
    const id = this.id;
    [this.#isOver, this.#ends, this.id] = [true, 0, null];
    await this.#call("leases/release", { lease_id: id }).catch(() => {});
  }

  async #take() {
    const began = performance.now(), named = this.id === null ? {} : { lease_id: this.id };
    const { claims } = await this.#call(this.id === null ? "leases" : "leases/renew", { ...this.#request, ...named });
    const { id, holder, expires_at } = claims.lease ?? {}, seconds = Date.parse(expires_at) / 1000 - claims.iat;
    require(claims.valid && typeof id === "string" && seconds > 0, "payload");
    // A lease that is shared is the same place for many: what is between may not ask in another's name.
    require(holder === this.#request.holder, "question");
    if (!this.#isOver) [this.id, this.#seconds, this.#ends] = [id, seconds, began + seconds * 1000];
  }
}

/** A program's license: on this device, kept between starts, and asked about when it is time. */
export class Keywright {
  #leases = [];
  /** Why nothing was activated, for the next check. */
  #refused = null;

  /**
   * `url`, `publicKeys` (those that the program pins), `store` (has `read()` and `write(text)`), and, where wanted,
   * `product`, `fingerprint` (names the device: 8 to 256 characters, no serial number; without one, a random name
   * is kept), `appVersion`, `builtAt`, `issuer`, `timeoutSeconds` (of a whole call), `clock`.
   */
  constructor(options) {
    const defaults = { product: null, fingerprint: null, appVersion: null, builtAt: null, issuer: null };
    Object.assign(this, defaults, { timeoutSeconds: 10, clock: () => Date.now() / 1000 }, options);
    if (!this.publicKeys.every(isKey)) throw new TypeError("A public key is base64url of 32 bytes, without padding.");
  }

  /** Whether the license is good now. Asks the server when it is time; else uses what is kept. Does not throw. */
  check() {
    return this.#inTime((ends) => this.#check(ends));
  }

  /**
   * Take a place for this device. Returns a status, also for a refusal; that changes nothing that is kept. Where
   * nothing can be kept, no place is taken: it would be another one at each start. The status for a full license may
   * have `devices` to choose from; `device` then has `remove`, the `id` of the one that gives its place.
   */
  activate(licenseKey, device = {}) {
    return this.#inTime((ends) => this.#activate(ends, licenseKey, device));
  }

  /**
   * Start this device's trial of the product, or get the one that it has, and keep it as `activate` does. `details`:
   * `policy` (its number, where the product has several for trials), `email`, `name`. Returns a status, also for a refusal.
   */
  startTrial(details = {}) {
    return this.#inTime((ends) => this.#startTrial(ends, details));
  }

  /**
   * Take a lease of a floating license. `holder` names who has it, in place of a random name; `seconds` is for how long;
   * `licenseKey` is needed where nothing was activated. Throws Refused (`no_free_lease` …), Unreachable and
   * VerificationError.
   */
  async lease({ holder = null, seconds = null, licenseKey = null } = {}) {
    const kept = this.#read(), key = licenseKey ?? kept.license_key;
    const release = (ends, members) => this.#post("leases/release", JSON.stringify({ license_key: key, ...members }), ends);
    const call = (path, members) => this.#inTime((ends) => (path === "leases/release"
      ? release(ends, members) : this.#ask(path, { ...kept, license_key: key }, ends, members, random(18))));
    const lease = new Lease(call, key, holder, seconds);
    await lease.renew();
    this.#leases = [...this.#leases.filter((one) => one.id), lease];
    return lease;
  }

  /** Give the place up, and forget the license. Throws where the server cannot be reached. */
  async deactivate() {
    const { license_key, key_sets, fingerprint } = this.#read();
    const body = JSON.stringify({ license_key, fingerprint: this.fingerprint ?? fingerprint });
    if (license_key) await this.#inTime((ends) => this.#post("deactivate", body, ends, random(18)));
    this.store.write(JSON.stringify({ fingerprint, key_sets }));
  }

  /** Keep a license file, for a machine without a network. Throws VerificationError. */
  async install(licenseKey, text) {
    const kept = this.#read(), trouble = kept.trouble ?? this.#write(kept);
    if (trouble) return this.#status("no_storage", null, trouble);
    const claims = await this.#verify(text, { ...kept, license_key: licenseKey }, { now: this.clock() });
    return this.#keep(licenseKey, { text, claims, keySets: kept.key_sets, isFile: true });
  }

  /** Run a call with what ends it: a signal, and a promise that is rejected at its deadline. */
  async #inTime(call) {
    const stop = new AbortController();
    let timer;
    // Not AbortSignal.timeout: it lets Node.js end the program while it waits. Nor the signal alone: Node.js forgets
    // about it once the answer has begun.
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("it did not answer in time")), this.timeoutSeconds * 1000);
    });
    late.catch(() => stop.abort());
    try {
      return await call({ signal: stop.signal, late });
    } finally {
      clearTimeout(timer);
    }
  }

  async #check(ends) {
    const kept = this.#read();
    if (kept.trouble) return this.#status("no_storage", null, kept.trouble);
    if (!kept.license_key) {
      const { message, code } = this.#refused ?? {};
      return this.#status(kept.is_damaged ? "tampered" : "not_activated", null, message, false, code);
    }
    const { claims = null, problem, detail } = await this.#look(kept);
    const isEarly = claims !== null && this.clock() < Date.parse(claims.next_check_at) / 1000;
    if (claims?.valid && isEarly) return this.#status(stateOf(claims), claims);
    const held = this.#leases.filter((one) => one.isHeld && one.licenseKey === kept.license_key).at(-1);
    const members = { lease_id: held?.id };
    try {
      let fresh = await this.#ask("validate", kept, ends, members);
      // A "no" is asked for again before it takes the place of what is kept.
      if (!fresh.claims.valid && isVerdict(fresh.claims) && claims?.valid) fresh = await this.#ask("validate", kept, ends, members);
      return this.#keep(kept.license_key, fresh);
    } catch (error) {
      const state = claims?.valid ? "unreachable_but_valid_until" : problem ?? stateOf(claims);
      return this.#status(state, claims, detail ?? error.message, true);
    }
  }

  async #activate(ends, licenseKey, device) {
    const found = this.#read();
    const trouble = found.trouble ?? this.#write(found);
    if (trouble) return this.#status("no_storage", null, trouble);
    try {
      const kept = { ...found, license_key: licenseKey };
      return this.#keep(licenseKey, await this.#ask("activate", kept, ends, device, random(18)));
    } catch (error) {
      return this.#refusal(error);
    }
  }

  async #startTrial(ends, details) {
    const found = this.#read();
    const trouble = found.trouble ?? this.#write(found);
    if (trouble) return this.#status("no_storage", null, trouble);
    const program = { product: this.product, app_version: this.appVersion, built_at: this.builtAt };
    const body = JSON.stringify({ ...program, fingerprint: this.fingerprint ?? found.fingerprint, ...details });
    try {
      const key = parseObject(await this.#post("trials", body, ends, random(18)))?.license?.key;
      if (typeof key !== "string") throw new Unreachable("What answers is no Keywright server.");
      return await this.#activate(ends, key, {});
    } catch (error) {
      return this.#refusal(error);
    }
  }

  /** The status of a call that was not answered with a yes. */
  #refusal(error) {
    const code = error instanceof Refused ? error.code : null;
    const state = code === null ? "unreachable_too_long" : stateOfCode(code);
    if (code !== null) this.#refused = error;
    return { ...this.#status(state, null, error.message, code === null, code ?? state), devices: error.devices ?? [] };
  }

  /** The claims of what is kept, or the state where they are not to be believed. Keeps the highest time seen. */
  async #look(kept) {
    const now = this.clock();
    const toProblem = onlyIf(VerificationError, ({ code }) => ({ problem: FOREIGN[code] ?? "tampered" }));
    const claims = await this.#verify(kept.answer, kept, { now: null }).catch(toProblem);
    if (claims.problem) return claims;
    if (now < Math.max(kept.latest, claims.iat) - TOLERANCE) return { problem: "clock_moved_back" };
    if (now >= claims.exp) return { problem: "unreachable_too_long" };
    // Without it, a clock that is set back again and again would make the answer last for ever.
    const trouble = now > kept.latest + 60 ? this.#write({ ...this.#read(), latest: now }) : null;
    return trouble ? { problem: "no_storage", detail: trouble } : { claims };
  }

  async #verify(text, kept, asked) {
    const trust = await followKeySets(this.publicKeys, kept.key_sets, -Infinity);
    const { product, issuer, builtAt } = this, fingerprint = this.fingerprint ?? kept.fingerprint;
    const expected = { product, issuer, builtAt, fingerprint, licenseKey: kept.license_key, ...asked };
    return verify(String(text), { publicKeys: trust.keys, ...expected });
  }

  async #ask(path, kept, ends, members = {}, idempotencyKey = null) {
    const nonce = random(18), { license_key } = kept;
    const device = { fingerprint: this.fingerprint ?? kept.fingerprint, app_version: this.appVersion };
    const program = { license_key, ...device, built_at: this.builtAt, product: this.product, nonce };
    const body = JSON.stringify({ ...program, ...members });
    const text = await this.#post(path, body, ends, idempotencyKey, "application/jwt");
    // The server's clock is believed: that of this device may be wrong.
    const asked = { now: null, nonce, operation: path, body, isPlaceNeeded: !path.startsWith("leases") };
    const verified = async (keySets) =>
      ({ text, keySets, claims: await this.#verify(text, { ...kept, key_sets: keySets }, asked) });
    const learn = async () => {
      const { keys } = JSON.parse(await this.#send("/v3/signing-keys", ends));
      return verified((await followKeySets(this.publicKeys, [...kept.key_sets, ...keys], this.clock())).sets);
    };
    return verified(kept.key_sets)
      .catch((error) => (error.code === "header" ? learn() : Promise.reject(error)))
      .catch((error) => Promise.reject(new Unreachable(`The answer cannot be believed: ${error.message}`)));
  }

  #post(path, body, ends, idempotencyKey, accept = "application/json") {
    const headers = { "Content-Type": "application/json", Accept: `${accept}, application/problem+json` };
    if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
    return this.#send(`/v3/${path}`, ends, { method: "POST", headers, body });
  }

  /** The text of a good answer. Throws Refused for a problem that the server names, and Unreachable for all else. */
  async #send(path, { signal, late }, options = {}) {
    // What a library says of it is for developers, as its cause.
    const unreachable = (cause) =>
      Promise.reject(Object.assign(new Unreachable("The license server cannot be reached."), { cause }));
    // A license key follows no redirect.
    const asked = { ...options, signal, redirect: "error", cache: "no-store" };
    const answer = await Promise.race([fetch(this.url.replace(/\/+$/, "") + path, asked), late]).catch(unreachable);
    const text = await readText(answer, late).catch(unreachable);
    if (answer.ok) return text;
    const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
    const isRefusal = isProblem && answer.status < 500 && answer.status !== 429;
    const { detail, code, devices } = (isRefusal && parseObject(text)) || {};
    if (typeof code !== "string") throw new Unreachable(`The license server answered ${answer.status}.`);
    throw Object.assign(new Refused(String(detail ?? code), code), { devices: Array.isArray(devices) ? devices : [] });
  }

  #keep(licenseKey, { text, claims, keySets, isFile = false }) {
    if (!isVerdict(claims)) return this.#status(stateOf(claims), claims, NO_LEASE);
    const kept = this.#read();
    let trouble = kept.trouble;
    this.#refused = null;
    if (!trouble && (kept.license_key !== licenseKey || claims.iat >= kept.issued_at)) {
      const latest = isFile ? Math.max(claims.iat, this.clock()) : claims.iat;
      const known = { license_key: licenseKey, answer: text, issued_at: claims.iat, latest, key_sets: keySets };
      trouble = this.#write({ ...known, fingerprint: kept.fingerprint });
    }
    return this.#status(stateOf(claims), claims, trouble ?? "");
  }

  /** What is kept, with `trouble` where that cannot be read; at first, a new name for this device. */
  #read() {
    const kept = { license_key: "", answer: "", issued_at: 0, latest: 0, key_sets: [], fingerprint: null };
    let text = null;
    try {
      text = this.store.read();
    } catch (error) {
      kept.trouble = `The license cannot be read: ${error.message}`;
    }
    Object.assign(kept, parseObject(text ?? "{}") ?? { is_damaged: true });
    if (!Array.isArray(kept.key_sets)) kept.key_sets = [];
    // Only `activate` keeps it.
    if (this.fingerprint === null) kept.fingerprint ||= random(18);
    return kept;
  }

  /** Keep this; returns why it cannot be kept, or null. */
  #write({ is_damaged, trouble, ...kept }) {
    if (trouble) return trouble;
    try {
      this.store.write(JSON.stringify(kept));
      return null;
    } catch (error) {
      return `The license cannot be kept: ${error.message}`;
    }
  }

  #status(state, claims, detail = "", isOffline = false, code = claims?.code ?? state) {
    const { codes = [code], entitlements = [], license = null, activation = null, notices = [] } = claims ?? {};
    const valid = ["valid", "grace", "unreachable_but_valid_until"].includes(state);
    const validUntil = claims ? new Date(claims.exp * 1000) : null;
    const has = (entitlement) => valid && entitlements.includes(entitlement);
    const said = { valid, state, code, codes, detail, isOffline, entitlements, license, activation, validUntil };
    return { ...said, has, devices: [], notices };
  }
}

/** The state that an answer leads to by itself. */
export const stateOf = ({ valid, code, codes }) =>
  valid ? ([codes].flat().includes("grace") ? "grace" : "valid") : stateOfCode(code);
const stateOfCode = (code) =>
  typeof code === "string" && Object.hasOwn(STATES, code) ? STATES[code] : "not_activated";
/** Whether an answer is about the license, and may be kept: `no_lease` is about this program alone. */
const isVerdict = (claims) => stateOf(claims) !== "no_lease";

/** An object in JSON; null for all else. */
function parseObject(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** The body of an answer, which may neither be long nor come late. */
async function readText(answer, late) {
  const reader = answer.body?.getReader(), decoder = new TextDecoder();
  let text = "", size = 0;
  try {
    for (;;) {
      const { done, value } = (await Promise.race([reader?.read(), late])) ?? { done: true };
      if (done) return text + decoder.decode();
      size += value.length;
      require(size <= MAX_ANSWER, "too_large");
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    reader?.cancel().catch(() => {});
  }
}
