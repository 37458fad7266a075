"""Computes t-SNE of kept rounds."""

from simulator.results.analysis.run import SessionData
from simulator.results.inspection.embedding import Embedding
from tui.app.embedding_process import EmbeddingProcess, images_of
from tui.app.round_computer import RoundComputer


class Embedder(RoundComputer[Embedding]):
    """`View.embeddings` has the results."""

    name, results = "t-SNE", "embeddings"

    def process(self, run: SessionData, round: int) -> EmbeddingProcess:
        images = images_of(int(run.config["federation"]["clients"]))
        return EmbeddingProcess(run.folder, self._data_dir, round, images)
