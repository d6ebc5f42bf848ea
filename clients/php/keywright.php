<?php
// Keywright's client for PHP 8.1: activate, validate with signed answers, verify, and keep.
// One file without dependencies but PHP's own sodium and json. MIT license.

declare(strict_types=1);

namespace Keywright;

/** A signed answer or a license file that must not be believed; $rule says which rule it breaks. */
final class VerificationError extends \RuntimeException {
    public function __construct(public readonly string $rule) {
        parent::__construct("The signed answer is refused: $rule.");
    }
}

/** The server gave no good answer; $problem is its problem code, or null where it cannot be reached. */
final class Refused extends \RuntimeException {
    /** $devices are those that hold the places of a full license, where its terms let programs choose. */
    public function __construct(string $detail, public readonly ?string $problem = null, public readonly array $devices = []) {
        parent::__construct($detail);
    }
}

/** The rules for signed answers and license files. */
final class Verifier {
    public const MAX_BYTES = 65_536;
    /** In seconds: how far a server's clock may be ahead of ours, and ours may move back. */
    public const TOLERANCE = 300;
    private const LICENSE = 'keywright-license+jwt', KEYS = 'keywright-keys+jwt';
    private const BEGIN = '-----BEGIN KEYWRIGHT LICENSE-----', END = '-----END KEYWRIGHT LICENSE-----';

    /**
     * The claims of a signed answer or a license file. Throws VerificationError. What is null is not compared, but for
     * $builtAt (like 2026-11-22T08:54:00Z): what is for one build is refused by every other. $publicKeys are base64url
     * of 32 bytes each; $now is in seconds since 1970. Where a $nonce was sent, $operation (the path below /v3/) and
     * $body are the question: a no need not name a license, and would fit another. Where $isPlaceNeeded is false, the
     * answer may name no device.
     */
    public static function verify(string $text, array $publicKeys, ?int $now, ?string $product = null,
        ?string $licenseKey = null, ?string $fingerprint = null, ?string $nonce = null, ?string $issuer = null,
        ?string $builtAt = null, ?string $operation = null, ?string $body = null,
        bool $isPlaceNeeded = true): object {
        self::require(strlen($text) <= self::MAX_BYTES, 'too_large');
        $claims = self::open(self::unarmour($text), self::LICENSE, $publicKeys);
        foreach (['iat', 'nbf', 'exp'] as $name) {
            self::require(is_int($claims->$name ?? null), 'payload');
        }
        self::require(is_bool($claims->valid ?? null), 'payload');
        self::require($issuer === null || ($claims->iss ?? null) === $issuer, 'issuer');
        self::require($product === null || ($claims->aud ?? null) === $product, 'audience');
        self::require($now === null || $claims->nbf <= $now + self::TOLERANCE, 'not_yet_valid');
        self::require($now === null || $now < $claims->exp, 'expired');
        $isDevice = self::fits($claims, 'activation', 'fingerprint', $fingerprint ?? '', $isPlaceNeeded);
        self::require($fingerprint === null || $isDevice, 'device');
        $hash = self::encode(hash('sha256', "keywright-license-key:$licenseKey", true));
        self::require($licenseKey === null || self::fits($claims, 'license', 'key_hash', $hash), 'license_key');
        self::require(($claims->built_at ?? null) === null || $claims->built_at === $builtAt, 'build');
        self::require($nonce === null || ($claims->nonce ?? null) === $nonce, 'nonce');
        $asked = self::encode(hash('sha256', "keywright-question:$operation\n$body", true));
        $isAsked = $operation !== null && ($claims->asked ?? null) === $asked;
        self::require($nonce === null || $isAsked, 'question');
        return $claims;
    }

    /**
     * [the keys to believe, the sets that led to them]: the newest set that a trusted key has signed takes the place
     * of the trusted keys, again and again. A set that does not verify changes nothing.
     */
    public static function followKeySets(array $publicKeys, array $keySets, int $now): array {
        [$trusted, $sets, $since] = [$publicKeys, [], PHP_INT_MIN];
        while (true) {
            $next = null;
            foreach (array_diff(array_filter($keySets, 'is_string'), $sets) as $text) {
                $found = self::openKeySet($text, $trusted, $now, $since);
                if ($found !== null && ($next === null || $found[2] > $next[2])) {
                    $next = $found;
                }
            }
            if ($next === null) {
                return [$trusted, $sets];
            }
            [$trusted, $sets[], $since] = $next;
        }
    }

