<?php
/**
 * As much of WordPress and WooCommerce as keywright.php uses. It runs the hooks that its standard input names, one
 * JSON array (hook, arguments ...) a line, and prints what has become of the order after each.
 */

define( 'ABSPATH', '/' );
define( 'KEYWRIGHT_URL', $argv[2] );
define( 'KEYWRIGHT_CONSUMER_KEY', $argv[3] );
define( 'KEYWRIGHT_CONSUMER_SECRET', $argv[4] );
define( 'KEYWRIGHT_GENERATORS', array( 101 => 1 ) );

$actions   = array();
$scheduled = array();

function add_action( $hook, $function, $priority, $arguments ) {
	global $actions;
	$actions[ $hook ] = $function;
}

function wp_schedule_single_event( $at, $hook, $arguments ) {
	global $scheduled;
	$scheduled[] = array( $hook, ...$arguments );
}

class Failure {
	public function get_error_message() {
		return 'connection refused';
	}
}

function wp_remote_request( $url, $options ) {
	$lines = array();
	foreach ( $options['headers'] as $name => $value ) {
		$lines[] = "$name: $value";
	}
	$http = array(
		'method'        => $options['method'],
		'header'        => $lines,
		'content'       => $options['body'],
		'ignore_errors' => true,
	);
	$body = @file_get_contents( $url, false, stream_context_create( array( 'http' => $http ) ) );
	return false === $body ? new Failure() : array( (int) explode( ' ', $http_response_header[0] )[1], $body );
}

function is_wp_error( $response ) {
	return $response instanceof Failure;
}

function wp_remote_retrieve_response_code( $response ) {
	return $response[0];
}

function wp_remote_retrieve_body( $response ) {
	return $response[1];
}

function wp_json_encode( $value ) {
	return json_encode( $value );
}

class Line {
	public $meta = array();
	private $id;
	private $product;
	private $quantity;

	public function __construct( $id, $product, $quantity ) {
		list( $this->id, $this->product, $this->quantity ) = array( $id, $product, $quantity );
	}

	public function get_id() {
		return $this->id;
	}

	public function get_product_id() {
		return $this->product;
	}

	public function get_variation_id() {
		return 0;
	}

	public function get_quantity() {
		return $this->quantity;
	}

	public function get_meta( $name ) {
		return $this->meta[ $name ] ?? '';
	}

	public function update_meta_data( $name, $value ) {
		$this->meta[ $name ] = $value;
	}

	public function save() {
	}
}

class Order {
	public $lines;
	public $notes = array();

	public function __construct() {
		$this->lines = array( new Line( 51, 101, 2 ), new Line( 52, 999, 1 ) );
	}

	public function get_id() {
		return 7001;
	}

	public function get_customer_id() {
		return 0;
	}

	public function get_items() {
		return $this->lines;
	}

	public function add_order_note( $text ) {
		$this->notes[] = $text;
	}
}

$order = new Order();

function wc_get_order( $id ) {
	global $order;
	return $order;
}

require $argv[1];

while ( false !== ( $line = fgets( STDIN ) ) ) {
	$call = json_decode( $line );
	$hook = array_shift( $call );
	if ( 'forget the keys' === $hook ) {
		$order->lines[0]->meta = array();
	} else {
		$actions[ $hook ]( ...$call );
	}
	echo json_encode(
		array(
			'meta'      => array_column( $order->lines, 'meta' ),
			'notes'     => $order->notes,
			'scheduled' => $scheduled,
		)
	), "\n";
}
