#!/usr/bin/env bash
# Makes a virtual environment from FOLDER/requirements.txt beside a Python function, if it is out of date.
#
#   functions/clients/virtualenv.sh FOLDER      FLINT_PYTHON is the interpreter, python3 if nobody says
#
# Compiled packages belong to one Python version; the function is run by the version that made its environment.
set -euo pipefail
cd "$1"
python=${FLINT_PYTHON:-python3}
print=$({ cat requirements.txt; "$python" -c 'import sys; print(sys.implementation.cache_tag)'; } | sha256sum)
[ "$(cat virtualenv/.built 2> /dev/null)" != "$print" ] || exit 0
rm -rf virtualenv
"$python" -m venv virtualenv
virtualenv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt
virtualenv/bin/python -m pip uninstall --quiet --yes --disable-pip-version-check setuptools pip 2> /dev/null || true
echo "$print" > virtualenv/.built
