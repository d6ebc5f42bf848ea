<?php
// Verify a delivery of Keywright (Standard Webhooks), with PHP alone.
//
// php webhook.php SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body

/** The delivery. Throws for one that is not Keywright's, or is older than five minutes. */
function verify_webhook(string $secret, string $id, string $timestamp, string $signature, string $body): array
{
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        throw new RuntimeException('too old');
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    // While a secret is replaced, there are several signatures.
    foreach (explode(' ', $signature) as $one) {
        if (hash_equals($expected, $one)) {
            return json_decode($body, true, 64, JSON_THROW_ON_ERROR);
        }
    }
    throw new RuntimeException('not signed with this secret');
}

if (PHP_SAPI === 'cli' && realpath($argv[0]) === __FILE__) {
    try {
        $delivery = verify_webhook($argv[1], $argv[2], $argv[3], $argv[4], file_get_contents('php://stdin'));
        echo $delivery['type'], ' ', $delivery['data']['license_id'], "\n";
    } catch (RuntimeException $problem) {
        fwrite(STDERR, "refused: {$problem->getMessage()}\n");
        exit(1);
    }
}
