"""Every error that tinyjax raises on purpose: a class for each kind of mistake, which is also Python's for it."""

from __future__ import annotations

from typing_extensions import override


class TinyjaxError(Exception):
    """The base of all errors that tinyjax raises on purpose.

    `called` says how the function was called that the user's line calls, where it raised the error: its last line.
    """

    called: str | None = None

    @override
    def __str__(self) -> str:
        message = super().__str__()
        return message if self.called is None else f"{message}\nCalled as {self.called}."


class TypingError(TinyjaxError, TypeError):
    """A primitive was given values whose shapes or dtypes it doesn't accept."""


class ShapeError(TypingError, ValueError):
    """A shape, axis or size is wrong."""


class DtypeError(TypingError, ValueError):
    """Values of this dtype aren't taken, where JAX and NumPy have a ValueError."""


class AxisError(ShapeError, IndexError):
    """There is no such axis."""


class ParameterError(TinyjaxError, TypeError, ValueError):
    """A primitive's parameter isn't an immutable, hashable value, or not one that the primitive takes: `parameter`."""

    def __init__(self, message: str = "", parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class VerificationError(TinyjaxError, TypeError):
    """A jaxpr is malformed or ill-typed."""


class ParseError(TinyjaxError, ValueError):
    """A text is not that of a valid program.

    `problem` says what is wrong; `line` and `column` (counted from 1) where; `shown` is that line of the text, and a
    caret under the place.
    """

    def __init__(self, problem: str, line: int, column: int, shown: str, file: str | None = None) -> None:
        self.problem: str = problem
        self.line: int = line
        self.column: int = column
        self.shown: str = shown
        self.file: str | None = file
        super().__init__(problem, line, column, shown, file)

    @override
    def __str__(self) -> str:
        place = f"{self.file}, line" if self.file else "line"
        return f"{place} {self.line}, column {self.column}: {self.problem}\n\n{self.shown}"


class RegistryError(TinyjaxError, LookupError):
    """A registry lacks a class that a program names, or two classes have the same name."""


class RewriteError(TinyjaxError, ValueError):
    """A rewriting rule gives something else than what it replaces, or never comes to an end."""


class MissingRuleError(TinyjaxError, NotImplementedError):
    """A primitive lacks the rule that a transformation needs."""

    @staticmethod
    def of(primitive: str, cls: type, rule: str, method: str) -> MissingRuleError:
        """The error for a rule that would be a method of the primitive's class."""
        return MissingRuleError(
            f"{rule} for '{primitive}' not implemented. To add it, define the method `{method}` of {cls.__name__}."
        )


class UndefinedRuleError(MissingRuleError, AttributeError):
    """A function with a rule of its own was called before it got the rule."""


class ContractError(TinyjaxError, TypeError):
    """A rule of a primitive returned something else than such a rule returns."""


class LinearityError(TinyjaxError, ValueError):
    """A program that must be linear in some inputs isn't."""


class LawError(TinyjaxError, AssertionError):
    """A program breaks a law that every program must obey: `tinyjax.testing.check_laws` says so.

    `law` is its name, `difference` what is found and what was expected, `program` the smallest beginning of the program
    that breaks it, and `equation` the one that it ends with, if one is to blame.
    """

    def __init__(self, law: str, difference: str, program: object, equation: object = None) -> None:
        self.law: str = law
        self.difference: str = difference
        self.program: object = program
        self.equation: object = equation
        super().__init__(law, difference, program, equation)

    @override
    def __str__(self) -> str:
        source = getattr(self.equation, "source", None)
        first = f"\nThe first equation with which it does: {self.equation}" if self.equation is not None else ""
        place = f"\nat {source.location}" if source is not None else ""
        return f"the program breaks the law {self.law!r}: {self.difference}{first}{place}\nin\n{self.program}"


class DerivativeError(TinyjaxError, AssertionError):
    """A derivative isn't what differences of the function's values are."""


class ForwardModeError(TinyjaxError, TypeError):
    """Forward-mode differentiation of a function that has a rule for reverse mode only."""


class InputError(TinyjaxError, TypeError):
    """An argument is not an array, or not of a kind that the function takes."""


class IntegerSizeError(InputError, OverflowError):
    """An integer doesn't fit in the dtype that it would have."""


class ChoiceError(InputError, ValueError):
    """An argument, or its dtype, isn't one of the few that the function takes."""


class UnforeseenError(InputError, ValueError, IndexError):
    """A function failed on its arguments by an error of Python's or NumPy's, which is the cause of this one."""


class DeviceError(ChoiceError, RuntimeError):
    """There is no such device, or platform, here."""


class PaddingError(ChoiceError, RuntimeError):
    """A padding of windows isn't one of the few that have names."""


class ShardingError(InputError, ValueError):
    """An array can't lie on a mesh as it was said, or a mesh can't be made."""


class NoMeshError(ShardingError, RuntimeError):
    """A PartitionSpec says how an array lies, and no mesh is in force that it could be about."""


class ShardingTypeError(ShardingError):
    """The result of an operation might lie on the Explicit axes of a mesh in several ways, and nothing says how."""


class VaryingError(TypingError, ShardingError):
    """A value varies along an axis of a mesh along which it has to be the same on all devices, or the other way."""


class TangentError(InputError, ValueError):
    """A tangent or a cotangent isn't of the type that the value has whose it is, or there are too many."""


class RefError(InputError, ValueError):
    """A Ref is used as if it were an array, or where it can't be read or written."""


class RuleResultError(InputError, ValueError):
    """What a rule that the user has written returned doesn't fit what it is a rule for."""


class IndexingError(TinyjaxError, IndexError):
    """An index is out of range, or there are too many, or it is no index."""


class IndexKindError(IndexingError, TypeError):
    """What stands in brackets is no index: NumPy's error is an IndexError, JAX's a TypeError."""


class UnsupportedError(TinyjaxError, NotImplementedError):
    """Something that JAX or NumPy has and tinyjax doesn't, or not yet."""


class UnsupportedShardingError(ShardingError, UnsupportedError):
    """An array may lie so on a mesh, but not there."""


class UnreducedError(ShardingTypeError, VaryingError, UnsupportedError):
    """Something that isn't linear is to be done with a sum that the devices of a mesh have yet to make."""


class NestedOptionsError(UnsupportedError, ValueError):
    """A function has options of XLA's, but becomes part of another one, which is compiled as a whole."""


class UnsupportedDtypeError(TypingError, UnsupportedError):
    """Routines of LAPACK, which have no floats of 16 bits and fewer, and what else JAX has no kernel for."""


class SettingError(UnsupportedError, AttributeError):
    """JAX has a setting of the process that isn't known here."""


class ImmutableArrayError(TinyjaxError, TypeError):
    """An attempt to write to an array."""


class TreeError(TinyjaxError, ValueError, TypeError):
    """Two trees that must match differ, or a class can't become a node of trees."""


class BatchSizeError(TinyjaxError, ValueError):
    """The mapped axes of `vmap` are missing or of different sizes."""


class BatchedPredicateError(TinyjaxError, ValueError, NotImplementedError):
    """The predicate of a `cond` differs from element to element of a batch, which isn't allowed there."""


class AxisNameError(TinyjaxError, NameError):
    """A named axis is not bound by any enclosing `vmap`."""


class PermutationError(AxisNameError, ValueError, IndexError):
    """An exchange between elements of a named axis names some that aren't there, or one of them twice."""


class VaryingAxisError(AxisNameError, VaryingError):
    """What a collective or cast needs along a named axis of a mesh isn't so, or the axis is none of a mesh."""


class ConcretizationError(TinyjaxError, TypeError):
    """Python asked for the number behind a value that has none yet."""


class TracerBoolConversionError(ConcretizationError):
    """Python asked whether a value holds that has no elements yet: in `if`, `while`, `and`, `not`, a comparison."""


class TracerIntegerConversionError(ConcretizationError):
    """Python asked for the integer behind a value that has none yet: in `range`, for an index, a size or an axis."""


class TracerShardingError(ConcretizationError, AttributeError):
    """Python asked how a value lies on devices that has no elements yet; `hasattr(x, "sharding")` is False."""


class TracerArrayConversionError(ConcretizationError):
    """NumPy or another library asked for the elements of a value that has none yet."""


class NonConcreteBooleanIndexError(ConcretizationError, IndexError):
    """A mask whose elements aren't known yet was to choose elements: their number would decide a shape."""


class LeakedTracerError(TinyjaxError, ValueError, TypeError):
    """A tracer was used after the transformation that made it had ended."""

    @staticmethod
    def outside(aval: object) -> LeakedTracerError:
        """The error for a value that no transformation in progress traces."""
        return LeakedTracerError(
            f"a traced value of type {aval} was used outside the transformation that made it. Return it from the "
            "transformed function instead of storing it."
        )

    @staticmethod
    def no_lift(context: type, aval: object) -> LeakedTracerError:
        """The error for a user's context that doesn't say what stands for the values of others."""
        return LeakedTracerError(
            f"{context.__name__} can't take a value of type {aval} that a transformation further out is "
            f"tracing. Define the method `lift` of {context.__name__}, which says what stands for it there."
        )


class UnexpectedTracedError(InputError, LeakedTracerError):
    """A function that takes arrays with elements only, or has a rule of its own, was given or closes over a tracer."""


class RecursiveTracingError(TinyjaxError, RecursionError):
    """A function is traced inside itself without end."""


class StaticArgumentError(TinyjaxError, ValueError, TypeError):
    """A static argument can't be hashed, or doesn't exist."""


class LoweringError(TinyjaxError, NotImplementedError):
    """A program can't be expressed in StableHLO."""


class UnhandledCheckError(LoweringError, ValueError):
    """A program that is to be compiled has a check in it, which `checkify` would make a result of it."""


class CheckError(TinyjaxError, ValueError):
    """A check failed: `experimental.checkify.check`, or one that `checkify` added."""


class XlaError(TinyjaxError, RuntimeError):
    """XLA refused to compile or to run a program."""


class AllocationError(UnforeseenError, XlaError, MemoryError):
    """There isn't memory for what a function was to make of its arguments."""


class NonFiniteError(TinyjaxError, FloatingPointError):
    """A result has nan or inf in it, where `debug_nans` or `debug_infs` asked to be told."""


class ForkedProcessError(TinyjaxError, RuntimeError):
    """XLA was to be used in a process that was forked from one which had used it."""


class AddressError(TinyjaxError, RuntimeError):
    """Elements of an array are on devices of other processes."""


class DistributedError(TinyjaxError, RuntimeError):
    """Several processes can't work together: one is gone, or has never come, or they can't be connected."""


class DisagreementError(DistributedError, ValueError):
    """Processes that work together don't launch the same program, or not with the same arguments."""


class UnequalError(DisagreementError, AssertionError):
    """Processes that work together don't have the same, where a program asserts that they do."""


class DeletedBufferError(TinyjaxError, RuntimeError, ValueError):
    """An array was used after its buffer had been donated or deleted."""


class DonationError(InputError, RuntimeError):
    """An array is donated, and is another argument of the same call, too."""


class CallbackError(TinyjaxError, ValueError, NotImplementedError):
    """A Python callback was transformed in a way that it doesn't support, or didn't return what it promised."""


class FileFormatError(TinyjaxError, ValueError):
    """A file is no program, and no checkpoint: truncated, damaged, too new, or it refers to what isn't there."""


class DataflowError(TinyjaxError, ValueError):
    """A dataflow analysis was given the wrong number of facts, or its facts never settle."""


class KeyReuseError(TinyjaxError, ValueError):
    """A key of random numbers is used twice, so that the same numbers are drawn twice."""


class X64DisabledError(TinyjaxError, TypeError):
    """A program or an array has 64-bit numbers, and JAX, which is to compute with them, has them switched off."""


class GraphvizError(TinyjaxError, RuntimeError):
    """Graphviz was asked to draw something, and isn't installed or failed."""


class ReplicationWarning(UserWarning):
    """A large input or result of a program for several devices isn't divided: each of them has all of it."""


class DonationWarning(UserWarning):
    """An argument is donated to a program none of whose results can have its memory: it is left alone."""


class LossyUpdateWarning(FutureWarning):
    """Values are put into an array whose dtype can't hold them, such as floats into integers: they are cast."""


class CompilationCacheWarning(RuntimeWarning):
    """The cache of compiled programs on disk could not be read or written. The program is compiled, and runs."""


#: By JAX's names: what programs that were written for it catch.
ConcretizationTypeError = ConcretizationError
UnexpectedTracerError = LeakedTracerError
JaxRuntimeError = XlaError
JAXTypeError = InputError
JAXIndexError = IndexingError
JaxprTypeError = TypingError
