"""Where readers of a tutorial get its notebook."""

PUBLIC_REPOSITORY: str | None = None
"""OWNER/NAME on GitHub, from where Colab opens notebooks; None until the repository is public."""


def with_notebook_links(text: str, name: str) -> str:
    """Return the page of a tutorial with a paragraph below its title that leads to the notebook.

    **Arguments:**

    - `text`: the page, in Markdown, which begins with its title.
    - `name`: the name of the tutorial.
    """
    title, _, rest = text.partition("\n")
    return f"{title}\n\n[Download the notebook]({name}.ipynb) to run it yourself. {_colab(name)}\n{rest}"


def _colab(name: str) -> str:
    """Return a sentence on Colab, whose link was never tried: the repository was not public yet."""
    if PUBLIC_REPOSITORY is None:
        return ""
    opened = (
        f"https://colab.research.google.com/github/{PUBLIC_REPOSITORY}/blob/main/docs/tutorials/{name}.ipynb"
    )
    return (
        f"[Open it in Colab]({opened}) (untried); there, first run "
        f"`%pip install git+https://github.com/{PUBLIC_REPOSITORY}`."
    )
