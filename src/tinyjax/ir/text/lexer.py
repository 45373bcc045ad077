"""The words of printed programs: one regular expression divides a text into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn, final

from tinyjax.errors import ParseError
from tinyjax.ir.text.scalars import REAL

_NAME: Final = r"[^\W\d]\w*"
#: Of JAX's arrays, sizes say along which axes of a mesh they are divided: `8@x,4@(y,z)`.
_SIZES: Final = r"(?:[\d, ]|@\w+|@\([\w, ]*\))*"
_AVAL: Final = rf"~?{_NAME}(?:<\w+>)?\[{_SIZES}\](?:{{[VUR](?:_\w+)?:[^{{}}\n]*}})?"
_STRING: Final = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
_ANGLED: Final = r"<[^<>\n]*(?:<[^<>\n]*(?:<[^<>\n]*>[^<>\n]*)*>[^<>\n]*)*>"

_LAST: Final = r"\] \S+\s*(?:\n|\Z|;|in \()"
#: A name that JAX prints as it is, with quotes, spaces and brackets that may be in it: all before the operand.
_UNQUOTED: Final = rf"(?<=\bname\[name=)(?!{_LAST})(?P<unquoted>.+?)(?={_LAST})"

#: The kinds of tokens, each tried before those after it.
_KINDS: Final = {
    "void": r"\(b'',\):float0\[\]",  # JAX's literal that holds nothing
    "bytes": rf"[bB](?:{_STRING})",
    "string": _STRING,
    "complex": rf"\(-?{REAL}[+-]{REAL}j\)|-?{REAL}(?: *[+-]{REAL})?j(?!\w)",  # in arrays NumPy's have no brackets
    "number": rf"-?{REAL}(?!\w)|(?:True|False)(?!\w)",
    "binder": rf"{_NAME}:(?:{_AVAL}|Ref{{{_AVAL}}}|Tok(?!\w))",  # a:f32[3]
    "arrow": r"<-(?= )",  # of JAX's Refs: b:f32[] <- a[0]
    "type": rf":{_AVAL}",  # of a literal
    "held": r"type\([^()\s]*\)",  # a class as a parameter
    "call": rf"{_NAME}(?:\.{_NAME})*\(",  # Record(
    "key": rf"{_NAME}=(?!=)",  # a parameter's name
    "member": rf"{_NAME}(?:\.{_NAME})+(?:\|\w+)*",  # Mode.CLIP
    "word": rf"{_NAME}(?:-{_NAME})*(?=[^\w\[]|\[(?!{_SIZES}\])|\Z)(?!<\w+>\[)|<{_NAME}>",
    "aval": _AVAL,
    "reference": r"@\w+",
    "angled": _ANGLED,  # <function f at 0x7f>
    "mark": r"[][(){},;.:=]",
    "end": r"\Z",
    "other": r".",
}
_TOKEN: Final = re.compile(
    _UNQUOTED + r"|\s*(?:" + "|".join(f"(?P<{kind}>{rule})" for kind, rule in _KINDS.items()) + ")", re.DOTALL
)
#: Parameters without strings, programs and names of programs: all that tells them apart is their text.
_SIMPLE: Final = re.compile(r"""\[(?!name=)(?:[^][{}"'@]|\[[^][{}"'@]*\])*\]""")
#: What follows the word before the outputs. JAX also has variables that are called so.
_OUTPUTS: Final = re.compile(rf"\s*\((?!-?{REAL}[+-]{REAL}j\))")
#: What follows the word before a definition.
_DEFINED: Final = re.compile(r"\s+@?\w+ =\s")
#: What JAX writes where a Ref is written to: `b[0,:] <- `.
_STORE: Final = re.compile(rf"{_NAME}(?:\[[^][\n]*\])+ (?:<-|\+=) ")
#: How much of a long line an error shows.
_SHOWN: Final = 100


@final
class Tokens:
    """A text, and the token that a parser is at: its `kind`, its `text`, and where it starts and ends."""

    __slots__ = ("_counted", "_lines", "_matches", "before", "end", "file", "kind", "source", "start", "text")

    before: int
    start: int
    end: int
    kind: str
    text: str

    def __init__(self, source: str, file: str | None = None, at: int = 0) -> None:
        self.source: str = source
        self.file: str | None = file
        self.end = at
        self._counted, self._lines = 0, 1
        self.seek(at)

    def seek(self, at: int) -> None:
        """Goes on with the token that is at this place or comes after it."""
        self._matches: Iterator[re.Match[str]] = _TOKEN.finditer(self.source, at)
        self.end = at
        self.advance()

    def advance(self) -> None:
        """Goes on with the next token. `before` is where the last one ended."""
        match = next(self._matches, None)
        self.before = self.end
        kind = match.lastgroup if match is not None else None
        if match is None or kind is None:
            self.kind, self.text, self.start = "end", "", len(self.source)
        else:
            self.kind, self.text, self.start, self.end = kind, match[kind], match.start(kind), match.end()

    def take(self, mark: str, what: str | None = None) -> None:
        """Goes past this mark or word; a ParseError that says that `what` was expected if it isn't here."""
        if self.text != mark or self.kind not in ("mark", "word"):
            self.fail(f"expected {what or repr(mark)}, got {self.shown()}")
        self.advance()

    def skip(self, mark: str) -> bool:
        """Goes past this mark if it is here; whether it was."""
        if self.text != mark or self.kind != "mark":
            return False
        self.advance()
        return True

    def simple_brackets(self) -> str:
        """The text in the brackets that open here, with them, if it is simple; otherwise nothing."""
        match = _SIMPLE.match(self.source, self.start)
        return "" if match is None else match[0]

    def at_outputs(self) -> bool:
        """Whether the token is the `in` before the outputs of a program."""
        return self.text == "in" and self.kind == "word" and _OUTPUTS.match(self.source, self.end) is not None

    def at_definition(self) -> bool:
        """Whether the token is the `let` before a definition, and no string."""
        return self.text == "let" and self.kind == "word" and _DEFINED.match(self.source, self.end) is not None

    def at_binder(self) -> bool:
        """Whether a variable is bound here. JAX also has variables that are called nan and inf."""
        return self.kind == "binder" or (
            self.kind == "number" and self.text in ("nan", "inf") and self.source.startswith(":", self.end)
        )

    def at_store(self) -> bool:
        """Whether a Ref is written to here."""
        return _STORE.match(self.source, self.start) is not None

    def before_mark(self, mark: str) -> bool:
        """Whether this mark comes after the token."""
        return self.source.startswith(mark, self.end) or self.source.startswith(f" {mark}", self.end)

    def shown(self) -> str:
        """The token, in messages."""
        return "the end of the text" if self.kind == "end" else repr(self.text)

    def starts_line(self) -> bool:
        """Whether the token is the first of its line."""
        return self.source.find("\n", self.before, self.start) >= 0

    def column(self, at: int) -> int:
        """The column of a place in the text, counted from 0."""
        return at - self.source.rfind("\n", 0, at) - 1

    def line(self, at: int) -> int:
        """The line of a place in the text, counted from 1."""
        if at < self._counted:
            self._counted, self._lines = 0, 1
        self._lines += self.source.count("\n", self._counted, at)
        self._counted = at
        return self._lines

    def fail(self, problem: str, at: int | None = None, cause: Exception | None = None) -> NoReturn:
        """Raises a ParseError that points at a place in the text: at this token, unless another one is given."""
        place = self.start if at is None else at
        column = self.column(place)
        start = place - column
        stop = self.source.find("\n", place)
        line = self.source[start : stop if stop >= 0 else len(self.source)]
        shown, caret = line, column
        if len(line) > _SHOWN:
            first = max(0, column - _SHOWN // 2)
            last = first + _SHOWN
            shown = ("... " if first else "") + line[first:last] + (" ..." if last < len(line) else "")
            caret = column - first + (4 if first else 0)
        margin = "".join("\t" if char == "\t" else " " for char in shown[:caret])
        raise ParseError(problem, self.line(place), column + 1, f"    {shown}\n    {margin}^", self.file) from cause
