#!/usr/bin/env python3
"""Prints what is compiled into the program for production, as SPDX 2.3 in JSON."""
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commit_of() -> tuple[str, str]:
    """The newest commit, and its time as SPDX writes it: in UTC, to the second."""
    said = subprocess.run(["git", "log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%H %cd"],
                          cwd=ROOT, capture_output=True, text=True, env={**os.environ, "TZ": "UTC"})
    commit, _, made = said.stdout.strip().partition(" ")
    return commit or "unknown", made or "1970-01-01T00:00:00Z"


def relation(one: str, kind: str, other: str) -> dict:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def main() -> None:
    command = ["cargo", "tree", "--locked", "-p", "quorate", "--no-default-features", "-e", "normal",
               "--prefix", "none", "--format", "{p}\t{l}"]
    tree = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(p["name"], p["version"]): p.get("checksum") for p in lock}
    found = {}
    for line in tree.splitlines():
        package, _, licence = line.replace(" (*)", "").partition("\t")
        name, version = package.split()[:2]
        found[(name, version.lstrip("v"))] = licence.replace("/", " OR ") or "NOASSERTION"
    packages = []
    for (name, version), licence in sorted(found.items()):
        entry = {
            "SPDXID": f"SPDXRef-{name.replace('_', '-')}-{version.replace('+', '-')}",
            "name": name,
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseDeclared": licence,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:cargo/{name}@{version}"}],
        }
        if sums.get((name, version)):
            entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": sums[(name, version)]}]
        packages.append(entry)
    commit, made = commit_of()
    root = next(entry for entry in packages if entry["name"] == "quorate")
    rest = [entry["SPDXID"] for entry in packages if entry is not root]
    json.dump({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"quorate-{root['versionInfo']}",
        "documentNamespace": f"urn:quorate:sbom:{root['versionInfo']}:{commit}",
        "creationInfo": {"created": made, "creators": ["Tool: ci/sbom.py"]},
        "packages": packages,
        "relationships": [relation("SPDXRef-DOCUMENT", "DESCRIBES", root["SPDXID"])]
        + [relation(root["SPDXID"], "STATIC_LINK", other) for other in rest],
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
