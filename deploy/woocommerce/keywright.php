<?php
/**
 * Plugin Name: Keywright licenses
 * Description: Asks Keywright for license keys when an order is complete, and disables them when it is refunded.
 *
 * Copy this file to wp-content/mu-plugins/, and set in wp-config.php where Keywright is, an API key with the
 * permission read_write, and which policy makes the keys of which product:
 *
 *     define( 'KEYWRIGHT_URL', 'https://licenses.example.com/wp-json/lmfwc/v2' );
 *     define( 'KEYWRIGHT_CONSUMER_KEY', 'ck_...' );
 *     define( 'KEYWRIGHT_CONSUMER_SECRET', 'cs_...' );
 *     define( 'KEYWRIGHT_GENERATORS', array( 101 => 1, 102 => 3 ) ); // product => policy
 *
 * The keys are stored with the line of the order, where the customer's mail and account page show them.
 */

defined( 'ABSPATH' ) || exit;

const KEYWRIGHT_META = 'License key';
// Minutes until the next try, after each failure.
const KEYWRIGHT_RETRIES = array( 1, 5, 15, 60, 240, 1440 );

add_action( 'woocommerce_order_status_completed', 'keywright_issue', 5, 1 );
add_action( 'keywright_issue_again', 'keywright_issue', 10, 2 );
add_action( 'woocommerce_order_status_refunded', 'keywright_disable', 10, 1 );

/**
 * Requests the keys for every line of the order that has none yet. It may run any number of times: the
 * Idempotency-Key belongs to the line, so a line gets its keys once.
 */
function keywright_issue( $order_id, $failures = 0 ) {
	$order   = wc_get_order( $order_id );
	$problem = '';
	foreach ( $order->get_items() as $item ) {
		$generators = KEYWRIGHT_GENERATORS;
		$product    = $item->get_variation_id() ? $item->get_variation_id() : $item->get_product_id();
		$generator  = $generators[ $product ] ?? $generators[ $item->get_product_id() ] ?? null;
		if ( null === $generator || $item->get_meta( KEYWRIGHT_META ) ) {
			continue;
		}
		$answer = keywright_call(
			'POST',
			"generators/$generator/generate",
			array(
				'amount'     => $item->get_quantity(),
				'order_id'   => $order->get_id(),
				'product_id' => $item->get_product_id(),
				'user_id'    => $order->get_customer_id() ? $order->get_customer_id() : null,
				'status'     => 'sold',
			),
			'order-line-' . $item->get_id()
		);
		if ( isset( $answer['problem'] ) ) {
			$problem = $answer['problem'];
			continue;
		}
		$keys = array_column( $answer['data'], 'licenseKey' );
		$item->update_meta_data( KEYWRIGHT_META, implode( "\n", $keys ) );
		$item->save();
	}
	if ( '' !== $problem ) {
		keywright_try_later( $order, (int) $failures, $problem );
	}
}

/** Disables the licenses of a refunded order. */
function keywright_disable( $order_id ) {
	$order = wc_get_order( $order_id );
	foreach ( $order->get_items() as $item ) {
		foreach ( array_filter( explode( "\n", (string) $item->get_meta( KEYWRIGHT_META ) ) ) as $key ) {
			$answer = keywright_call( 'PUT', 'licenses/' . rawurlencode( $key ), array( 'status' => 'disabled' ) );
			if ( isset( $answer['problem'] ) ) {
				$order->add_order_note( 'Keywright: a license was not disabled: ' . $answer['problem'] );
			}
		}
	}
}

/** Writes into the order's notes what went wrong, and tries again later. */
function keywright_try_later( $order, $failures, $problem ) {
	$minutes = KEYWRIGHT_RETRIES[ $failures ] ?? null;
	$next    = null === $minutes ? 'Set the order to "completed" again when it is mended.' : "Next try in $minutes min.";
	$order->add_order_note( "Keywright: no license keys: $problem $next" );
	if ( null !== $minutes ) {
		wp_schedule_single_event( time() + 60 * $minutes, 'keywright_issue_again', array( $order->get_id(), $failures + 1 ) );
	}
}

/** Returns the answer, with 'data'; or with 'problem', a sentence. */
function keywright_call( $method, $path, $fields, $idempotency_key = null ) {
	$headers = array(
		'Authorization' => 'Basic ' . base64_encode( KEYWRIGHT_CONSUMER_KEY . ':' . KEYWRIGHT_CONSUMER_SECRET ),
		'Content-Type'  => 'application/json',
	);
	if ( null !== $idempotency_key ) {
		$headers['Idempotency-Key'] = $idempotency_key;
	}
	$response = wp_remote_request(
		rtrim( KEYWRIGHT_URL, '/' ) . "/$path",
		array(
			'method'  => $method,
			'timeout' => 15,
			'headers' => $headers,
			'body'    => wp_json_encode( $fields ),
		)
	);
	if ( is_wp_error( $response ) ) {
		return array( 'problem' => 'it cannot be reached: ' . $response->get_error_message() . '.' );
	}
	$answer = json_decode( wp_remote_retrieve_body( $response ), true );
	$status = wp_remote_retrieve_response_code( $response );
	if ( 200 !== $status || ! isset( $answer['data'] ) ) {
		return array( 'problem' => "it answered $status: " . ( $answer['message'] ?? 'not in JSON' ) );
	}
	return $answer;
}
