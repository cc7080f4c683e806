# Reads the list of files (`kind path`, and `least per-cent`), then lcov's records; prints the table
# of lines and fails where too few of them ran. `prefix` is the folder that paths are relative to.

FNR == NR && $1 == "least" { least = $2; next }
FNR == NR && !($2 in kind) { order[++files] = $2 }
FNR == NR { if (kind[$2] != "safety") kind[$2] = $1; next }

/^SF:/ { file = substr($0, 4); sub(prefix, "", file) }
/^DA:/ {
    split(substr($0, 4), line, ",")
    lines[file]++
    crate_lines++
    if (line[2] > 0) { ran[file]++; crate_ran++ } else missed[file] = missed[file] " " line[1]
}

function share(part, whole) { return whole ? sprintf("%.1f %%", int(1000 * part / whole) / 10) : "-" }

# "1 2 3 7" becomes " 1-3 7"; at most eight ranges.
function ranges(list,    numbers, count, i, first, text, shown) {
    count = split(list, numbers, " ")
    for (i = 1; i <= count; i++) {
        first = numbers[i]
        while (i < count && numbers[i + 1] == numbers[i] + 1) i++
        if (++shown > 8) return text " …"
        text = text " " (first == numbers[i] ? first : first "-" numbers[i])
    }
    return text
}

END {
    printf "%-38s %6s %6s %8s  %s\n", "crates/core/src/", "lines", "ran", "share", "not run (safety: all must)"
    for (i = 1; i <= files; i++) {
        file = order[i]
        all += lines[file]
        all_ran += ran[file]
        unsafe = kind[file] == "safety" && ran[file] < lines[file]
        failures += unsafe
        printf "%-38s %6d %6d %8s  %s%s\n", file, lines[file], ran[file], share(ran[file], lines[file]),
            kind[file] == "safety" ? (unsafe ? "SAFETY:" : "safety") : "", ranges(missed[file])
    }
    printf "%-38s %6d %6d %8s\n", "all of these", all, all_ran, share(all_ran, all)
    printf "%-38s %6d %6d %8s\n", "the whole crate", crate_lines, crate_ran, share(crate_ran, crate_lines)
    if (!all) { print "coverage: no line was counted" > "/dev/stderr"; exit 1 }
    if (100 * all_ran < least * all) {
        print "coverage: under " least " % of the lines ran; see target/coverage/html/index.html" > "/dev/stderr"
        exit 1
    }
    if (failures) {
        print "coverage: " failures " safety file(s) with lines that no test runs" > "/dev/stderr"
        exit 1
    }
}
