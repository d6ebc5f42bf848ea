<?php
// Activates, and checks: php example.php URL LICENSE_KEY PUBLIC_KEY FILE DEVICE; prints a line of JSON for each.

declare(strict_types=1);

require __DIR__ . '/keywright.php';

[, $url, $licenseKey, $publicKey, $path, $device] = $argv;
$keywright = new Keywright\Keywright($url, [$publicKey], $path, $device);
$show = function (object $status): void {
    echo json_encode(['valid' => $status->valid, 'state' => $status->state, 'detail' => $status->detail]), "\n";
};
$show($keywright->check());
$show($keywright->activate($licenseKey, 'Example'));
$show($keywright->check());
