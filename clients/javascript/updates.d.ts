/** Whom an update is for, and what the program says of itself. */
export interface Question {
  /** The address of the server, without `/v3`. */
  url: string;
  /** Those that the program pins, base64url: `keywright signing-key export-public` prints them. */
  publicKeys: string[];
  licenseKey?: string;
  /** In place of the license key. */
  updateToken?: string;
  fingerprint?: string;
  product?: string;
  /** Without one, everything is newer. */
  appVersion?: string;
  channel?: string;
  /** Whether a person asks: the rollout does not hold back. */
  byHand?: boolean;
  /** As in the files of the release; without one, that of Node.js. */
  platform?: string;
  arch?: string;
  /** In milliseconds; 10,000 without it. */
  timeout?: number;
}

/** The file of a release for this platform. */
export interface UpdateFile {
  name: string;
  url: string;
  size: number;
  /** Hex digits. */
  sha256: string;
  /** The vendor's signature of its bytes. */
  signature: string | null;
}

/** What is newer, and why it is offered or not. */
export interface Update {
  available: boolean;
  code: string;
  codes: string[];
  release: { version: string; channel: string; released_at: string; notes: string | null; is_critical: boolean } | null;
  /** Null where the files are for platforms and none was named. */
  file: UpdateFile | null;
  /** The newest release that the license does not cover. */
  not_covered: { version: string; released_at: string; renew_url: string | null } | null;
  checked_at: string;
  next_check_at: string | null;
  nonce: string | null;
  /** A later version may have more. */
  [member: string]: unknown;
}

export interface DownloadOptions {
  /** The vendor's public keys, Ed25519 or minisign: a signature of one of them is needed. */
  fileKeys?: string[];
  /** Called with the bytes that have come, and all. */
  onProgress?: (done: number, size: number) => void;
  /** In milliseconds; 600,000 without it. */
  timeout?: number;
}

/** Ask what is newer than this program. Throws Unreachable, Refused and VerificationError. */
export function checkForUpdate(question: Question): Promise<Update>;

/** The claims of a signed answer about updates to this question. Throws VerificationError. */
export function verifyUpdate(
  text: string,
  expected: { publicKeys: string[]; nonce: string; body: string },
): Promise<Update>;

/** Download a file into a folder, and go on where an earlier attempt was cut off; returns its path. */
export function download(file: UpdateFile, folder: string, options?: DownloadOptions): Promise<string>;
