"""Counter-based randomness: a number is a function of (seed, purpose, example id, draw, position).

An example's noise therefore does not depend on its place in a batch, on the batch size, on who else
is there, or on what was drawn before; nothing touches torch's global generators.

The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011),
written with int64 tensors so that it runs on the example's own device. The 128-bit counter holds
(position, draw, low id, high id) and the 64-bit key is a hash of seed and purpose, so two different
addresses can never share a block of numbers under one key.
"""

import hashlib
import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from leastwise.core.types import Rows

WORD = 0xFFFFFFFF
ROUND_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
AT_ONCE = 1 << 20  # counters whose words are made at a time

RandomWords = Int[Tensor, "..."]  # unsigned 32-bit words, held in int64


def philox(
    counter: tuple[RandomWords, RandomWords, RandomWords, RandomWords], key: tuple[int, int]
) -> tuple[RandomWords, RandomWords, RandomWords, RandomWords]:
    """Four random words for each counter. In place on copies: half of the time would go into new memory."""
    c0, c1, c2, c3 = (word.clone() for word in counter)
    high = torch.empty_like(c0)
    k0, k1 = key
    for _ in range(ROUNDS):
        # (c0, c1, c2, c3) becomes (high(m1·c2) ^ c1 ^ k0, low(m1·c2), high(m0·c0) ^ c3 ^ k1, low(m0·c0)). The 64-bit
        # products wrap into the sign bit; what is left of it is masked off.
        c0.mul_(ROUND_MULTIPLIERS[0])
        c2.mul_(ROUND_MULTIPLIERS[1])
        torch.bitwise_right_shift(c2, 32, out=high)
        c1.bitwise_xor_(high).bitwise_xor_(k0).bitwise_and_(WORD)
        torch.bitwise_right_shift(c0, 32, out=high)
        c3.bitwise_xor_(high).bitwise_xor_(k1).bitwise_and_(WORD)
        c0, c1, c2, c3 = c1, c2.bitwise_and_(WORD), c3, c0.bitwise_and_(WORD)
        k0, k1 = (k0 + KEY_INCREMENTS[0]) & WORD, (k1 + KEY_INCREMENTS[1]) & WORD
    return c0, c1, c2, c3


@dataclass(frozen=True, eq=False)
class Noise:
    """The randomness of a batch of examples, one independent stream per example id."""

    seed: int
    ids: Int[Tensor, " b"]
    purpose: str = ""
    draw: int | Int[Tensor, " b"] = 0

    def fork(self, purpose: str, draw: int | Int[Tensor, " b"] = 0) -> "Noise":
        """Independent noise for a named use; `draw` counts repetitions of it (restarts, epochs), or one per example.

        The draw it forks from becomes part of the purpose, so a restart differs from epoch to epoch.
        """
        assert isinstance(self.draw, int), "one purpose cannot hold the draws of several examples"
        return replace(self, purpose=f"{self.purpose}#{self.draw}/{purpose}", draw=draw)

    def pick(self, rows: Rows) -> "Noise":
        """The noise of some of the examples: what they draw is unchanged."""
        return replace(self, ids=self.ids[rows], draw=self.draw if isinstance(self.draw, int) else self.draw[rows])

    def uniform(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Float[Tensor, "b ..."]:
        """Uniform in (0, 1). The values have 24 significant bits, so float32 and float64 agree exactly."""
        return self.fill_words(shape, 9, dtype).add_(0.5).mul_(2**-23)

    def normal(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Float[Tensor, "b ..."]:
        """Standard normal, by Box and Muller."""
        u = self.uniform((2, *shape), dtype)
        return (-2 * u[:, 0].log()).sqrt() * (2 * math.pi * u[:, 1]).cos()

    def words(self, shape: tuple[int, ...]) -> Int[Tensor, "b ..."]:
        """Random unsigned 32-bit words, in int64."""
        return self.fill_words(shape, 0, torch.int64)

    def fill_words(self, shape: tuple[int, ...], cut: int, dtype: torch.dtype) -> Shaped[Tensor, "b ..."]:
        """Random words without their lowest bits, as numbers of a type."""
        size = math.prod(shape)
        blocks = -(-size // 4)
        low, high = (self.ids & WORD)[:, None], ((self.ids >> 32) & WORD)[:, None]
        draw = torch.as_tensor(self.draw & WORD, device=low.device).view(-1, 1)
        digest = hashlib.sha256(f"{self.seed}|{self.purpose}".encode()).digest()
        key = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")
        out = torch.empty(len(self.ids), blocks, 4, dtype=dtype, device=self.ids.device)
        each = max(1, AT_ONCE // max(1, len(self.ids)))  # the words of a large image take ten times its own memory
        for first in range(0, blocks, each):
            position = torch.arange(first, min(first + each, blocks), device=self.ids.device).expand(len(self.ids), -1)
            words = philox((position, draw.expand_as(position), low.expand_as(position), high.expand_as(position)), key)
            for place, word in enumerate(words):
                out[:, first : first + each, place] = word.bitwise_right_shift_(cut)
        return out.view(len(self.ids), 4 * blocks)[:, :size].contiguous().view(len(self.ids), *shape)


def random_order(ids: Int[Tensor, " n"], seed: int, purpose: str, *, draw: int = 0) -> Rows:
    """A random order of the examples: positions sorted by a 64-bit word that belongs to each id.

    Removing an example leaves the order of the others as it was.
    """
    words = Noise(seed, ids, f"/{purpose}", draw).words((2,))
    return torch.argsort((words[:, 0] << 31) ^ words[:, 1], stable=True)
