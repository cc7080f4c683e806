#!/usr/bin/env python3
"""Writes two tables of docs/figures.md: how many figures have which verdict, counted from the page,
and what each study rests on, counted from its kept rows. With `--check`, it only compares them."""
import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "figures.md"
VERDICTS = ["holds", "holds in part", "does not hold", "not decided", "not shown here"]
MAIN = ["runs.csv", "results.csv", "threshold.csv"]
NONE = "not recorded"


def tally(text: str) -> list:
    counts, document = {}, None
    for line in text.splitlines():
        if line.startswith("## "):
            document = line[3:] if line.startswith("## The ") else None
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if document and line.startswith("| ") and cells[0] != "figure":
            if len(cells) != 5 or cells[3] not in VERDICTS:
                sys.exit(f"docs/figures.md: `{cells[0]}` has no verdict of {VERDICTS}")
            counts.setdefault(document, []).append(cells[3])
    counts["all"] = [verdict for each in counts.values() for verdict in each]
    lines = ["| document | figures | " + " | ".join(VERDICTS) + " |", "|---|" + "--:|" * 6]
    for name, each in counts.items():
        numbers = [len(each)] + [each.count(verdict) for verdict in VERDICTS]
        lines.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    return lines


def distinct(rows: list, column: str) -> list:
    return list(dict.fromkeys(row.get(column) or NONE for row in rows))


def study(file: Path) -> str:
    """The table's line of one file. In `runs.csv`, the settings are the columns before `began`."""
    rows = list(csv.DictReader(file.open(newline="")))
    name = str(file.relative_to(PAGE.parent))
    if "began" in rows[0]:
        points = [tuple(row.values())[: list(row).index("began")] for row in rows]
        repeats = "–".join(map(str, sorted({points.count(point) for point in points})))
        plan = ROOT / "experiments" / f"{file.parent.name}.toml"
        if file.name == "runs.csv" and plan.exists():
            repeats += " of " + re.search(r"^repeats = (\d+)", plan.read_text(), re.M)[1]
    else:
        repeats = str(len([turn for turn in distinct(rows, "turn") if turn != NONE]) or 1)
    failed = sum(row.get("goodput") == "" for row in rows)
    count = f"{len(rows)}, {failed} failed" if failed else str(len(rows))
    others = [float(row["foreign_cores"]) for row in rows if row.get("foreign_cores")]
    taken = f"{min(others):.1f} – {max(others):.1f}" if others else NONE
    machines = {(row.get("machine_processor"), row.get("machine_cores")) for row in rows}
    machine = "; ".join(f"{a}, {b} cores" if a else NONE for a, b in sorted(machines, key=str))
    series = "yes" if file.name == "runs.csv" and (file.parent / "runs.jsonl").exists() else "no"
    commits = ", ".join(distinct(rows, "commit"))
    cells = [f"[{name[8:-4]}]({name})", count, repeats, commits, machine, taken, series]
    return "| " + " | ".join(cells) + " |"


def rests_on() -> list:
    pages = "".join(page.read_text() for page in sorted(PAGE.parent.glob("*.md")) if page != PAGE)
    files = sorted((PAGE.parent / "studies").rglob("*.csv"))
    files = [f for f in files if f.name in MAIN or str(f.relative_to(PAGE.parent)) in pages]
    head = ["study", "rows", "repeats", "programs (commits)", "machine", "others took", "over time"]
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|"] + [study(file) for file in files]


text = old = PAGE.read_text()
for mark, table in [("verdicts", tally(text)), ("rows", rests_on())]:
    block = f"<!-- {mark} -->\n" + "\n".join(table) + f"\n<!-- end of {mark} -->"
    place = re.compile(f"<!-- {mark} -->.*<!-- end of {mark} -->", re.S)
    text, found = place.subn(lambda _: block, text)
    assert found == 1, f"docs/figures.md has no place for the table of {mark}"
if text != old and "--check" in sys.argv:
    sys.exit("docs/figures.md differs from docs/studies: run ci/figures.py, and read its diff")
if text != old:
    PAGE.write_text(text)
