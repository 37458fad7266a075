"""The section `data`: which samples there are, and how they are divided over the clients."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from simulator.base.sections import Section

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
"""The ends of the names of files that are tables."""
COLUMNS = ("target", "client", "ignore", "text", "numbers", "decimal", "thousands", "missing", "fill")
"""Keys of a table's columns and cells."""
OF_COLUMNS: dict[str, object] = {"decimal": ".", "thousands": None, "missing": [], "fill": None}
"""Keys of a table's cells with their defaults. A session records them if they are set."""
Dividing = Literal["pathological", "dirichlet", "iid", "extended_dirichlet", "inner_dirichlet", "shards"]
"""The partitions of samples that need no users and no file."""
READ_BY: dict[str, dict[str, tuple[str, ...]]] = {
    "classes_per_client": {"partition": ("pathological", "extended_dirichlet")},
    "shards_per_client": {"partition": ("shards",)},
    "alpha": {"partition": ("dirichlet", "extended_dirichlet", "inner_dirichlet")},
    "cap": {"partition": ("dirichlet", "extended_dirichlet")},
    "quantity": {"partition": ("pathological", "iid", "inner_dirichlet")},
    "sigma": {"quantity": ("lognormal",)},
    "min_samples": {
        "partition": ("dirichlet", "extended_dirichlet", "natural"),
        "quantity": ("pfllib", "lognormal"),
    },
}
"""The keys that only some partitions or quantities read, with these. One of them is enough.

An event of `federation.timeline` with nothing but such a key means the first of its partitions.
"""


def _readers(key: str) -> str:
    """Text, such as: partition 'a' or 'b', or quantity 'c'."""
    return ", or ".join(f"{other} {' or '.join(map(repr, values))}" for other, values in READ_BY[key].items())


def has_columns(dataset: str) -> bool:
    """Whether a name is that of a user's table, or of a data set of Hugging Face."""
    return dataset.lower().endswith(TABLES) or dataset.startswith("hf:")


def is_own(data: Mapping[str, Any]) -> bool:
    """Whether a section names samples of the user or of Hugging Face. Paths are absolute in it."""
    return any("/" in str(data.get(key)) for key in ("dataset", "public"))


