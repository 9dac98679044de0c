def main(params):
    return {"greeting": f"Hello, {params['name']}!"}
