"""What every step of the pipeline does beside its own work: it says when it began, and how long it talked to a store."""

import time


class Step:
    def __init__(self, name, params):
        self.name, self.params = name, params
        self.started, self.talked = time.time() * 1000, 0.0

    def talk(self, function, *arguments):
        began = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            self.talked += (time.perf_counter() - began) * 1000

    def answer(self, **more):
        return {
            **self.params,
            **more,
            "startTimes": {**self.params.get("startTimes", {}), self.name: self.started},
            "commTimes": {**self.params.get("commTimes", {}), self.name: self.talked},
        }