    private static function openKeySet(string $text, array $trusted, int $now, int $since): ?array {
        try {
            self::require(strlen($text) <= self::MAX_BYTES, 'too_large');
            $claims = self::open($text, self::KEYS, $trusted);
        } catch (VerificationError) {
            return null;
        }
        [$iat, $exp, $jwks] = [$claims->iat ?? null, $claims->exp ?? null, $claims->keys ?? null];
        if (!is_int($iat) || !is_int($exp) || !is_array($jwks) || $exp <= $now || $iat < $since) {
            return null;
        }
        $isKey = fn($jwk) => ($jwk->kty ?? null) === 'OKP' && ($jwk->crv ?? null) === 'Ed25519' && self::isKey($jwk->x ?? null);
        $keys = array_map(fn($jwk) => $jwk->x, array_filter($jwks, $isKey));
        return $keys ? [array_values($keys), $text, $iat] : null;
    }

    /** The payload of a JWS, once its signature holds. The token brings no key; it only chooses one. */
    private static function open(string $token, string $type, array $publicKeys): object {
        $parts = explode('.', $token);
        self::require(count($parts) === 3, 'not_three_parts');
        $key = null;
        foreach ($publicKeys as $x) {
            $kid = self::encode(hash('sha256', "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"$x\"}", true));
            foreach (['EdDSA', 'Ed25519'] as $alg) {
                $header = "{\"alg\":\"$alg\",\"kid\":\"$kid\",\"typ\":\"$type\"}";
                $key = $parts[0] === self::encode($header) && self::isKey($x) ? $x : $key;
            }
        }
        self::require($key !== null, 'header');
        [$payload, $signature] = [self::decode($parts[1]), self::decode($parts[2])];
        self::require($payload !== null && $signature !== null, 'base64url');
        $isSigned = strlen($signature) === SODIUM_CRYPTO_SIGN_BYTES
            && sodium_crypto_sign_verify_detached($signature, "$parts[0].$parts[1]", self::decode($key));
        self::require($isSigned, 'signature');
        $claims = json_decode($payload);
        self::require(is_object($claims), 'payload');
        return $claims;
    }

    /** Whether it is for this device or key. Only an answer that says no may leave open for which it is. */
    private static function fits(object $claims, string $claim, string $member, string $expected, bool $isNeeded = true): bool {
        $found = $claims->$claim ?? null;
        return $found === null ? !$claims->valid || !$isNeeded : is_object($found) && ($found->$member ?? null) === $expected;
    }

    private static function unarmour(string $text): string {
        $lines = array_map(fn($line) => rtrim($line, " \t\r"), explode("\n", preg_replace('/^\xEF\xBB\xBF/', '', $text)));
        $begin = array_search(self::BEGIN, $lines, true);
        if ($begin === false) {
            return trim($text, " \t\r\n");
        }
        $body = array_slice($lines, $begin + 1);
        $end = array_search(self::END, $body, true);
        self::require($end !== false, 'armour');
        return implode('', array_slice($body, 0, $end));
    }

    private static function require(bool $condition, string $rule): void {
        $condition || throw new VerificationError($rule);
    }

    public static function encode(string $bytes): string {
        return sodium_bin2base64($bytes, SODIUM_BASE64_VARIANT_URLSAFE_NO_PADDING);
    }

    /** The bytes of base64url in its one form, without padding and with unused bits 0; null for another text. */
    private static function decode(string $text): ?string {
        try {
            $bytes = sodium_base642bin($text, SODIUM_BASE64_VARIANT_URLSAFE_NO_PADDING);
        } catch (\SodiumException) {
            return null;
        }
        return self::encode($bytes) === $text ? $bytes : null;
    }

    private static function isKey(mixed $text): bool {
        return is_string($text) && strlen(self::decode($text) ?? '') === SODIUM_CRYPTO_SIGN_PUBLICKEYBYTES;
    }
}

/**
 * A place of a floating license; Keywright::lease takes it. PHP does nothing in the background: call renew() once isDue(),
 * and release() at the end.
 */
final class Lease {
    public string $id = '';
    private float $beganAt = 0.0;
    private float $seconds = 0.0;

    public function __construct(private \Closure $call, public readonly string $licenseKey, private string $holder,
        private ?int $length) {}

