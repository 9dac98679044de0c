#!/bin/sh
# Runs the tests of all shims with every interpreter found on this machine; what is missing is said.
# FLINT_TEST_RELEASES=1 adds the releases of Node.js that tests/runtimes/interpreters.py has fetched.
# The last line is "N passed, N failed"; the exit status is 1 when something failed.
exec python3 "$(dirname "$0")/conformance/run_all.py"
