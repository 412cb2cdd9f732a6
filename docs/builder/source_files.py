"""The sources of the site: the pages of docs/, and other documents of the repository, with their links."""

import functools
import os
import re
import shutil
from pathlib import Path

from public_names import reference_pages
from reference_files import change_prose, link_names
from tutorial_links import with_notebook_links

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"

DOCUMENTS = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "developers/contributing.md",
    "benchmarks/README.md": "developers/benchmarks.md",
    "benchmarks/proofs.md": "developers/proofs.md",
    "docs/gallery/README.md": "gallery/index.md",
}
"""The documents whose page on the site is elsewhere than their file in docs/."""

_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def copy_sources(folder: Path) -> None:
    """Copy all pages, pictures and scripts into an empty folder, with links between them as on the site.

    **Raises:** `ValueError` if a page links to a file that the site does not have.
    """
    left_out = shutil.ignore_patterns("builder", "*.md", "__pycache__")
    shutil.copytree(DOCS, folder, ignore=left_out, dirs_exist_ok=True)
    for source, page in _pages().items():
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_page_text(source, page))
    glossary = (REPOSITORY / "CONTRIBUTING.md").read_text().split("\n## Glossary\n")[1]
    (folder / "words.md").write_text(f"# Words\n{link_names(glossary)}")


@functools.cache
def _pages() -> dict[str, str]:
    """Return the page of the site for each document, by their paths in the sources and in the repository."""
    pages = (str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    return {f"docs/{page}": page for page in pages} | DOCUMENTS


def _page_text(source: str, page: str) -> str:
    def relink(link: re.Match) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(source), link[1]))
        return f"]({os.path.relpath(_target_on_site(target, source), os.path.dirname(page))}{link[2] or ''})"

    text = (REPOSITORY / source).read_text()
    if (REPOSITORY / source).with_suffix(".ipynb").exists():
        text = with_notebook_links(text, Path(source).stem)
    return link_names(change_prose(text, lambda line: _LINK.sub(relink, line)))


def _target_on_site(target: str, source: str) -> str:
    """Return the file of the site that shows a file of the repository; of code, the page of the reference."""
    if target in _pages():
        return _pages()[target]
    if not (REPOSITORY / target).is_file():
        raise ValueError(f"{source} must link to files that exist, got {target}.")
    if target.startswith("popsim/") and target.endswith(".py"):
        module = target.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        homes = [page for page in reference_pages() if f"{module}.".startswith(f"{page.path}.")]
        return max(homes, key=lambda page: len(page.path)).file
    if not target.startswith("docs/"):
        raise ValueError(f"{source} must link to files that the site has, got {target}.")
    return target.removeprefix("docs/")
