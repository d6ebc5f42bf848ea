<?php
// Stands in for WordPress where that is the host: its options, hooks and HTTP. It runs the code of the how-to as WordPress 5.8 and
// later do (wp_update_plugins), and prints what came of it as JSON. Arguments: the code, the server, the license key, the steps.
[, $code, $server, $key] = $argv;
$options = [];
$filters = [];
$address = 'https://www.Example.com/blog/';

class WP_Error {}
function is_wp_error($thing) { return $thing instanceof WP_Error; }
function add_filter($name, $function, $priority = 10, $arguments = 1) { global $filters; $filters[$name][] = $function; }
function get_option($name, $default = false) { global $options; return $options[$name] ?? $default; }
function update_option($name, $value, $autoload = null) { global $options; $options[$name] = $value; return true; }
function home_url() { global $address; return $address; }
function untrailingslashit($text) { return rtrim($text, '/\\'); }
function wp_json_encode($value) { return json_encode($value); }
function wp_parse_url($url, $part = -1) { return parse_url($url, $part); }
function get_bloginfo($what) { return '6.8.1'; }
function add_query_arg($arguments, $url) {
	$parts = [];
	foreach ($arguments as $name => $value) { $parts[] = "$name=$value"; }
	return $url . (str_contains($url, '?') ? '&' : '?') . implode('&', $parts);
}
function send($method, $url, $given) {
	global $address;
	$headers = ["User-Agent: WordPress/6.8.1; $address"];
	foreach ($given['headers'] ?? [] as $name => $value) { $headers[] = "$name: $value"; }
	$body = $given['body'] ?? '';
	if (is_array($body)) { $headers[] = 'Content-Type: application/x-www-form-urlencoded'; }
	$http = ['method' => $method, 'header' => implode("\r\n", $headers), 'ignore_errors' => true, 'timeout' => 20];
	$context = stream_context_create(['http' => $http + ['content' => is_array($body) ? http_build_query($body) : $body]]);
	$found = @file_get_contents($url, false, $context);
	if ($found === false) { return new WP_Error(); }
	preg_match('#^HTTP/\S+ (\d+)#', $http_response_header[0], $status);
	return ['response' => ['code' => (int) $status[1]], 'body' => $found];
}
function wp_remote_post($url, $given = []) { return send('POST', $url, $given); }
function wp_remote_get($url, $given = []) { return send('GET', $url, $given); }
function wp_remote_retrieve_body($response) { return $response['body']; }
function wp_remote_retrieve_response_code($response) { return $response['response']['code']; }

set_error_handler(function ($number, $text) { throw new ErrorException($text); });
eval(str_replace('https://licenses.example.com', $server, file_get_contents($code)));

function look($version, $file = 'paint/paint.php') {
	global $filters, $server;
	$found = false;
	foreach ($filters['update_plugins_' . parse_url($server, PHP_URL_HOST)] as $function) {
		$found = $function($found, ['Version' => $version, 'UpdateURI' => "$server/paint"], $file, ['en_US']);
	}
	if (!$found) { return null; }
	// As wp_update_plugins() goes on.
	$found = (object) $found;
	if (!isset($found->version)) { return null; }
	$found->new_version = $found->new_version ?? $found->version;
	$found->is_newer = version_compare($found->new_version, $version, '>');
	return $found;
}
// As EDD_SL_Plugin_Updater 1.9.4 (POST) and the SDK (GET) ask, and what they touch of an answer.
function edd($action, $fields, $method = 'POST') {
	global $server, $key;
	$all = ['edd_action' => $action, 'license' => $key, 'item_name' => 'Paint', 'url' => home_url()];
	$all = array_merge($all, ['environment' => 'production'], $fields);
	$found = $method === 'POST'
		? wp_remote_post("$server/edd", ['body' => $all])
		: wp_remote_get(add_query_arg(array_map('rawurlencode', array_merge($all, ['url' => rawurlencode(home_url())])), "$server/"));
	if ($found['response']['code'] !== 200) { throw new Exception($found['body']); }
	return json_decode($found['body']);
}
function edd_version($fields, $method = 'POST') {
	$about = ['version' => '1.0', 'slug' => 'paint', 'author' => 'A', 'beta' => false, 'php_version' => PHP_VERSION];
	$found = edd('get_version', array_merge($about, ['wp_version' => get_bloginfo('version')], $fields), $method);
	$out = ['new_version' => $found->new_version, 'name' => $found->name ?? null];
	foreach (['sections', 'banners', 'icons'] as $name) {
		$out[$name] = is_string($found->$name) && $found->$name !== '' ? unserialize($found->$name) : $found->$name;
	}
	$out['zip'] = $found->package === '' ? null : md5(file_get_contents($found->package));
	return $out;
}

$told = paint_activate($key);
$update = look('1.0');
$current = look('1.1');
$zip = $update && $update->package ? md5(file_get_contents($update->package)) : null;
$edd = [
	'activated' => edd('activate_license', []),
	'posted' => edd_version([]),
	'got' => edd_version([], 'GET'),
	'failed' => edd_version(['license' => 'no-such-key']),
	'deactivated' => edd('deactivate_license', [], 'GET'),
];
echo json_encode([
	'activated' => $told,
	'edd' => $edd,
	'wrong' => paint_activate('no-such-key'),
	'update' => $update,
	'current' => $current,
	'other' => look('1.0', 'other/other.php'),
	'zip' => $zip,
]);
