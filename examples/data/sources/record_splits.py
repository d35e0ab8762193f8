"""Divides files of records into parts by position, as the published ImageNet split is made.

Files belong to *official splits*: `train` and, where the data have them, `validation` and `test`.
No record is in two parts:

    test          the official test records; without those, the official validation records; without
                  either, the last `test_fraction` of the training records
    validation    the official validation records, unless they are the test; then the first
                  `validation_fraction` of the training records
    train         the training records that remain
"""

from examples.data.sources.record_shuffling import Shard

OFFICIAL = ("train", "validation", "test")


def divide(official, validation_fraction, test_fraction):
    """Returns the `Shard`s of each part, a dict of lists.

    Args:
        official: Dict of lists of `(path, number of records)` by official split; `train` is there.
        validation_fraction: Share of the training records, rounded to whole records.
        test_fraction: Likewise; both together less than 1.
    """
    shards = {
        split: [Shard(path, 0, count) for path, count in files if count]
        for split, files in official.items()
    }
    train, total = shards["train"], _total(shards["train"])
    begin, end = 0, total
    if not shards.get("test") and not shards.get("validation"):
        end = total - round(test_fraction * total)
        test = _between(train, end, total)
    else:
        test = shards.get("test") or shards["validation"]
    if shards.get("test") and shards.get("validation"):
        validation = shards["validation"]
    else:
        begin = min(round(validation_fraction * total), end)
        validation = _between(train, 0, begin)
    return {"train": _between(train, begin, end), "validation": validation, "test": test}


def _between(shards, low, high):
    """Returns the records from `low` up to `high`, counted over all shards."""
    found, begin = [], 0
    for shard in shards:
        first, last = max(low - begin, 0), min(high - begin, shard.count)
        if first < last:
            found.append(Shard(shard.path, shard.first + first, last - first))
        begin += shard.count
    return found


def _total(shards):
    return sum(shard.count for shard in shards)
