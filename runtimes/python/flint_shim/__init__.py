"""The shim's internal package; the names for functions are in `flint`."""