class DataConfig(Section):
    """Which images there are and how they are divided over the clients."""

    dataset: str = "digits"
    """Data set: a name from `htfl-sim datasets`, a folder of images, an .npz, .csv, .tsv, .csv.gz, or .parquet
    file, hf:OWNER/NAME, or hf:./FOLDER."""
    target: str | None = None
    """Column with the class of each row, for a CSV or Parquet file or an hf: data set."""
    client: str | None = None
    """Column with the user of each row, for a table or an hf: data set and partition 'natural'."""
    text: str | None = None
    """Column of texts to train on, for a table or an hf: data set."""
    ignore: tuple[str, ...] = ()
    """Columns of a table or an hf: data set to leave out."""
    labels: str | None = None
    """CSV file in a folder of images, with a column of their files and a column of classes (data.target)."""
    domains: bool | Literal["found"] | None = None
    """Whether the first folders of a folder of images are domains with class folders in each. Default: they are
    classes, and a folder that can be read in both ways is refused. Older sessions have 'found'."""
    numbers: tuple[str, ...] | Literal["inferred"] | None = None
    """Columns of a table that have only numbers. Other columns with numbers and texts are texts. Default: columns
    whose cells are all numbers; a mixed column is an error. Older sessions have 'inferred'."""
    decimal: Literal[".", ","] = "."
    """Decimal mark of the numbers in a table's texts."""
    thousands: Literal[",", ".", " ", "'"] | None = None
    """Mark between groups of three digits in a table's texts. Default: none."""
    missing: tuple[str, ...] = ()
    """Texts in a table that mean a missing value, such as '?'. An empty cell always does."""
    fill: Literal["mean", "median", "frequent"] | None = None
    """Value of missing numbers: the column's mean, median, or most frequent value in the clients' training parts.
    Missing texts become the most frequent text. Default: a missing value is an error."""
    partition: Literal[Dividing, "natural", "indices"] = "pathological"
    """How samples are divided. Clients hold few classes (pathological, extended_dirichlet), Dirichlet shares
    (dirichlet, inner_dirichlet), shards of sorted samples, any samples (iid), or one user's (natural). 'indices'
    reads them from a file."""
    indices: str | None = None
    """JSON file with every client's train, eval, and test indices, for partition 'indices'."""
    classes_per_client: int = Field(
        2, ge=1, description=f"Number of classes per client, for {_readers('classes_per_client')}."
    )
    shards_per_client: int = Field(
        2, ge=1, description=f"Number of shards per client, for {_readers('shards_per_client')}."
    )
    domains_per_client: int | None = Field(None, ge=1)
    """Number of domains per client; each domain is divided separately. Default: any number."""
    alpha: float = Field(
        0.5, gt=0, description=f"Concentration α of the class shares, for {_readers('alpha')}."
    )
    cap: bool = Field(
        True,
        description=f"Stop adding samples once a client holds n/N of the data (FedDF), for {_readers('cap')}.",
    )
    quantity: Literal["varied", "equal", "lognormal", "pfllib"] = Field(
        "varied",
        description=f"Sizes of the shares, for {_readers('quantity')}. 'pfllib' also deals classes as PFLlib does.",
    )
    sigma: float = Field(
        0.3, ge=0, le=10, description=f"Deviation σ of the logarithms of the shares, for {_readers('sigma')}."
    )
    min_samples: int = Field(
        10,
        ge=1,
        description=f"Least number of samples per client, for {_readers('min_samples')}.",
    )
    split: str = "8:1:1"
    """Shares of train:test or train:eval:test. 'global' uses the data set's own test set, and 'own' each user's
    part of it, for partition 'natural'."""
    limit: int | None = Field(None, ge=1)
    """Use only this many samples, drawn at random."""
    pool: Literal["tuning", "final"] | None = None
    """Use one fifth of all samples, for tuning, or the other four fifths, for final runs. The two are disjoint for
    every seed. Default: all samples."""
    public: float | str | None = None
    """Public samples, which the server and every client have: a share of the samples, such as 0.1, or a data set
    without its test set. Clients divide the rest. Default: none."""
    public_limit: int | None = Field(None, ge=2)
    """Use only this many samples of the data set in data.public, drawn at random."""
    statistics: Literal["pooled", "client", "all"] = "pooled"
    """Source of means and deviations: the training parts of the clients of round 1 (pooled), or each client's own
    training part (client). Older sessions have 'all'."""
    size: int | None = Field(None, ge=1)
    """Side in pixels of the square to which images are scaled. Default: no scaling."""
    rgb: bool = False
    """Give gray images three equal channels."""

    @property
    def infers(self) -> bool:
        """The rule of older sessions: pandas infers the types of cells, and a column has texts if any cell has."""
        return self.numbers == "inferred"

    @property
    def finds_domains(self) -> bool:
        """The rule of older sessions: folders of folders are domains; deeper images and EXIF are ignored."""
        return self.domains == "found"

    def reads(self, key: str) -> bool:
        """Whether a key of `READ_BY` has an effect here."""
        return any(getattr(self, other) in values for other, values in READ_BY[key].items())

    @model_validator(mode="after")
    def _settings_fit_together(self) -> "DataConfig":
        if self.quantity == "pfllib" and self.partition != "pathological":
            raise ValueError("quantity 'pfllib' deals out classes; it belongs to partition 'pathological'")
        if self.decimal == self.thousands:
            raise ValueError(
                f"decimal and thousands are both '{self.decimal}'; use another mark for one of them"
            )
        if (self.partition == "indices") != (self.indices is not None):
            raise ValueError("partition 'indices' and the file data.indices belong together; give both")
        if self.indices is not None and self.limit is not None:
            raise ValueError("limit would give other images the indices' numbers; leave it out")
        if self.indices is not None and self.pool is not None:
            raise ValueError("pool would give other images the indices' numbers; leave it out")
        if self.indices is not None and self.domains_per_client is not None:
            raise ValueError("domains_per_client has no effect with indices; leave it out")
        if isinstance(self.public, float) and not 0 < self.public < 1:
            raise ValueError(f"public = {self.public:g} is no share between 0 and 1, such as 0.1")
        if isinstance(self.public, float) and self.indices is not None:
            raise ValueError(
                "a share in public would give other images the indices' numbers; name a data set"
            )
        if self.public_limit is not None and not isinstance(self.public, str):
            raise ValueError("public_limit is for a data set in public; a share has its size")
        if self.partition == "natural" and self.domains_per_client is not None:
            raise ValueError(
                "partition 'natural' gives each client one user; remove domains_per_client, or use another partition"
            )
        if self.split == "own" and self.partition != "natural":
            raise ValueError(
                "split 'own' keeps the test samples of each user; it belongs to partition 'natural'"
            )
        for key in ("classes_per_client", "shards_per_client"):
            if self.reads(key) and (self.domains_per_client or 1) > 1:
                raise ValueError(
                    f"partition '{self.partition}' deals out {key.partition('_')[0]} domain by domain, so that clients "
                    f"of several domains would hold more of them than {key}; use domains_per_client 1, or partition "
                    "'iid' or 'dirichlet'"
                )
        return self

    @field_validator("ignore", "numbers", "missing", mode="before")
    @classmethod
    def _one_name_is_a_list(cls, given: object, about: ValidationInfo) -> object:
        """A name or text alone is a list of one. A shell takes quotes away, so -9 is a text that means missing."""
        names = given if isinstance(given, list | tuple) else [given]
        if about.field_name == "missing":
            return tuple(str(each) if type(each) is int else each for each in names)
        return (given,) if isinstance(given, str) and given != "inferred" else given

    @field_validator("split")
    @classmethod
    def _split_has_no_empty_part(cls, split: str) -> str:
        if split not in ("global", "own"):
            split_shares(split)
        return split


def split_shares(split: str) -> tuple[float, ...]:
    """The shares of a split such as '8:1:1', adding up to 1. Raises ValueError for one with an empty part."""
    try:
        parts = [float(part) for part in split.split(":")]
    except ValueError:
        parts = []
    if len(parts) not in (2, 3):
        raise ValueError(
            f"'{split}' is not a split. Use 'train:test', 'train:eval:test' (as 8:1:1), 'global', or 'own'"
        )
    if not all(part > 0 and math.isfinite(part) for part in parts):
        raise ValueError(f"'{split}' leaves a part empty; every part must be above zero")
    return tuple(part / sum(parts) for part in parts)
