"""The HTTP server: uvicorn, its protocol, worker processes and listening sockets. It knows no interface."""
