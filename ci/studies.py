#!/usr/bin/env python3
"""Writes what the documents say of studies without a person, and checks what a person said.

It writes the parts between marks: in the page of each study (docs/studies/NAME/README.md) its
question, from experiments/NAME.toml, and what its rows are; in docs/studies.md the claims of all
pages; in docs/figures.md two counts. `--check` only compares.

A person writes a page's result, from the rows. The page ends with the rows' digest, so that no
sentence outlives its data: rows that change are an error until somebody has read the page again and
says so with `--read NAME`."""
import csv
import hashlib
import re
import sys
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
KEPT = DOCS / "studies"
VERDICTS = ["holds", "holds in part", "does not hold", "not decided", "not shown here"]
MAIN = ["runs.csv", "results.csv", "threshold.csv"]
NONE = "not recorded"
CLAIMS = "| claim | result |\n|---|---|\n"
WITH = re.compile(r"<!-- written with the rows of ([a-z0-9-]+): ([0-9a-f]+) -->")
faults = []


def between(page: Path, text: str, mark: str, lines: list) -> str:
    """The text with these lines between `<!-- MARK -->` and `<!-- end of MARK -->`."""
    name = mark.split()[0]
    block = "\n".join([f"<!-- {mark} -->", *lines, f"<!-- end of {name} -->"])
    place = re.compile(f"<!-- {re.escape(mark)} -->.*?<!-- end of {name} -->", re.S)
    text, found = place.subn(lambda _: block, text)
    if found != 1:
        faults.append(f"{page.relative_to(ROOT)}: {found} places for `<!-- {mark} -->`, not one")
    return text


def distinct(rows: list, column: str) -> list:
    return list(dict.fromkeys(row.get(column) or NONE for row in rows))


class Rows:
    """One kept table, and the facts about its runs."""

    def __init__(self, file: Path):
        self.file, self.rows = file, list(csv.DictReader(file.open(newline="")))
        self.failed = sum(row.get("goodput") == "" for row in self.rows)
        self.plan = ROOT / "experiments" / f"{file.parent.name}.toml"
        self.of, self.repeats = None, None
        if "began" in self.rows[0]:
            # The settings of a run are its columns before `began`.
            points = [tuple(row.values())[: list(row).index("began")] for row in self.rows]
            self.repeats = sorted({points.count(point) for point in points})
            if file.name == "runs.csv" and self.plan.exists():
                self.of = tomllib.loads(self.plan.read_text())["measure"]["repeats"]
        else:
            self.repeats = [len([t for t in distinct(self.rows, "turn") if t != NONE]) or 1]
        self.commits = distinct(self.rows, "commit")
        others = [float(row["foreign_cores"]) for row in self.rows if row.get("foreign_cores")]
        self.others = (min(others), max(others)) if others else None
        self.over_time = file.name == "runs.csv" and (file.parent / "runs.jsonl").exists()

    def cells(self) -> list:
        machines = {(row.get("machine_processor"), row.get("machine_cores")) for row in self.rows}
        machine = (f"{a}, {b} cores" if a else NONE for a, b in sorted(machines, key=str))
        repeats = "–".join(map(str, self.repeats)) + (f" of {self.of}" if self.of else "")
        return [
            f"{len(self.rows)}, {self.failed} failed" if self.failed else str(len(self.rows)),
            repeats,
            ", ".join(self.commits),
            "; ".join(machine),
            "{:.1f} – {:.1f}".format(*self.others) if self.others else NONE,
            "yes" if self.over_time else "no",
        ]

    def healthy(self) -> list:
        """The runs in which nobody was killed or lied."""
        faults = ("kill", "adversary")
        return [row for row in self.rows if all(row.get(key) in (None, "", "none") for key in faults)]

    def threats(self) -> list:
        """What makes these rows weaker than the study's file wants them."""
        found = []
        if self.repeats[0] < (self.of or 2):
            range_ = "no range is known" if self.repeats[0] == 1 else "ranges are wide"
            found.append(f"Points have {self.cells()[1]} repeats: {range_}.")
        if len(self.commits) > 1:
            found.append(f"The rows are of {len(self.commits)} programs.")
        if any("+" in commit for commit in self.commits):
            found.append("A program had changes that are in no commit.")
        if self.failed:
            found.append(f"{self.failed} of {len(self.rows)} runs failed.")
        if self.others and self.others[1] > 0.1:
            found.append(f"Other work took up to {self.others[1]:.1f} cores.")
        failed = sum(float(row.get("timeouts_per_second") or 0) > 0 for row in self.healthy())
        if failed:
            found.append(f"Views failed in {failed} of {len(self.healthy())} runs without a fault.")
        speeds = [float(row["signature_us"]) for row in self.rows if row.get("signature_us")]
        if speeds and max(speeds) > 1.1 * min(speeds):
            words = f"{min(speeds):.0f} – {max(speeds):.0f} µs"
            found.append(f"The machine's speed differed between runs: a signature took {words}.")
        stolen = max((float(row["stolen_cores"]) for row in self.rows if row.get("stolen_cores")), default=0)
        if stolen > 0.1:
            found.append(f"The host took up to {stolen:.1f} cores for others.")
        if not self.over_time:
            found.append("Values over time are not kept; their charts cannot be drawn again.")
        kept = self.file.parent / "study.toml"
        if kept.exists() and self.plan.exists():
            then, now = (tomllib.loads(file.read_text()) for file in (kept, self.plan))
            if any(then.get(key) != now.get(key) for key in ("grid", "variant", "measure", "network")):
                found.append("The study's file has other settings now; study.toml has those of the runs.")
        found.append("Replicas, clients and measurement share the machine's cores.")
        return found


