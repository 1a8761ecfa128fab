"""Writes data sets that are as dirty as MovieLens and Criteo: the same bytes for the same seed.

    python tests/tf/dirty_data.py FOLDER [--rows 20000] [--seed 1]

| file | rows like | dirt |
| --- | --- | --- |
| movies.csv | MovieLens with titles: user, movie, title, genres, year, timestamp, liked | bags such as `Action|Comedy`, films without \
genres, missing and `NA` years, quoted titles with commas, users with one row, labels written as 1.0 and 0.0 |
| criteo.tsv | Criteo: label, I1 to I13, C1 to C26 | no header, missing numbers and ids, negative and huge counts, ids seen once |
| criteo.tfrecord | the same rows as DeepCTR writes them | float labels; what is missing is not in the Example |
"""

import argparse
import csv
import math
import os
import random

GENRES = ["Action", "Adventure", "Comedy", "Drama", "Horror", "Romance", "Sci-Fi", "Thriller"]
INTEGERS = [f"I{at}" for at in range(1, 14)]
IDS = [f"C{at}" for at in range(1, 27)]


def _sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def _rare(draw, most):
    """An id below `most`; small ones are frequent, most are seen once or never."""
    return int(most ** draw.random()) - 1


def movies(rows, seed):
    """Rows of the film ratings, as dictionaries of texts."""
    draw = random.Random(seed)
    taste = {genre: draw.gauss(0, 0.9) for genre in GENRES}
    films = {}
    for _ in range(rows):
        movie = _rare(draw, 5000)
        if movie not in films:
            genres = draw.sample(GENRES, draw.choice([0, 1, 1, 2, 2, 3]))
            title = draw.choice(["Night", "Road, The", 'The "Last" Wave', "Dawn", "Émile"]) + f" {movie}"
            year = draw.choice(["", "NA"]) if draw.random() < 0.15 else str(draw.randint(1930, 2020))
            films[movie] = (title, "|".join(genres) or "(no genres listed)", year, draw.gauss(0, 0.5))
        title, genres, year, quality = films[movie]
        user = _rare(draw, 20000)
        timestamp = draw.randint(1_000_000_000, 1_600_000_000)
        hour = timestamp // 3600 % 24
        score = quality + sum(taste[genre] for genre in genres.split("|") if genre in taste)
        score += 0.8 * math.cos(2 * math.pi * hour / 24) + (0.01 * (int(year) - 1980) if year.isdigit() else -0.5)
        liked = draw.random() < _sigmoid(score)
        yield {
            "user": str(user), "movie": str(movie), "title": title, "genres": genres, "year": year,
            "timestamp": "" if draw.random() < 0.03 else str(timestamp), "liked": f"{float(liked):.1f}",
        }


def criteo(rows, seed):
    """Rows of the click log: the label, then texts, of which empty ones are missing."""
    draw = random.Random(seed)
    weights = [draw.gauss(0, 0.35) for _ in INTEGERS]
    effects = {}
    for _ in range(rows):
        row, score = {}, -1.2
        for name, weight in zip(INTEGERS, weights):
            count = int(math.exp(draw.gauss(1.0, 1.5)))
            if name == "I2" and draw.random() < 0.2:
                count = -draw.randint(1, 3)
            missing = draw.random() < 0.25
            row[name] = "" if missing else str(count)
            score += -0.1 if missing else weight * (math.log1p(max(count, 0)) - 1.3)
        for at, name in enumerate(IDS):
            token = _rare(draw, 10 ** (1 + at % 5))
            missing = at % 4 == 3 and draw.random() < 0.4
            row[name] = "" if missing else f"{(token * 2654435761 + at) % 2**32:08x}"
            if not missing and at < 8:
                score += effects.setdefault((at, min(token, 50)), draw.gauss(0, 0.5))
        yield int(draw.random() < _sigmoid(score)), row


def write(folder, rows=20000, seed=1):
    """Writes all files."""
    with open(os.path.join(folder, "movies.csv"), "w", newline="", encoding="utf-8") as file:
        writer = None
        for row in movies(rows, seed):
            if writer is None:
                writer = csv.DictWriter(file, row)
                writer.writeheader()
            writer.writerow(row)
    import tensorflow as tf

    text = lambda value: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    number = lambda value: tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))
    with open(os.path.join(folder, "criteo.tsv"), "w", newline="") as file, tf.io.TFRecordWriter(
        os.path.join(folder, "criteo.tfrecord")
    ) as records:
        for label, row in criteo(rows, seed):
            file.write("\t".join([str(label), *row.values()]) + "\n")
            feature = {name: (number if name in INTEGERS else text)(value) for name, value in row.items() if value}
            feature["label"] = number(label)
            records.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes data sets as dirty as MovieLens and Criteo.")
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    write(given.folder, given.rows, given.seed)
