"""The two steps of scripts/site.sh that mdBook has not.

sources REPOSITORY DOCS   copies each file of the repository that a page links to as ../FILE into DOCS/source,
                          and lets the link name the copy
check SITE                follows every relative link of every page, to the file and to the heading
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse

OUTWARD = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")


def sources(repository, docs):
    for page in sorted(docs.glob("*.md")):
        page.write_text(OUTWARD.sub(lambda match: f"]({copied(repository, docs, page, match[1])})", page.read_text()))


def copied(repository, docs, page, link):
    """The address of the copy: a directory's README stands for it."""
    path = (repository / "docs" / link).resolve()
    name = path.relative_to(repository)
    if path.is_dir():
        readme = path / "README.md"
        path, name = (readme, name / "README.md") if readme.exists() else (path, name)
    if not path.exists():
        sys.exit(f"site.py: {page.name} links to {link}, which is not there")
    if path.is_dir():
        text = "\n".join(sorted(entry.name for entry in path.iterdir())) + "\n"
    else:
        text = path.read_text()
    # As text, and without .md: mdBook makes pages only of what SUMMARY.md names, and rewrites every
    # link with it.
    target = docs / "source" / f"{name.with_suffix('') if name.suffix == '.md' else name}.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target.relative_to(docs).as_posix()


class Page(html.parser.HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def check(site):
    # The book's page for addresses that are not there names its files by absolute ones.
    files = [file for file in sorted(site.rglob("*.html")) if file.name != "404.html"]
    pages = {file: Page(file.read_text(errors="replace")) for file in files}
    broken, links = [], 0
    for file, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            links += 1
            if parts.path.startswith("/"):
                broken.append(f"{file.relative_to(site)}: {link} is not relative")
                continue
            target = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            anchor = urllib.parse.unquote(parts.fragment)
            # The page under lab/ keeps its state in the fragment.
            wants_anchor = anchor and target in pages and "lab" not in target.relative_to(site).parts[:1]
            if not target.is_relative_to(site) or not target.exists():
                broken.append(f"{file.relative_to(site)}: {link} is not there")
            elif wants_anchor and anchor not in pages[target].anchors:
                broken.append(f"{file.relative_to(site)}: {link} names no heading")
    if broken or not links:
        sys.exit("site.py: " + ("\n".join(sorted(set(broken))) or "there is no link"))
    print(f"{len(pages)} pages, {links} links", file=sys.stderr)


def main():
    match sys.argv[1:]:
        case ["sources", repository, docs]:
            sources(pathlib.Path(repository).resolve(), pathlib.Path(docs))
        case ["check", site]:
            check(pathlib.Path(site).resolve())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
