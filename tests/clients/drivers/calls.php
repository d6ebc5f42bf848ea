<?php
// Makes calls with the client for PHP, one after the other; see tests/clients/library.py.

declare(strict_types=1);

require __DIR__ . '/../../../clients/php/keywright.php';

[, $timeout, $publicKey, $device] = $argv;
$made = [];
foreach (json_decode(file_get_contents('php://stdin')) as $one) {
    $began = hrtime(true);
    $keywright = new Keywright\Keywright($one->url, [$publicKey], $one->file, $device, 'editor', timeout: (float) $timeout);
    $status = $one->call === 'check' ? $keywright->check() : $keywright->activate($one->license_key);
    $made[] = ['valid' => $status->valid, 'state' => $status->state, 'detail' => $status->detail,
        'seconds' => (hrtime(true) - $began) / 1e9];
}
echo json_encode($made), "\n";
