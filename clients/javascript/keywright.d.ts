/** The states of a license; README.md says what each means. */
export type State =
  | "valid"
  | "grace"
  | "unreachable_but_valid_until"
  | "unreachable_too_long"
  | "expired"
  | "disabled"
  | "not_activated"
  | "limit_reached"
  | "no_lease"
  | "tampered"
  | "clock_moved_back"
  | "no_storage";

export interface Notice {
  id: number;
  severity: "info" | "low" | "medium" | "high" | "critical";
  title: string;
  url: string | null;
  fixed_in: string | null;
}

export interface Status {
  /** Whether the program may run. */
  valid: boolean;
  state: State;
  /** The server's code, or the state. */
  code: string;
  codes: string[];
  /** A sentence about it. */
  detail: string;
  /** Whether the server gave no good answer. */
  isOffline: boolean;
  entitlements: string[];
  license: Record<string, unknown> | null;
  activation: Record<string, unknown> | null;
  /** When what is kept ends; null where nothing is. */
  validUntil: Date | null;
  /** At `limit_reached`, where the license shows them: the devices of which `remove` names one. */
  devices: { id: number; [member: string]: unknown }[];
  /** What is to be known about this version of the program. */
  notices: Notice[];
  /** Whether the license is valid and includes the feature. */
  has(entitlement: string): boolean;
  /** A later version may have more. */
  [member: string]: unknown;
}

/** A place to keep what is known: a text. */
export interface Store {
  read(): string | null;
  write(text: string): void;
}

export interface Options {
  /** The address of the server, without `/v3`. */
  url: string;
  /** Those that the program pins, base64url: `keywright signing-key export-public` prints them. */
  publicKeys: string[];
  store: Store;
  product?: string | null;
  /** Names the device: 8 to 256 characters, no serial number; without one, a random name is kept. */
  fingerprint?: string | null;
  appVersion?: string | null;
  /** Like 2026-11-22T08:54:00Z. */
  builtAt?: string | null;
  /** The `iss` that answers must have. */
  issuer?: string | null;
  /** Of a whole call; 10 without it. */
  timeoutSeconds?: number;
  /** Seconds since 1970. */
  clock?: () => number;
}

export interface Device {
  name?: string;
  platform?: string;
  metadata?: Record<string, unknown>;
  /** The fingerprint that this device had before: its place moves. */
  replaces?: string;
  /** The `id` of one of the `devices` of the status for a full license: it gives its place. */
  remove?: number;
  [member: string]: unknown;
}

/** A program's license: on this device, kept between starts, and asked about when it is time. */
export class Keywright {
  constructor(options: Options);
  /** Whether the license is good now. Does not throw. */
  check(): Promise<Status>;
  /** Take a place for this device. Returns a status, also for a refusal. */
  activate(licenseKey: string, device?: Device): Promise<Status>;
  /** Start this device's trial of the product, or get the one that it has. */
  startTrial(details?: { policy?: number; email?: string; name?: string }): Promise<Status>;
  /** Take a lease of a floating license. Throws Refused, Unreachable and VerificationError. */
  lease(options?: { holder?: string | null; seconds?: number | null; licenseKey?: string | null }): Promise<Lease>;
  /** Give the place up, and forget the license. Throws where the server cannot be reached. */
  deactivate(): Promise<void>;
  /** Keep a license file, for a machine without a network. Throws VerificationError. */
  install(licenseKey: string, text: string): Promise<Status>;
}

/** A place of a floating license, renewed in the background until `release()`. */
export class Lease {
  private constructor();
  readonly id: string | null;
  readonly isHeld: boolean;
  renew(): Promise<void>;
  release(): Promise<void>;
}

declare class KeywrightError extends Error {
  readonly code: string | null;
}
/** A signed answer or a license file that must not be believed; `code` says which rule it breaks. */
export class VerificationError extends KeywrightError {}
/** The server gave no answer that can be used. */
export class Unreachable extends KeywrightError {}
/** The server refused a change; `code` is its problem code. */
export class Refused extends KeywrightError {
  devices: Status["devices"];
}

/** A place to keep what is known in a file, for Node.js. */
export function fileStore(path: string): Promise<Store>;

export interface Expected {
  publicKeys: string[];
  /** In seconds since 1970; null is not compared. */
  now: number | null;
  product?: string | null;
  licenseKey?: string | null;
  fingerprint?: string | null;
  nonce?: string | null;
  operation?: string | null;
  body?: string;
  issuer?: string | null;
  builtAt?: string | null;
  isPlaceNeeded?: boolean;
}

export type Claims = Record<string, any> & { iat: number; nbf: number; exp: number; valid: boolean };

/** The claims of a signed answer or a license file. Throws VerificationError. */
export function verify(text: string, expected: Expected): Promise<Claims>;

/** The keys to believe, and the key sets that led to them. */
export function followKeySets(
  publicKeys: string[],
  keySets: string[],
  now: number,
): Promise<{ keys: string[]; sets: string[]; since: number }>;

/** The state that an answer leads to by itself. */
export function stateOf(answer: { valid: boolean; code: string; codes: string[] }): State;
