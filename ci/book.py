#!/usr/bin/env python3
"""Gathers the documentation for mdBook in target/book/src, and checks every link of it; with
`--built`, checks every link of what mdBook made of it, in target/book/html.

A link to another page or picture is kept. A link to a file of the repository that is no page
becomes the file's name: the book can be read without the repository. A link to what does not exist,
or to a heading that a page does not have, is an error.
"""
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "target" / "book"
# The reading order. A folder's pages that are not named follow its first, by name.
ORDER = [
    ("Quorate", "README.md"),
    ("Run it", None),
    ("Operations", "docs/operations.md"),
    ("Redis clients", "docs/redis.md"),
    ("The change feed", "docs/feed.md"),
    ("Payments", "docs/payments.md"),
    ("Watching a cluster", "deploy/README.md"),
    ("Threats and defences", "THREAT_MODEL.md"),
    ("Build on it", None),
    ("A service of your own", "docs/own-service.md"),
    ("The store", "docs/store.md"),
    ("Study the protocols", None),
    ("Protocols", "docs/protocols/README.md"),
    ("Studies", "docs/studies.md"),
    ("Figures of the literature", "docs/figures.md"),
    ("Experiments", "docs/experiments.md"),
    ("Networks", "docs/networks.md"),
    ("Speed", "docs/speed.md"),
    ("Change it", None),
    ("Architecture", "ARCHITECTURE.md"),
    ("Contributing", "CONTRIBUTING.md"),
    ("Simulation", "docs/simulation.md"),
    ("Documentation and glossary", "docs/README.md"),
    ("Changelog", "CHANGELOG.md"),
]
LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def title(page: Path) -> str:
    for line in page.read_text().splitlines():
        if line.startswith("# "):
            return re.sub(r"[`*]", "", line[2:]).strip()
    return page.stem


def anchor(heading: str) -> str:
    """The fragment of a heading, as mdBook and code hosts make it."""
    text = re.sub(r"[^\w\- ]", "", re.sub(LINK, r"\2", heading).strip().lower())
    return text.replace(" ", "-")


def outside_code(text: str):
    """The lines of a page, and whether each is outside fenced code."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield line, False
        else:
            yield line, not fenced


def anchors(page: Path) -> set:
    lines = outside_code(page.read_text())
    return {anchor(line.lstrip("#")) for line, plain in lines if plain and line.startswith("#")}


def pages() -> list:
    """Titles and pages in order: those of ORDER, each with the rest of its folder below it."""
    named = [page for _, page in ORDER if page]
    rest = [p for p in sorted(ROOT.glob("docs/**/*.md")) if str(p.relative_to(ROOT)) not in named]
    listed = []
    for name, page in ORDER:
        listed.append((name, page and ROOT / page, 0))
        if page == "docs/protocols/README.md":
            listed += [(title(p), p, 1) for p in rest if p.parent.name == "protocols"]
        elif page == "docs/studies.md":
            of_studies = [p for p in rest if "studies" in p.parent.parts]
            name = lambda p: title(p) if p.name == "README.md" else f"store: {p.parent.name}"
            listed += [(name(p), p, 1) for p in of_studies]
        elif page == "docs/simulation.md":
            listed += [(title(p), p, 0) for p in rest if p.parent.name == "docs"]
    return listed


def rewrite(page: Path, text: str, known: set, faults: list) -> str:
    """The page's text with links as the book needs them."""

    def link(found):
        picture, words, target = found.groups()
        if re.match(r"[a-z]+:", target):
            return found[0]
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        where = f"{page.relative_to(ROOT)}: [{words}]({target})"
        if not file.exists():
            faults.append(f"{where}: there is no such file")
        elif fragment and file in known and fragment not in anchors(file):
            faults.append(f"{where}: there is no such heading")
        elif file in known and file.name == "README.md":
            # mdBook makes index.html of it, and does not follow links there.
            return f"{picture}[{words}]({target.replace('README.md', 'index.md')})"
        elif picture or file in known or file.suffix == ".html":
            return found[0]
        return words if words.startswith("`") else f"{words} (`{file.relative_to(ROOT)}`)"

    lines = outside_code(text)
    return "\n".join(LINK.sub(link, line) if plain else line for line, plain in lines) + "\n"


class Links(HTMLParser):
    """What a built page links to, and what can be linked to on it."""

    def __init__(self, page: Path):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.links += [named[key] for key in ("href", "src") if named.get(key)]
        self.ids.add(named.get("id"))


def check_built() -> int:
    html, faults, count = BOOK / "html", [], 0
    # The page of errors is for any folder.
    built = {p.resolve(): Links(p) for p in sorted(html.rglob("*.html")) if p.name != "404.html"}
    for page, found in built.items():
        inner = [link for link in found.links if not re.match(r"[a-z]+:|//", link)]
        count += len(inner)
        for link in inner:
            path, _, fragment = link.partition("#")
            file = (page.parent / unquote(path)).resolve() if path else page
            if not file.exists() or (
                fragment and file in built and unquote(fragment) not in built[file].ids
            ):
                faults.append(f"{page.relative_to(html)}: {link} leads nowhere")
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    print(f"{len(built)} built pages, {count} links in them, {len(faults)} that lead nowhere")
    return 1 if faults or not built else 0


def main() -> int:
    if sys.argv[1:] == ["--built"]:
        return check_built()
    listed = pages()
    known = {page for _, page, _ in listed if page}
    faults, summary = [], ["# Summary", ""]
    shutil.rmtree(BOOK / "src", ignore_errors=True)
    for name, page, depth in listed:
        if not page:
            summary += ["", f"# {name}", ""]
            continue
        relative = page.relative_to(ROOT)
        copy = BOOK / "src" / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(rewrite(page, page.read_text(), known, faults))
        line = f"[{name}]({relative})"
        summary.append(line if page == ROOT / "README.md" else f"{'  ' * depth}- {line}")
    for pattern in ("docs/**/*.svg", "docs/**/*.png", "docs/*.html"):
        for file in ROOT.glob(pattern):
            copy = BOOK / "src" / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    (BOOK / "src" / "SUMMARY.md").write_text("\n".join(summary) + "\n")
    (BOOK / "book.toml").write_text(
        '[book]\ntitle = "Quorate"\nlanguage = "en"\nsrc = "src"\n\n'
        '[build]\nbuild-dir = "html"\n\n[output.html]\nno-section-label = true\n'
    )
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    print(f"{len(known)} pages, {len(faults)} links that lead nowhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
