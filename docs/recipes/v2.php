<?php
// The four calls of v2, with nothing but PHP 8: php v2.php URL LICENSE-KEY

declare(strict_types=1);

/** The answer's data. Throws with the server's sentence for a refusal. */
function call(string $url, string $action, string $licenseKey, array $parameters = []): object
{
    $query = http_build_query($parameters);
    $address = "$url/wp-json/lmfwc/v2/licenses/$action/" . rawurlencode($licenseKey) . "?$query";
    $options = ['header' => 'Accept: application/json', 'timeout' => 10, 'ignore_errors' => true];
    $body = @file_get_contents($address, false, stream_context_create(['http' => $options]));
    $answer = json_decode($body === false ? 'null' : $body);
    if (!($answer->success ?? false)) {
        throw new RuntimeException($answer->message ?? 'The license server cannot be reached.');
    }
    return $answer->data;
}

[, $url, $licenseKey] = $argv;
$activated = call($url, 'activate', $licenseKey, ['label' => 'My computer']);
$token = $activated->activationData->token;
echo 'activated: ', $activated->timesActivated, "\n";
echo 'validated: ', call($url, 'validate', $licenseKey)->timesActivated, "\n";
echo 'deactivated: ', call($url, 'deactivate', $licenseKey, ['token' => $token])->timesActivated, "\n";
echo 'reactivated: ', call($url, 'activate', $licenseKey, ['token' => $token])->timesActivated, "\n";
