<?php
// Makes calls with the client for PHP, one after the other; see tests/clients/library.py.

declare(strict_types=1);

require __DIR__ . '/../../../clients/php/keywright.php';

[, $timeout, $publicKey, $device] = $argv;
$made = [];
foreach (json_decode(file_get_contents('php://stdin')) as $one) {
    $began = hrtime(true);
    $keywright = new Keywright\Keywright($one->url, [$publicKey], $one->file, $device, 'editor', timeout: (float) $timeout);
    $status = match ($one->call) {
        'check' => $keywright->check(),
        'trial' => $keywright->startTrial(),
        'activate' => $keywright->activate($one->license_key),
        'choose' => choose($keywright, $one->license_key),
        default => lease($keywright, $one),
    };
    $made[] = ['valid' => $status->valid, 'state' => $status->state, 'detail' => $status->detail,
        'seconds' => (hrtime(true) - $began) / 1e9];
}
echo json_encode($made), "\n";

function choose(Keywright\Keywright $keywright, string $key): object
{
    $full = $keywright->activate($key);
    $status = $keywright->activate($key, null, $full->devices[0]->id);
    $status->state = "$full->state $status->state";
    $status->detail = $full->devices[0]->name;
    return $status;
}

function lease(Keywright\Keywright $keywright, object $one): object
{
    try {
        $taken = $keywright->lease($one->holder ?: null, null, $one->license_key ?: null);
        if ($one->call === 'take') {
            return (object) ['valid' => $taken->isHeld() && !$taken->isDue(), 'state' => 'held', 'detail' => ''];
        }
        $taken->renew();
        [$status, $wasHeld] = [$keywright->check(), $taken->isHeld()];
        $taken->release();
        $status->valid = $status->valid && $wasHeld && !$taken->isHeld();
        return $status;
    } catch (Keywright\Refused $error) {
        return (object) ['valid' => false, 'state' => $error->problem ?? 'unreachable', 'detail' => $error->getMessage()];
    }
}
