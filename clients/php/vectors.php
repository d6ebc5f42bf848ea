<?php
// Runs the shared vectors: php vectors.php ../vectors; prints what differs, and figures.

declare(strict_types=1);

require __DIR__ . '/keywright.php';

use Keywright\Keywright;
use Keywright\VerificationError;
use Keywright\Verifier;

[$cases, $wrong, $slowest] = [0, 0, 0.0];
foreach (glob(($argv[1] ?? __DIR__ . '/../vectors') . '/*.json') as $file) {
    foreach (json_decode(file_get_contents($file))->cases as $one) {
        $began = microtime(true);
        $found = run($one);
        $slowest = max($slowest, microtime(true) - $began);
        $expected = $one->result === 'ok' ? 'ok ' . json_encode($one->valid) . " $one->state" : $one->result;
        $cases++;
        if ($found !== $expected) {
            $wrong++;
            echo basename($file), ": $one->name: $found, not $expected\n";
        }
    }
}
printf("%d cases, %d wrong, slowest %.1f ms\n", $cases, $wrong, $slowest * 1000);

// A good answer, each bit of it altered.
$good = json_decode(file_get_contents(($argv[1] ?? __DIR__ . '/../vectors') . '/formats.json'))->cases[0];
[$text, $altered, $accepted] = [$good->text, 0, 0];
for ($bit = 0; $bit < strlen($text) * 8; $bit++) {
    $good->text = $text;
    $good->text[$bit >> 3] = chr(ord($text[$bit >> 3]) ^ 1 << ($bit & 7));
    $altered++;
    $accepted += str_starts_with(run($good), 'ok') ? 1 : 0;
}
echo "$altered altered, $accepted accepted\n";
[$good->text, $began] = [$text, microtime(true)];
for ($time = 0; $time < 200; $time++) {
    run($good);
}
printf("one verification: %.3f ms\n", (microtime(true) - $began) * 5);
exit($wrong || !$cases || $accepted ? 1 : 0);

function run(object $one): string
{
    $text = $one->pad_to === null ? $one->text : str_pad($one->text, $one->pad_to);
    [$keys] = Verifier::followKeySets($one->public_keys, $one->key_sets, $one->now);
    try {
        $claims = Verifier::verify($text, $keys, $one->now, $one->product, $one->license_key, $one->fingerprint,
            $one->nonce, $one->issuer, $one->built_at, $one->operation, $one->body);
        return 'ok ' . json_encode($claims->valid) . ' ' . Keywright::stateOf($claims);
    } catch (VerificationError $error) {
        return $error->rule;
    }
}
