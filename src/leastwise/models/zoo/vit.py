"""Vision transformers (Dosovitskiy et al., ICLR 2021) for 32-pixel images, on patches of 4 pixels: the small size
(width 384, 12 blocks, 6 heads) and the tiny one (width 192, 3 heads).

Names of timm (`patch_embed.proj`, `blocks.0.attn.qkv`, `head`). No dropout and no stochastic depth.
"""

import torch
from torch import nn
from torch.nn import functional as F

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import Maps, Tokens, Vectors, chain

EPS = 1e-6  # of the layer norms, as in the authors' code; torch's default is 1e-5
INITIAL_STD = 0.02


class Attention(nn.Module):
    """softmax(q kᵀ / √d) v in several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tokens) -> Tokens:
        qkv = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        return self.proj(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, EPS)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, EPS)
        self.mlp = chain(fc1=nn.Linear(width, 4 * width), gelu=nn.GELU(), fc2=nn.Linear(4 * width, width))

    def forward(self, x: Tokens) -> Tokens:
        h = x + self.attn(self.norm1(x))
        return h + self.mlp(self.norm2(h))


class VisionTransformer(nn.Module):
    """Patches and one class token through the layers; the class token goes to the head."""

    def __init__(self, shape: Shape, k: int, patch: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        channels, height, wide = shape
        patches = (height // patch) * (wide // patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + patches, width))
        self.patch_embed = chain(proj=nn.Conv2d(channels, width, patch, patch))
        self.blocks = nn.Sequential(*(Layer(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, EPS)
        self.head = nn.Linear(width, k)
        nn.init.trunc_normal_(self.pos_embed, std=INITIAL_STD)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=INITIAL_STD)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Maps) -> Vectors:
        patches = self.patch_embed(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(patches.shape[0], -1, -1), patches], dim=1)
        return self.head(self.norm(self.blocks(tokens + self.pos_embed))[:, 0])


def vit(shape: Shape, k: int, patch: int, *, width: int, depth: int, heads: int) -> nn.Module:
    _, height, wide = shape
    if height % patch or wide % patch:
        raise ValueError(
            f"this transformer cuts images into patches of {patch} x {patch} pixels, but saw {height} x {wide}: "
            f"pad or resize to a multiple of {patch}"
        )
    return VisionTransformer(shape, k, patch, width, depth, heads)


def vit_tiny(shape: Shape, k: int) -> nn.Module:
    return vit(shape, k, patch=4, width=192, depth=12, heads=3)


def vit_small(shape: Shape, k: int) -> nn.Module:
    return vit(shape, k, patch=4, width=384, depth=12, heads=6)
