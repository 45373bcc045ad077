"""Whether what lies in a directory can only come from this user, or from the administrator."""

from __future__ import annotations

import os
import stat
from typing import Final

#: Links on the way to a directory.
_LINKS: Final = 40


def distrust(directory: str | os.PathLike[str]) -> str | None:
    """Why others could put files into a directory; None if they can't, or if this system has no users.

    The directory must be the user's or root's, and nobody else may write to it, whichever group they are of. Nor may
    others exchange it for another one: so the same holds for the directories above it and for the links on the way, but
    there it suffices that only owners may remove what is in them (as in /tmp), or that the group is the user's own.
    """
    if not hasattr(os, "geteuid"):
        return None
    found = _way(os.path.abspath(directory))
    if isinstance(found, str):
        return found
    *above, own = found
    for path, state in above:
        problem = _owned_by_another(path, state) or _open_above(path, state)
        if problem is not None:
            return problem
    path, state = own
    problem = _owned_by_another(path, state)
    if problem is None and state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"others can write to {path} (to change that: chmod go-w {path})"
    return problem


def distrust_file(path: str, state: os.stat_result) -> str | None:
    """Why what is in a file could come from others."""
    if not hasattr(os, "geteuid"):
        return None
    if not stat.S_ISREG(state.st_mode):
        return f"{path} is no file"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write to {path}"
    return _owned_by_another(path, state)


def _way(path: str) -> list[tuple[str, os.stat_result]] | str:
    """The directories on the way to this one, which is the last, through all links; or what is wrong with a link."""
    root = (os.sep, os.stat(os.sep))
    here = [root]  # this directory and those above it
    visited: list[tuple[str, os.stat_result]] = []
    parts = _parts(path)
    links = 0
    while parts:
        visited.append(here[-1])
        name = parts.pop(0)
        if name == os.pardir:
            here = here[:-1] or [root]
            continue
        step = os.path.join(here[-1][0], name)
        state = os.lstat(step)
        if not stat.S_ISLNK(state.st_mode):
            here.append((step, state))
            continue
        problem = _owned_by_another(step, state)
        links += 1
        if problem is not None or links > _LINKS:
            return problem or f"{path} is a link to itself"
        target = os.readlink(step)
        if os.path.isabs(target):
            here = [root]
        parts = _parts(target) + parts
    return [*visited, here[-1]]


def _parts(path: str) -> list[str]:
    return [part for part in path.split(os.sep) if part not in ("", os.curdir)]


def _owned_by_another(path: str, state: os.stat_result) -> str | None:
    if state.st_uid in (0, os.geteuid()):
        return None
    return f"{path} is another user's (number {state.st_uid})"


def _open_above(path: str, state: os.stat_result) -> str | None:
    """Why others could exchange what is in a directory."""
    mode = state.st_mode
    if mode & stat.S_ISVTX or not mode & (stat.S_IWGRP | stat.S_IWOTH):
        return None
    if not mode & stat.S_IWOTH and _own_group(state.st_gid):
        return None
    return f"others can write to {path}, which is above it"


def _own_group(number: int) -> bool:
    """Whether a group has no member but the user: many systems make one for each."""
    import grp  # not on all systems
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
