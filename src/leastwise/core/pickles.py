"""A look at a pickle before it is opened: nothing is built, but what building it would cost is counted.

A reader that refuses code can still be kept busy for ever. A tuple may hold another one twice, and that one a third one
twice: forty levels fit into two hundred bytes, and hashing such a key takes as many steps as it has leaves, 2⁴⁰.
"""

import pickle
import pickletools
from io import BufferedIOBase
from typing import IO, NamedTuple, cast

MOST_HASHED = 10_000_000  # leaves of all keys together: a second
MOST_LEVELS = 200  # of tuples inside tuples: Python hashes them on the stack of the process
PLAIN_KEY = 1000  # leaves of a tuple that may be in a set, of which the number is not known
SETS = ("set", "frozenset", "Counter")
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
REMEMBER = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
RECALL = ("GET", "BINGET", "LONG_BINGET")


class HashCost(NamedTuple):
    """Of hashing a value."""

    leaves: int = 1
    levels: int = 0


MARK = HashCost(0, -1)
PLAIN = HashCost()


class CountingReader:
    """The stack and the memory of an unpickler, with what values cost to hash in the place of the values."""

    def __init__(self) -> None:
        self.stack: list[HashCost] = []
        self.memory: dict[int, HashCost] = {}
        self.hashed, self.largest, self.sets = 0, 0, False

    def pop(self, count: int) -> list[HashCost]:
        if count > len(self.stack):
            raise pickle.UnpicklingError("it takes more than was put there")
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def pop_mark(self) -> list[HashCost]:
        taken = []
        while (one := self.pop(1)[0]) is not MARK:
            taken.append(one)
        return taken[::-1]

    def push_tuple(self, items: list[HashCost]) -> None:
        made = HashCost(1 + sum(item.leaves for item in items), 1 + max((item.levels for item in items), default=0))
        if made.levels > MOST_LEVELS:
            raise pickle.UnpicklingError("its tuples are nested too deeply")
        self.largest = max(self.largest, made.leaves)
        self.stack.append(made)

    def hash_all(self, keys: list[HashCost]) -> None:
        self.hashed += sum(key.leaves for key in keys)

    def read(self, code: pickletools.OpcodeInfo, argument: object) -> None:
        """One step of the unpickler."""
        name = code.name
        if name in TUPLES:
            self.push_tuple(self.pop(TUPLES[name]))
        elif name == "TUPLE":
            self.push_tuple(self.pop_mark())
        elif name in REMEMBER:
            place = len(self.memory) if name == "MEMOIZE" else argument
            assert isinstance(place, int)
            self.memory[place] = (self.stack or [PLAIN])[-1]
        elif name in RECALL:
            assert isinstance(argument, int)
            self.stack.append(self.memory.get(argument, PLAIN))
        elif name == "MARK":
            self.stack.append(MARK)
        elif name == "DUP":
            self.stack.append((self.stack or [PLAIN])[-1])
        elif name == "SETITEM":
            self.hash_all(self.pop(2)[:1])
        elif name in ("SETITEMS", "DICT"):
            self.hash_all(self.pop_mark()[::2])
            self.stack += [PLAIN] if name == "DICT" else []
        elif name in ("ADDITEMS", "FROZENSET"):
            self.hash_all(self.pop_mark())
            self.stack += [PLAIN] if name == "FROZENSET" else []
        else:
            self.read_other(code)
            self.sets = self.sets or (isinstance(argument, str) and argument.split(" ")[-1] in SETS)
        if self.hashed > MOST_HASHED or (self.sets and self.largest > PLAIN_KEY):
            raise pickle.UnpicklingError("its keys would take too long to read")

    def read_other(self, code: pickletools.OpcodeInfo) -> None:
        """A step whose result is no tuple; what is made by a call may keep what the call was given."""
        before, after = list(code.stack_before), list(code.stack_after)
        taken: list[HashCost] = []
        if pickletools.markobject in before:
            taken = self.pop_mark()
            before = before[: before.index(pickletools.markobject)]
        taken += self.pop(len(before))
        kept = HashCost(max((one.leaves for one in taken), default=1), max((one.levels for one in taken), default=0))
        self.stack += [kept] * len(after)


def check_pickle(file: IO[bytes] | BufferedIOBase) -> None:
    """Walk over the next pickle of a file; raises UnpicklingError for one that is damaged or would take too long."""
    reader = CountingReader()
    try:
        for code, argument, _ in pickletools.genops(cast("IO[bytes]", file)):
            reader.read(code, argument)
    except (ValueError, AssertionError, RecursionError, OverflowError, IndexError) as error:
        raise pickle.UnpicklingError(str(error) or "it is damaged") from None
