"""The shim's own package. What functions may use is in `flint`."""
