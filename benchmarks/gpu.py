"""`make bench WHAT=gpu`: what `make bench` measures, on one CUDA device. It writes its tables into the page."""

from benchmarks.bench import start

if __name__ == "__main__":
    start("cuda")
