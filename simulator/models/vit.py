"""Vision transformers (Dosovitskiy et al. 2021) from timm.

ViT-B/16 and ViT-B/32 of FedL2G's HtM10, and ViT-S/16 with 8 to 12 blocks of InCo Aggregation, each nested in the next
by name and shape.

A transformer is built for the images' own size, rounded up to whole patches. Images of another size (28 pixels, patches
of 16) are resized by bilinear interpolation in the forward pass. `data.size = 224` gives it the papers' input.
"""

from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from simulator.models.images import FEATURES
from simulator.models.network import HiddenHead, Network, to_width
from simulator.models.registry import ImageShape, register


class ViT(Network):
    """patches → blocks of attention and MLP → the class token's features → head C.

    Representation `block<i>` holds all tokens [B, 1 + patches, width]. Without `features`, K is the width, and the head
    is linear. With it, the features are pooled to that K, and the head is K → width → tanh → C.
    """

    published = "vit."

    def __init__(
        self,
        shape: ImageShape,
        num_classes: int,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        features: int | None = None,
    ) -> None:
        super().__init__()
        from timm.models.vision_transformer import VisionTransformer

        self.size = (-(-shape.height // patch) * patch, -(-shape.width // patch) * patch)
        self.vit: Any = VisionTransformer(
            img_size=self.size,
            patch_size=patch,
            in_chans=shape.channels,
            num_classes=0,
            embed_dim=width,
            depth=depth,
            num_heads=heads,
        )
        plain_attention(self.vit)
        self.head = (
            nn.Linear(width, num_classes)
            if features is None
            else HiddenHead(features, [width], num_classes, nn.Tanh)
        )
        self.layers = (*(f"block{number + 1}" for number in range(depth)), "features")

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        if x.shape[2:] != self.size:
            x = F.interpolate(x, self.size, mode="bilinear", antialias=True)
        x = self.vit._pos_embed(self.vit.patch_embed(x))
        shown = {}
        for number, block in enumerate(self.vit.blocks, start=1):
            shown[f"block{number}"] = x = block(x)
        return shown | {"features": to_width(self.vit.norm(x)[:, 0], self.num_features)}

    def stages(self) -> tuple[tuple[str, ...], ...]:
        blocks = (f"vit.blocks.{number}" for number in range(len(self.vit.blocks)))
        return tuple((f"{each}.norm1.weight", f"{each}.norm2.weight") for each in blocks)


def plain_attention(module: nn.Module) -> None:
    """Compute attention step by step: the fused kernels have no forward-mode derivative, which FedL2G needs."""
    for part in module.modules():
        if hasattr(part, "fused_attn"):
            part.fused_attn = False  # type: ignore[assignment]


for _patch in (16, 32):
    register(f"vit_b_{_patch}", f"ViT-B/{_patch}: patches of {_patch}, twelve blocks of 768, own head")(
        partial(ViT, patch=_patch, width=768, depth=12, heads=12, features=FEATURES)
    )
for _depth in range(8, 13):
    register(f"vit_s{_depth}", f"ViT-S/16 of {_depth} blocks of 384")(
        partial(ViT, patch=16, width=384, depth=_depth, heads=6)
    )
register("tiny_vit1", "patches of 4, one block of 8")(partial(ViT, patch=4, width=8, depth=1, heads=2))
register("tiny_vit2", "patches of 4, two blocks of 8")(partial(ViT, patch=4, width=8, depth=2, heads=2))
