"""The smallest function: parameters in, a JSON object out."""


def main(params):
    return {"greeting": f"Hello, {params.get('name', 'world')}!"}
