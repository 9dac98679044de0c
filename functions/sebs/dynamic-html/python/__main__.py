"""A page made from a template: a greeting and a list of numbers that look random."""

from pathlib import Path

from jinja2 import Template

TEMPLATE = Template((Path(__file__).parent / "page.html").read_text())


def numbers(count, seed):
    state = seed
    for _ in range(count):
        state = state * 48271 % 2147483647
        yield state % 1000000


def main(params):
    return {"html": TEMPLATE.render(user=params["user"], numbers=numbers(params["items"], params["seed"]))}
