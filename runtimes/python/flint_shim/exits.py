"""Exit statuses of a shim that ends by itself."""

EXIT_FAILED = 1
EXIT_PROTOCOL = 3
