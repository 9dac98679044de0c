#!/usr/bin/env bash
# Removes build artefacts of this repository, but never data/, which contains a server's data.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# A target directory outside the repository may be shared with other projects: only this one's artefacts are
# removed.
if have cargo; then
  if [ "$(target_dir .)" = "$PWD/target" ]; then cargo clean; else cargo clean --workspace; fi
fi
rm -rf out functions/samples/resize-node/node_modules functions/samples/resize-python/virtualenv
rm -rf functions/samples/*-java/build functions/samples/*-java/*.jar functions/samples/build
rm -rf functions/{openwhisk,photons,sebs,serverlessbench}/*/{build,*/node_modules,*/virtualenv,*/target}
rm -rf functions/java-faas/{build,target} functions/wasm/*/{target,node_modules,.venv}
[ ! -d data ] || note "data/ is kept: it holds the functions and activations of 'make run'"