HEAD = ["rows", "repeats", "programs (commits)", "machine", "others took", "over time"]


def table(head: list, rows: list) -> list:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def wrapped(text: str) -> list:
    paragraphs = (" ".join(part.split()) for part in text.strip().split("\n\n"))
    lines = []
    for part in paragraphs:
        lines += ["", *textwrap.wrap(part, 100, break_long_words=False, break_on_hyphens=False)]
    return lines[1:]


def question(plan: Path) -> list:
    """A study's question, its method, and what the documents say, from its file."""
    study = tomllib.loads(plan.read_text())
    lines = wrapped(study.get("about", study["title"] + "."))
    for source in study.get("source", []):
        who = source["document"][0].upper() + source["document"][1:]
        lines += ["", *wrapped(f"**{who}, {source['figure']}:** {source['says']}")]
    name = plan.stem
    return lines + ["", f"`make study NAME={name}` runs [its file](../../../experiments/{name}.toml)."]


def claims(page: Path) -> list:
    """The lines of a page's table of claims."""
    _, found, rest = page.read_text().partition(CLAIMS)
    lines = [line for line in rest.split("\n\n")[0].splitlines() if line.startswith("| ")]
    if not found or not lines:
        faults.append(f"{page.relative_to(ROOT)}: it has no table of claims and results")
    return lines


def all_claims(text: str) -> str:
    """docs/studies.md with the claims of every page, in the groups that its marks name."""
    page, named = DOCS / "studies.md", []
    for mark in re.findall(r"<!-- (claims [a-z0-9 -]+) -->", text):
        rows = []
        for name in mark.split()[1:]:
            named.append(name)
            if not (KEPT / name / "README.md").exists():
                faults.append(f"docs/studies.md: docs/studies/{name}/README.md is missing")
                continue
            link = f"[{name}](studies/{name}/README.md)"
            for line in claims(KEPT / name / "README.md"):
                rows.append(f"| {link} {line}")
                link = ""
        head = ["| study | claim | result |", "|---|---|---|"]
        text = between(page, text, mark, head + [row.replace("|  |", "| |") for row in rows])
    for written in sorted(KEPT.glob("*/README.md")):
        if named.count(written.parent.name) != 1:
            times = named.count(written.parent.name)
            faults.append(f"docs/studies.md: its marks name {written.parent.name} {times} times, not once")
    return text


def tally(text: str) -> list:
    """How many figures have which verdict."""
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


def rests_on() -> list:
    pages = "".join(page.read_text() for page in sorted(DOCS.glob("*.md")) if page.stem != "figures")
    pages += "".join(
        re.sub(r"\]\((?!\.|https?:)", f"](studies/{page.parent.name}/", page.read_text())
        for page in sorted(KEPT.glob("*/README.md"))
    )
    files = [f for f in sorted(KEPT.rglob("*.csv")) if f.name in MAIN or str(f.relative_to(DOCS)) in pages]
    name = lambda file: str(file.relative_to(DOCS))
    return table(["study", *HEAD], [[f"[{name(f)[8:-4]}]({name(f)})", *Rows(f).cells()] for f in files])


def digest(name: str) -> str:
    """Of all tables of a kept study."""
    tables = sorted((KEPT / name).rglob("*.csv"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in tables)).hexdigest()[:12]


def marks(texts: dict, read: list) -> None:
    """Checks that every kept study stands in one page, which was written with its rows."""
    marked = []
    for page, text in texts.items():
        for name, was in WITH.findall(text):
            marked.append(name)
            if name in read:
                now = f"<!-- written with the rows of {name}: {digest(name)} -->"
                texts[page] = texts[page].replace(f"<!-- written with the rows of {name}: {was} -->", now)
            elif was != digest(name):
                faults.append(
                    f"{page.relative_to(ROOT)}: the rows in docs/studies/{name} are not those that the page "
                    f"was written with. Read the page beside them, then run ci/studies.py --read {name}"
                )
    for name in sorted({file.relative_to(KEPT).parts[0] for file in KEPT.rglob("*.csv")} | set(read)):
        if marked.count(name) != 1:
            faults.append(f"docs/studies/{name}: {marked.count(name)} pages are written with its rows, not one")


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    read = sys.argv[2:] if sys.argv[1:2] == ["--read"] else []
    if sys.argv[1:] and not check and not read:
        sys.exit("usage: ci/studies.py [--check | --read NAME...]")
    olds = {page: page.read_text() for page in sorted(DOCS.rglob("*.md"))}
    news = dict(olds)
    for page in sorted(KEPT.glob("*/README.md")):
        plan = ROOT / "experiments" / f"{page.parent.name}.toml"
        rows = Rows(page.parent / "runs.csv")
        facts = table(HEAD, [rows.cells()]) + ["", *[f"- {threat}" for threat in rows.threats()]]
        news[page] = between(page, news[page], "question", question(plan))
        news[page] = between(page, news[page], "rows", facts)
    studies, figures = DOCS / "studies.md", DOCS / "figures.md"
    news[studies] = all_claims(news[studies])
    news[figures] = between(figures, news[figures], "verdicts", tally(news[figures]))
    news[figures] = between(figures, news[figures], "rows", rests_on())
    marks(news, read)
    changed = [page for page, text in news.items() if text != olds[page]]
    for page in changed:
        if check:
            faults.append(f"{page.relative_to(ROOT)}: run ci/studies.py, and read its diff")
        else:
            page.write_text(news[page])
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