    /** False when the place is lost: it was not renewed in time, or the server gave it to another. */
    public function isHeld(): bool {
        return hrtime(true) / 1e9 < $this->beganAt + $this->seconds;
    }

    /** Whether half of its time has passed. */
    public function isDue(): bool {
        return hrtime(true) / 1e9 >= $this->beganAt + $this->seconds / 2;
    }

    /** Take it, or renew it. Throws Refused: with a problem, the place is lost. */
    public function renew(): void {
        $beganAt = hrtime(true) / 1e9;
        $request = ['holder' => $this->holder, 'seconds' => $this->length];
        try {
            $claims = ($this->call)($this->id ? 'leases/renew' : 'leases', $request + ($this->id ? ['lease_id' => $this->id] : []));
        } catch (Refused $error) {
            $this->seconds = $error->problem === null ? $this->seconds : 0.0;
            throw $error;
        }
        $lease = $claims->lease ?? null;
        $end = is_string($lease->expires_at ?? null) ? strtotime($lease->expires_at) : false;
        $claims->valid && is_string($lease->id ?? null) && $end !== false || throw new Refused('The answer has no lease: payload.');
        // A lease that is shared is the same place for many: what is between may not ask in another's name.
        ($lease->holder ?? null) === $this->holder || throw new Refused('The answer is for another holder: question.');
        [$this->id, $this->beganAt, $this->seconds] = [$lease->id, $beganAt, (float) ($end - $claims->iat)];
    }

    /** Give it back. Where the server cannot be told, it ends by itself. */
    public function release(): void {
        [$id, $this->id, $this->seconds] = [$this->id, '', 0.0];
        try {
            ($this->call)('leases/release', ['lease_id' => $id]);
        } catch (Refused) {
        }
    }
}

/** A program's license: on this device, kept between starts, and asked about when it is time. */
final class Keywright {
    private const STATES = [
        'disabled' => 'disabled', 'inactive' => 'disabled', 'expired' => 'expired', 'version_not_covered' => 'expired',
        'limit_reached' => 'limit_reached', 'too_many_new_devices' => 'limit_reached', 'no_removal_left' => 'limit_reached',
        'lease_lost' => 'no_lease', 'lease_required' => 'no_lease',
    ];
    /** What the customer is told at no_lease. */
    private const NO_LEASE = 'This program has no place in the shared license. '
        . 'Start the program again; where every place is taken, end it on another device first.';
    /** What a kept answer means that breaks a rule: it was copied, or made for another program; else it was altered. */
    private const FOREIGN = [
        'device' => 'not_activated', 'license_key' => 'not_activated', 'audience' => 'not_activated',
        'issuer' => 'not_activated', 'build' => 'unreachable_too_long',
    ];

    private const MAX_ANSWER = 1 << 20;
    /** When the call that runs has to return, on a clock that does not jump. */
    private float $endsAt = 0.0;
    /** @var Lease[] */
    private array $leases = [];
    /** Why nothing was activated, for the next check. */
    private ?Refused $refused = null;

    /**
     * $publicKeys are those that the program pins; $path is the file where the license is kept; $fingerprint names
     * the device: 8 to 256 characters, no serial number; $builtAt is a time like 2026-11-22T08:54:00Z; $timeout is of a
     * whole call, in seconds.
     */
    public function __construct(private string $url, private array $publicKeys, private string $path,
        private string $fingerprint, private ?string $product = null, private ?string $appVersion = null,
        private ?string $issuer = null, private float $timeout = 10, private ?string $builtAt = null) {}

    /**
     * Whether the license is good now: asks the server when it is time, else uses what is kept. An object with valid,
     * state (one of those in the README), claims (or null), detail, is_offline and devices. It throws nothing.
     */
    public function check(): object {
        $this->begin();
        [$kept, $claims, $state, $detail] = $this->look();
        $isEarly = time() < strtotime($claims->next_check_at ?? '1970-01-01');
        if ($kept->license_key === '' || ($claims?->valid && $isEarly)) {
            return self::status($state, $claims, $detail);
        }
        $isOurs = fn(Lease $one) => $one->isHeld() && $one->licenseKey === $kept->license_key;
        $held = array_filter($this->leases, $isOurs);
        $members = ['lease_id' => $held ? end($held)->id : null];
        try {
            $answer = $this->ask('validate', $kept, $members);
            if ($claims?->valid && !$answer->claims->valid && self::stateOf($answer->claims) !== 'no_lease') {
                // A "no" is asked for again before it takes the place of what is kept.
                $answer = $this->ask('validate', $kept, $members);
            }
            return $this->keep($answer);
        } catch (\Throwable $problem) {
            $state = $claims?->valid ? 'unreachable_but_valid_until' : $state;
            return self::status($state, $claims, $detail ?: $problem->getMessage(), true);
        }
    }

