"""The documentation site: what is made of the library itself, for the generator that `mkdocs.yml` names.

`reference` writes the pages of the API, `primitive_index` the table of all primitives, and `assemble` puts them beside
the pages in docs. The generator collects the docstrings, and `griffe_docstrings` prepares them. `nox -s docs` builds
the site.
"""
