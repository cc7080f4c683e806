#!/usr/bin/env bash
# dist.sh: what a release consists of, in target/dist: the static program for production, an archive
# and a Debian package of it with manual pages, completions and systemd units, a list of all that is
# compiled in (SPDX), and checksums. PROFILE=dev is quick, to see that it works.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

profile="${PROFILE:-release}"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)"
host="$(rustc -vV | sed -n 's/^host: //p')"
machine="${host%%-*}"
dist=target/dist
name="quorate-$version-$machine"
folder="$([[ $profile == dev ]] && echo debug || echo "$profile")"

# All of the C library inside: it runs on any Linux of this processor. In a folder of its own, as
# other flags compile all anew. These flags are added to those of .cargo/config.toml; RUSTFLAGS
# would replace them. The program names no folders of the machine that built it.
export CARGO_TARGET_DIR=target/static
flags="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUSTFLAGS"
export "$flags=-C target-feature=+crt-static --remap-path-prefix=$PWD=quorate \
    --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
cargo build --locked --profile "$profile" --target "$host" -p quorate --no-default-features
program="target/static/$host/$folder/quorate"
if ldd "$program" 2>/dev/null | grep -q '=>'; then
    echo "error: $program is not static" >&2
    exit 1
fi

rm -rf "$dist"
tree="$dist/$name"
install -D -m 0755 "$program" "$tree/usr/bin/quorate"
# What a debugger wants is beside the program, not in it: it is most of the size.
objcopy --only-keep-debug "$program" "$dist/$name.debug"
strip "$tree/usr/bin/quorate"
objcopy --add-gnu-debuglink="$dist/$name.debug" "$tree/usr/bin/quorate"
"$program" man "$tree/usr/share/man/man1"
gzip -9n "$tree"/usr/share/man/man1/*.1
install -d "$tree"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
"$program" completions bash >"$tree/usr/share/bash-completion/completions/quorate"
"$program" completions zsh >"$tree/usr/share/zsh/vendor-completions/_quorate"
"$program" completions fish >"$tree/usr/share/fish/vendor_completions.d/quorate.fish"
for unit in deploy/systemd/*.service; do
    install -D -m 0644 "$unit" "$tree/usr/lib/systemd/system/$(basename "$unit")"
done
doc="$tree/usr/share/doc/quorate"
install -D -m 0644 LICENSE "$doc/copyright"
install -m 0644 README.md THREAT_MODEL.md docs/operations.md docs/redis.md "$doc"
install -D -m 0644 deploy/prometheus/alerts.yml "$doc/prometheus/alerts.yml"
install -D -m 0644 deploy/grafana/quorate.json "$doc/grafana/quorate.json"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
ci/sbom.py >"$doc/quorate.spdx.json"

# The newest commit's time: the same sources give the same archive.
when="@$(git log -1 --format=%ct 2>/dev/null || date +%s)"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$when" -C "$dist" -czf "$dist/$name.tar.gz" "$name"
install -m 0755 "$tree/usr/bin/quorate" "$dist/quorate"
cp "$doc/quorate.spdx.json" "$dist/$name.spdx.json"

if command -v dpkg-deb >/dev/null; then
    architecture="$(dpkg --print-architecture)"
    install -d "$tree/DEBIAN"
    install -m 0755 deploy/debian/{postinst,prerm,postrm} "$tree/DEBIAN"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: quorate
Version: $version
Architecture: $architecture
Maintainer: Quorate maintainers <quorate@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Section: database
Priority: optional
Depends: passwd
Description: Byzantine-fault-tolerant replication
 A replicated service that keeps its promises while some of its machines lie,
 crash, or are cut off. With a gateway for Redis clients.
CONTROL
    dpkg-deb --root-owner-group --build "$tree" "$dist/quorate_${version}_$architecture.deb" >/dev/null
else
    ci/skip.sh "the Debian package" "there is no dpkg-deb" "run on Debian, or install dpkg"
fi
rm -rf "$tree"
(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