    /**
     * Take a place for this device. A refusal changes nothing that is kept. Where nothing can be kept, no place is
     * taken: the program would ask for its license key at each start. The result for a full license may have devices to
     * choose from; $remove is then the id of the one that gives its place.
     */
    public function activate(string $licenseKey, ?string $name = null, ?int $remove = null): object {
        $this->begin();
        return $this->take(fn() => $licenseKey, $name, $remove);
    }

    /**
     * Start this device's trial of the product, or get the one that it has, and keep it as activate does. $policy is a
     * number, where the product has several for trials. A refusal changes nothing that is kept.
     */
    public function startTrial(?int $policy = null, ?string $email = null, ?string $name = null): object {
        $this->begin();
        $request = ['product' => $this->product, 'fingerprint' => $this->fingerprint, 'policy' => $policy, 'email' => $email]
            + ['app_version' => $this->appVersion, 'built_at' => $this->builtAt];
        return $this->take(function () use ($request): string {
            $key = json_decode($this->send('POST', 'trials', self::encode($request)))->license->key ?? null;
            return is_string($key) ? $key : throw new Refused('What answers is no Keywright server.');
        }, $name);
    }

    /**
     * Take a lease of a floating license. $holder names who has it, in place of a random name; $seconds is for how long;
     * $licenseKey is needed where nothing was activated. Throws Refused ($problem: no_free_lease …).
     */
    public function lease(?string $holder = null, ?int $seconds = null, ?string $licenseKey = null): Lease {
        [$kept] = $this->look();
        $key = $licenseKey ?? $kept->license_key;
        $call = function (string $path, array $members) use ($kept, $key): ?object {
            $this->begin();
            $kept->license_key = $key;
            if ($path === 'leases/release') {
                $this->send('POST', $path, self::encode(['license_key' => $key] + $members));
                return null;
            }
            return $this->ask($path, $kept, $members)->claims;
        };
        $lease = new Lease($call, $key, $holder ?? bin2hex(random_bytes(12)), $seconds);
        $lease->renew();
        $this->leases = [...array_filter($this->leases, fn(Lease $one) => $one->id !== ''), $lease];
        return $lease;
    }

    /** Activate the license key that is found then, and keep the answer. */
    private function take(\Closure $findKey, ?string $name, ?int $remove = null): object {
        [$kept, , $state, $detail] = $this->look();
        $trouble = $state === 'no_storage' ? $detail : $this->write('', true);
        if ($trouble !== '') {
            return self::status('no_storage', null, $trouble);
        }
        try {
            $kept->license_key = $findKey();
            return $this->keep($this->ask('activate', $kept, ['name' => $name, 'remove' => $remove]));
        } catch (Refused $problem) {
            $state = self::STATES[$problem->problem ?? ''] ?? 'not_activated';
            $isOffline = $problem->problem === null;
            $this->refused = $isOffline ? $this->refused : $problem;
            $state = $isOffline ? 'unreachable_too_long' : $state;
            return self::status($state, null, $problem->getMessage(), $isOffline, $problem->devices);
        }
    }

    /** Give the place up, and forget the license. Throws Refused. */
    public function deactivate(): void {
        $this->begin();
        [$kept] = $this->look();
        $device = ['license_key' => $kept->license_key, 'fingerprint' => $this->fingerprint];
        $this->send('POST', 'deactivate', json_encode($device));
        unlink($this->path);
    }

    private function begin(): void {
        $this->endsAt = hrtime(true) / 1e9 + $this->timeout;
    }

