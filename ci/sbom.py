#!/usr/bin/env python3
"""Prints what is compiled into the program for production, as SPDX 2.3 in JSON."""
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


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
            "licenseDeclared": licence,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:cargo/{name}@{version}"}],
        }
        if sums.get((name, version)):
            entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": sums[(name, version)]}]
        packages.append(entry)
    made = subprocess.run(["git", "log", "-1", "--format=%cI"], cwd=ROOT, capture_output=True, text=True)
    json.dump({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": "quorate",
        "documentNamespace": "urn:quorate:sbom",
        "creationInfo": {"created": made.stdout.strip() or "1970-01-01T00:00:00Z",
                         "creators": ["Tool: ci/sbom.py"]},
        "packages": packages,
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
