"""Greets whoever calls."""


def main(params):
    name = params.get("name", "world")
    print("called by", name)
    return {"greeting": f"Hello, {name}!"}