    /**
     * [what is kept, its claims where they can be believed, the state that it leads to by itself, why nothing can be
     * kept]. Keeps the highest time seen.
     */
    private function look(): array {
        $kept = (object) ['license_key' => '', 'answer' => '', 'key_sets' => [], 'latest' => 0];
        clearstatcache();
        $folder = dirname($this->path);
        if (!file_exists($this->path) && (!file_exists($folder) || (is_dir($folder) && is_readable($folder)))) {
            return [$kept, null, 'not_activated', (string) $this->refused?->getMessage()];
        }
        $text = is_file($this->path) ? @file_get_contents($this->path) : false;
        if ($text === false) {
            return [$kept, null, 'no_storage', "The license cannot be kept: {$this->path} cannot be read."];
        }
        foreach ((array) json_decode($text) as $name => $value) {
            if (isset($kept->$name) && gettype($kept->$name) === gettype($value)) {
                $kept->$name = $value;
            }
        }
        try {
            $claims = $this->verify($kept, []);
        } catch (VerificationError $error) {
            return [$kept, null, self::FOREIGN[$error->rule] ?? 'tampered', ''];
        }
        if (time() < max($claims->iat, $kept->latest) - Verifier::TOLERANCE) {
            return [$kept, null, 'clock_moved_back', ''];
        }
        if (time() >= $claims->exp) {
            return [$kept, null, 'unreachable_too_long', ''];
        }
        if (time() > $kept->latest + 60) {
            $kept->latest = time();
            // Without it, a clock that is set back again and again would make the answer last for ever.
            if (($trouble = $this->write(self::encode($kept))) !== '') {
                return [$kept, null, 'no_storage', $trouble];
            }
        }
        return [$kept, $claims, self::stateOf($claims), ''];
    }

    private function verify(object $kept, array $asked): object {
        [$keys] = Verifier::followKeySets($this->publicKeys, $kept->key_sets, PHP_INT_MIN);
        return Verifier::verify($kept->answer, $keys, null, $this->product, $kept->license_key, $this->fingerprint,
            ...$asked, issuer: $this->issuer, builtAt: $this->builtAt);
    }

    /** What is to be kept, with its claims. Throws Refused for every answer that is not a good one. */
    private function ask(string $call, object $kept, array $members = []): object {
        $nonce = Verifier::encode(random_bytes(18));
        $program = ['license_key' => $kept->license_key, 'fingerprint' => $this->fingerprint, 'nonce' => $nonce]
            + ['product' => $this->product, 'app_version' => $this->appVersion, 'built_at' => $this->builtAt] + $members;
        $body = self::encode(array_filter($program, fn($value) => $value !== null));
        $asked = ['nonce' => $nonce, 'operation' => $call, 'body' => $body, 'isPlaceNeeded' => !str_starts_with($call, 'leases')];
        $kept->answer = $this->send('POST', $call, $body);
        try {
            try {
                $kept->claims = $this->verify($kept, $asked);
            } catch (VerificationError $error) {
                $error->rule === 'header' || throw $error;
                $learnt = json_decode($this->send('GET', 'signing-keys', ''))->keys ?? null;
                $all = array_merge($kept->key_sets, is_array($learnt) ? $learnt : []);
                [, $kept->key_sets] = Verifier::followKeySets($this->publicKeys, $all, time());
                $kept->claims = $this->verify($kept, $asked);
            }
        } catch (VerificationError $error) {
            throw new Refused($error->getMessage());
        }
        return $kept;
    }

    private function keep(object $answer): object {
        if (self::stateOf($answer->claims) === 'no_lease') {
            // It is about this program, not the license: what is kept stays.
            return self::status('no_lease', $answer->claims, self::NO_LEASE);
        }
        // The server's clock is believed: that of this device may be wrong.
        $known = ['license_key' => $answer->license_key, 'answer' => $answer->answer, 'key_sets' => $answer->key_sets];
        $trouble = $this->write(self::encode($known + ['latest' => $answer->claims->iat]));
        return self::status(self::stateOf($answer->claims), $answer->claims, $trouble);
    }

    /** Keep this text, written at once or not at all; '', or why it cannot be. A trial only finds that out. */
    private function write(string $text, bool $isTrial = false): string {
        $beside = $this->path . '.' . bin2hex(random_bytes(6));
        $isWritten = ($file = @fopen($beside, 'x')) && chmod($beside, 0600) && fwrite($file, $text) === strlen($text)
            && fclose($file) && ($isTrial ? unlink($beside) : @rename($beside, $this->path));
        if (!$isWritten) {
            @unlink($beside);
        }
        return $isWritten ? '' : "The license cannot be kept: {$this->path} cannot be written.";
    }

