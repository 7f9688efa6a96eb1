"""The README as the site's first page, and the folders of pages in its navigation."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

TOP = Path(__file__).parent.parent


def on_config(config: Any) -> Any:
    developers = config.nav[-1]["For developers"]
    for folder in ("design", "decisions", "measurements"):
        pages = sorted((TOP / "docs" / folder).glob("*.md"))
        developers.append({folder.title(): [f"{folder}/{page.name}" for page in pages]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Its links are as they are from there."""
    readme = (TOP / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=readme))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace("](../README.md", "](index.md").replace(
        "](../../README.md", "](../index.md"
    )
