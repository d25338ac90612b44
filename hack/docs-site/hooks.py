"""Hooks of MkDocs: links to files outside of docs, the order of the navigation, and the REST reference."""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from mkdocs.structure.nav import Link, Section

ROOT = Path(__file__).resolve().parents[2]
# The branch or tag to which links to the repository lead.
REF = os.environ.get("DOCS_SITE_REF") or "main"
# The folder with the reference page of the REST API and its OpenAPI document.
REFERENCE = os.environ.get("DOCS_SITE_REFERENCE", "")
REFERENCE_PAGES = {"REST reference": "api/reference.html", "OpenAPI document": "api/openapi.json"}

LINK = re.compile(r"(\]\()([^)\s#]+)([^)\s]*\))")
NESTED_LIST = re.compile(r" {1,3}([-*]|\d+\.) ")


def on_files(files, config):
    """Adds the reference of the REST API."""
    for path in REFERENCE_PAGES.values() if REFERENCE else []:
        content = (Path(REFERENCE) / posixpath.basename(path)).read_bytes()
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown, page, config, **_):
    """Replaces relative links that leave docs. A link to a missing file is an error."""
    lines, code = [], False
    for number, line in enumerate(markdown.split("\n"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            if NESTED_LIST.match(line):
                raise PluginError(f"{page.file.src_uri}:{number}: a nested list needs an indentation of four spaces")
            line = LINK.sub(lambda match: repository_link(match, page, config), line)
        lines.append(line)
    return "\n".join(lines)


def repository_link(match, page, config):
    """Returns a link to the repository for one that leaves docs."""
    target = match[2]
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), target))
    if ":" in target or target.startswith("/") or path == "docs" or path.startswith("docs/"):
        return match[0]
    if path.startswith("..") or not (ROOT / path).exists():
        raise PluginError(f"{page.file.src_uri}: link to {target}: no such file")
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{match[1]}{config['repo_url']}/{kind}/{REF}/{path}{match[3]}"


def on_nav(nav, config, files):
    """Orders the navigation as README.md links to the pages; others follow by their names."""
    index = (Path(config["docs_dir"]) / "README.md").read_text()
    linked = [posixpath.normpath(match[2]) for match in LINK.finditer(index)]

    def position(item):
        if isinstance(item, Section):
            folder = posixpath.dirname(first_page(item).file.src_uri)
            found = [n for n, target in enumerate(linked) if target.startswith(folder + "/")]
            return (1, min(found, default=len(linked)), folder)
        path = item.file.src_uri
        found = -1 if posixpath.basename(path) == "README.md" else linked.index(path) if path in linked else len(linked)
        return (0, found, path)

    def sort(items):
        items.sort(key=position)
        for item in items:
            if isinstance(item, Section):
                sort(item.children)

    sort(nav.items)
    # The links to the previous and the next page follow the navigation.
    ordered = list(pages_of(nav.items))
    nav.pages[:] = ordered
    for before, page, after in zip([None] + ordered, ordered, ordered[1:] + [None]):
        page.previous_page, page.next_page = before, after
    if REFERENCE:
        nav.items.extend(Link(title, path) for title, path in REFERENCE_PAGES.items())
    return nav


def pages_of(items):
    """Yields the pages of items and of their sections, in order."""
    for item in items:
        if isinstance(item, Section):
            yield from pages_of(item.children)
        else:
            yield item


def first_page(section):
    """Returns a page of a section."""
    return next(pages_of([section]))