    /** The text of a good answer. Throws Refused. Not PHP's own HTTP: that follows redirects, and has no deadline. */
    private function send(string $method, string $path, string $body): string {
        $url = parse_url(rtrim($this->url, '/')) ?: [];
        $host = $url['host'] ?? '';
        $isSafe = ($url['scheme'] ?? '') === 'https';
        $port = $url['port'] ?? ($isSafe ? 443 : 80);
        $head = [$method . ' ' . ($url['path'] ?? '') . "/v3/$path HTTP/1.0", "Host: $host" . (isset($url['port']) ? ":$port" : ''), 'Connection: close',
            'Accept: application/jwt, application/problem+json, */*;q=0.1', 'Content-Type: application/json',
            'Content-Length: ' . strlen($body)];
        $tls = ['ssl' => ['peer_name' => trim($host, '[]')]];
        $left = max(0.001, $this->endsAt - hrtime(true) / 1e9);
        $socket = @stream_socket_client("tcp://$host:$port", $code, $error, $left, STREAM_CLIENT_CONNECT,
            stream_context_create($tls));
        $socket || throw new Refused('The license server cannot be reached.');
        stream_set_blocking($socket, false);
        $versions = STREAM_CRYPTO_METHOD_TLSv1_2_CLIENT | STREAM_CRYPTO_METHOD_TLSv1_3_CLIENT;
        while ($isSafe && ($isDone = @stream_socket_enable_crypto($socket, true, $versions)) !== true) {
            $isDone === 0 || throw new Refused('The license server cannot be reached: its certificate is not trusted.');
            $this->wait($socket);
        }
        for ($rest = implode("\r\n", [...$head, '', $body]); $rest !== ''; $rest = substr($rest, $sent)) {
            $sent = @fwrite($socket, $rest);
            $sent !== false || throw new Refused('The license server cannot be reached.');
            $sent > 0 || $this->wait($socket, isForWriting: true);
        }
        for ($answer = ''; !feof($socket) && strlen($answer) <= self::MAX_ANSWER; $answer .= $part) {
            $part = (string) @fread($socket, 65_536);
            $part !== '' || feof($socket) || $this->wait($socket);
        }
        return self::read($answer);
    }

    /** Wait until the server goes on. Throws Refused at the deadline. */
    private function wait(mixed $socket, bool $isForWriting = false): void {
        $left = $this->endsAt - hrtime(true) / 1e9;
        $left > 0 || throw new Refused('The license server did not answer in time.');
        [$read, $write, $none] = $isForWriting ? [null, [$socket], null] : [[$socket], null, null];
        @stream_select($read, $write, $none, (int) $left, (int) (fmod($left, 1) * 1e6));
    }

    /** The body of a whole good answer. Throws Refused. */
    private static function read(string $answer): string {
        [$head, $text] = explode("\r\n\r\n", $answer, 2) + [1 => ''];
        $isWhole = preg_match('~^HTTP/1\.\d (\d{3})~', $head, $first) && strlen($answer) <= self::MAX_ANSWER
            && (!preg_match('~\ncontent-length: *(\d+)~i', $head, $length) || strlen($text) === (int) $length[1]);
        $isWhole || throw new Refused('The answer of the license server is cut off, too long, or none.');
        $status = (int) $first[1];
        if ($status >= 200 && $status < 300) {
            return $text;
        }
        $problem = json_decode($text);
        $isRefusal = $status >= 400 && $status < 500 && $status !== 429 && is_string($problem->code ?? null);
        $detail = $isRefusal && is_string($problem->detail ?? null) ? $problem->detail : "The license server answered $status.";
        $devices = $isRefusal && is_array($problem->devices ?? null) ? $problem->devices : [];
        throw new Refused($detail, $isRefusal ? $problem->code : null, $devices);
    }

    private static function encode(array|object $value): string {
        return json_encode($value, JSON_INVALID_UTF8_SUBSTITUTE);
    }

    /** The state that an answer leads to by itself. */
    public static function stateOf(object $claims): string {
        $isGrace = in_array('grace', (array) ($claims->codes ?? []), true);
        $code = is_string($claims->code ?? null) ? $claims->code : '';
        return $claims->valid ? ($isGrace ? 'grace' : 'valid') : self::STATES[$code] ?? 'not_activated';
    }

    private static function status(string $state, ?object $claims, string $detail = '', bool $isOffline = false,
        array $devices = []): object {
        $valid = in_array($state, ['valid', 'grace', 'unreachable_but_valid_until'], true);
        return (object) ['valid' => $valid, 'state' => $state, 'claims' => $claims, 'detail' => $detail,
            'is_offline' => $isOffline, 'devices' => $devices];
    }
}
