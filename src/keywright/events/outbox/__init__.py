"""What waits to leave: written in the transaction of its cause, sent after its commit."""
