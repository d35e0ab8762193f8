"""Builds one graph for `benchmarks.building`, in a process of its own."""

import json
import sys

from benchmarks import building
from replicate.bench import models

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    case = models.Case(**request["case"])
    print(json.dumps(building.measure(case, request["engine"])))
