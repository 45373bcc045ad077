"""The variables of a program that is being read."""

from __future__ import annotations

from typing import final

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Atom, Literal, Var
from tinyjax.ir.text.lexer import Tokens
from tinyjax.ir.text.scalars import read_aval, read_literal
from tinyjax.ir.text.values_parser import guarded


@final
class Scope:
    """The variables of a program, by name. `within`: it is a parameter, or a part of one."""

    __slots__ = ("_count", "_refs", "_taken", "_tokens", "_unnamed", "_variables", "_within", "invars")

    def __init__(self, tokens: Tokens, within: bool) -> None:
        self._tokens = tokens
        self._within = within
        self._variables: dict[str, Atom] = {}
        self._unnamed: list[Atom] = []
        self._count = 0
        #: The names of JAX's Refs, which stand for what they hold; and for each that is an input its place and name.
        self._refs: set[str] = set()
        self._taken: list[tuple[int, str]] = []
        self.invars: list[Var] = []

    def binder(self) -> tuple[str, ShapedArray]:
        """The name and the type of the binder that is here."""
        tokens = self._tokens
        start = tokens.start
        name, _, aval = tokens.text.partition(":")
        if tokens.kind == "number":
            tokens.advance()
            aval = tokens.text[1:]
        if aval.startswith("Ref{"):
            aval = aval.removeprefix("Ref{").removesuffix("}")
            self._refs.add(name)
        found = guarded(tokens, start + len(name) + 1, lambda: read_aval(aval))
        tokens.advance()
        return name, found

    def bind(self) -> ShapedArray:
        """Binds an input; its type."""
        start, is_ref = self._tokens.start, ":Ref{" in self._tokens.text
        name, aval = self.binder()
        if is_ref:
            self._taken.append((len(self.invars), name))
        self.invars.append(self.define(name, aval, start))
        return aval

    def is_ref(self, name: str) -> bool:
        """Whether this is the name of a Ref."""
        return name in self._refs

    def held(self, name: str) -> Atom:
        """What the Ref of this name holds now."""
        return self._variables[name]

    def store(self, name: str, atom: Atom) -> None:
        """The Ref of this name holds this from here on."""
        self._variables[name] = atom

    @property
    def last(self) -> tuple[tuple[int, ...], tuple[Atom, ...]]:
        """Which inputs are Refs, and what they hold at the end."""
        held = [self._variables.get(name, self.invars[place]) for place, name in self._taken]
        return tuple([place for place, _ in self._taken]), tuple(held)

    def define(self, name: str, aval: ShapedArray, at: int) -> Var:
        """The next variable. `_` is one that nothing reads; in JAX's programs, nothing outside of them."""
        var = Var(self._count, aval)
        self._count += 1
        self.call(name, var, at)
        return var

    def call(self, name: str, atom: Atom, at: int) -> None:
        """Gives an atom that is there already a name."""
        if name == "_":
            self._unnamed.append(atom)
        elif name:
            if name in self._variables:
                self._tokens.fail(f"{name} is bound already", at)
            self._variables[name] = atom

    def atom(self, what: str) -> Atom:
        """The variable or literal that is here."""
        tokens = self._tokens
        kind, text, start = tokens.kind, tokens.text, tokens.start
        if kind == "word":
            found = self._variables.get(text)
            if text == "_" and self._within and len(self._unnamed) == 1:
                (found,) = self._unnamed
            if found is None:
                tokens.fail(f"{text} is not bound" if text != "_" else "_ can't be read: it stands for unused results")
            tokens.advance()
            return found
        if kind not in ("number", "complex"):
            tokens.fail(f"expected {what}, got {tokens.shown()}")
        tokens.advance()
        if text in self._variables and tokens.kind != "type":
            return self._variables[text]
        aval = ""
        if tokens.kind == "type" and tokens.start == tokens.before:
            aval = tokens.text[1:]
            tokens.advance()
        return self._literal(text, aval, start)

    def output(self) -> Atom:
        """The atom that is here. In JAX's programs within programs `_` is what nothing reads there: if there are
        several, any will do."""
        tokens = self._tokens
        if tokens.text == "_" and tokens.kind == "word" and self._within and self._unnamed:
            tokens.advance()
            return self._unnamed.pop(0) if len(self._unnamed) > 1 else self._unnamed[0]
        return self.atom("an output or ')'")

    def _literal(self, text: str, aval: str, at: int) -> Literal:
        return guarded(self._tokens, at, lambda: read_literal(text, aval))
