class PathInfo:
    contraction_list: list[tuple[tuple[int, ...], frozenset[str], str, tuple[str, ...] | None, str | bool]]
