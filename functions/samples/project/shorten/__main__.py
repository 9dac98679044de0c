"""Keeps the first words of a text, and whose it is."""


def name_of(args):
    # Behind an API the path has it: /guestbook/sign/NAME.
    path = args.get("__ow_path", "")
    return path.rsplit("/", 1)[-1] if path else args.get("name", "stranger")


def main(args):
    words = str(args.get("text", "")).split()
    kept = " ".join(words[: args["words"]])
    return {"name": name_of(args), "text": kept + (" …" if len(words) > args["words"] else "")}
