#!/usr/bin/env bash
# Checks what readers meet: comments of Rust files have at most 100 columns, the README has at most
# 120 lines, and files and tests that comments and pages name are in the repository. Prints each place
# that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

most_columns=100
most_lines=120
failed=0

# Tracked and new files; not what git ignores.
listed() { git ls-files --cached --others --exclude-standard -- "$@" | sort -u; }
complain() {
    echo "$1" >&2
    failed=1
}

export LC_ALL=C.UTF-8
mapfile -t rust < <(listed '*.rs' | while read -r file; do [[ -f $file ]] && echo "$file"; done)
mapfile -t pages < <(listed '*.md' | while read -r file; do [[ -f $file ]] && echo "$file"; done)

# Tables, drawings in fences and lines with an address cannot be broken. Bytes that go on a character
# of UTF-8 are not counted.
while IFS= read -r place; do
    complain "$place: a comment of more than $most_columns columns: break the line"
done < <(printf '%s\0' ${rust[@]+"${rust[@]}"} | LC_ALL=C xargs -0r awk -v most="$most_columns" '
    FNR == 1 || !/^ *\/\// { fence = 0 }
    /^ *\/\// {
        text = $0
        sub(/^ *\/\/[\/!]? ?/, "", text)
        if (text ~ /^ *```/) fence = !fence
        line = $0
        gsub(/[\200-\277]/, "", line)
        if (length(line) > most && !fence && text !~ /^ *\|/ && $0 !~ /[a-z]:\/\//)
            print FILENAME ":" FNR
    }')

if [[ -f README.md ]] && (($(wc -l <README.md) > most_lines)); then
    complain "README.md: $(wc -l <README.md) lines, more than $most_lines: shorten it"
fi

# Paths below these folders, in comments and pages: as they stand, or as the start of a file's name.
named='(docs|ci|specs|experiments|tests/scripts|examples|bindings|crates/[a-z-]+/(src|tests|examples))'
while IFS=: read -r file line path; do
    path="${path%[.,:;]}"
    compgen -G "$path" >/dev/null && continue
    complain "$file:$line: \`$path\` is not in the repository"
done < <(grep -noE "(^|[ \`(\"])$named/[A-Za-z0-9_./*-]*\.(md|rs|sh|txt|toml|html|tla|py|go|c)\b" \
    ${rust[@]+"${rust[@]}"} ${pages[@]+"${pages[@]}"} /dev/null |
    sed -E 's/^([^:]+:[0-9]+:)[ `("]/\1/' | sort -u)

# The short form `CRATE/tests/FILE.rs::TEST`: the file is in crates/, and the test in the file.
while IFS=: read -r file line cited; do
    path="crates/${cited%%::*}"
    test="${cited##*::}"
    if ! compgen -G "$path" >/dev/null; then
        complain "$file:$line: \`${cited%%::*}\` is in no crate"
    elif [[ $cited == *.rs::* ]] && ! grep -q "fn $test\b" "$path"; then
        complain "$file:$line: $path has no test \`$test\`"
    fi
done < <(grep -noE '`[a-z-]+/(src|tests|examples)/[A-Za-z0-9_./*-]+(::[A-Za-z0-9_:]+)?`' \
    ${rust[@]+"${rust[@]}"} ${pages[@]+"${pages[@]}"} /dev/null | tr -d '`' | sort -u)

# Links of pages, from the page's folder.
for page in ${pages[@]+"${pages[@]}"}; do
    folder="$(dirname "$page")"
    while IFS=: read -r line target; do
        target="${target%%#*}"
        [[ -z $target || -e $folder/$target ]] && continue
        complain "$page:$line: the link to $target leads nowhere"
    done < <(grep -noE '\]\([^)# ]+[^) ]*\)' "$page" | sed -E 's/^([0-9]+):\]\((.*)\)$/\1:\2/' |
        grep -vE '^[0-9]+:(https?|mailto):' || true)
done

exit "$failed"
